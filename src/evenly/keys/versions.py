"""The versions of a query's mapping, as they are written beside its checkpoint, read without Spark; and what is asked of it.

<checkpoint>/evenly/mapping-000003.json   a mapping as `Mapping.save` writes it, never changed
<checkpoint>/evenly/versions.json         which mappings are in force, since when and why, oldest first
<checkpoint>/evenly/request.json          an earlier version that somebody wants back, until the query has answered
<checkpoint>/evenly/answer.json           what became of the last request
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from evenly.errors import DamagedData
from evenly.sealed import opened, sealed

FORMAT = "evenly.versions"
FORMAT_VERSION = 1
LOG, REQUEST, ANSWER = "versions.json", "request.json", "answer.json"
_REQUEST, _ANSWER = "evenly.mapping-request", "evenly.mapping-answer"


@dataclass(frozen=True)
class Version:
    """One version of a query's mapping: since when and why it is in force.

    `spans` are the mappings of the query from then on, as (version, first window start in microseconds since 1970);
    without windows there is one. `figures` are what was expected and measured: λ before, expected and after, load moved.
    """

    number: int
    reason: str
    spans: tuple[tuple[int, int | None], ...]
    written_at: str = ""
    figures: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Self:
        """As it is written."""
        return cls(
            number=int(entry["number"]),
            reason=str(entry["reason"]),
            spans=tuple((int(number), None if from_us is None else int(from_us)) for number, from_us in entry["spans"]),
            written_at=str(entry["written_at"]),
            figures={str(name): float(value) for name, value in entry["figures"].items()},
        )


@dataclass(frozen=True)
class VersionLog:
    """What `versions.json` holds: all versions, oldest first, and the digests of their mappings."""

    versions: tuple[Version, ...]
    digests: dict[int, str]
    key: tuple[str, ...]
    instances: int
    window: str | None

    @classmethod
    def from_json(cls, text: bytes, *, source: str) -> Self:
        """The log, if it is whole."""
        content = opened(text, kind=FORMAT, version=FORMAT_VERSION, what="log of mappings", source=source, damaged=_of(source))
        try:
            found = cls(
                versions_of(content),
                digests_of(content),
                tuple(content["key"]),
                int(content["instances"]),
                content.get("window"),
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise _of(source)(str(error)) from error
        if not found.versions:
            raise _of(source)("it names no version")
        return found


def versions_of(content: dict[str, Any]) -> tuple[Version, ...]:
    """The versions of a log."""
    return tuple(Version.of(entry) for entry in content["versions"])


def digests_of(content: dict[str, Any]) -> dict[int, str]:
    """The digest of each version's mapping."""
    return {int(number): digest for number, digest in content["mappings"].items()}


def mapping_file(number: int) -> str:
    """The name of a version's mapping."""
    return f"mapping-{number:06d}.json"


def digest_of(text: bytes) -> str:
    """What a log keeps of a mapping's file."""
    return hashlib.sha256(text).hexdigest()


def _of(source: str) -> Callable[[str], DamagedData]:
    return lambda why: DamagedData(f"{source} is damaged ({why}): restore it from a backup")


@dataclass(frozen=True)
class Request:
    """Somebody wants the mapping of an earlier version back. `identity` tells a request from another."""

    version: int
    identity: str
    asked_at: str

    def to_json(self) -> str:
        """As it is written."""
        return sealed(asdict(self), kind=_REQUEST, version=1)

    @classmethod
    def from_json(cls, text: bytes, *, source: str) -> Self:
        """What `to_json` gave."""
        return cls(**_fields(cls, opened(text, kind=_REQUEST, version=1, what="request", source=source), source))


@dataclass(frozen=True)
class RequestAnswer:
    """What became of a request: the version in force then, and why it is not what was asked for (empty: it is)."""

    request: str
    version: int
    asked_version: int
    refused: str
    answered_at: str

    def to_json(self) -> str:
        """As it is written."""
        return sealed(asdict(self), kind=_ANSWER, version=1)

    @classmethod
    def from_json(cls, text: bytes, *, source: str) -> Self:
        """What `to_json` gave."""
        return cls(**_fields(cls, opened(text, kind=_ANSWER, version=1, what="answer", source=source), source))


def _fields(cls: type, content: dict[str, Any], source: str) -> dict[str, Any]:
    wanted = {name: str if told == "str" else int for name, told in cls.__annotations__.items()}
    found = {name: content.get(name) for name in wanted}
    if any(not isinstance(found[name], kind) or isinstance(found[name], bool) for name, kind in wanted.items()):
        raise _of(source)("a field is missing or has another type")
    return found
