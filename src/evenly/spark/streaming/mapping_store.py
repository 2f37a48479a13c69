"""The mappings of a streaming query, in versions, in the folder `evenly` of its checkpoint.

    <checkpoint>/evenly/mapping-000003.json   a mapping as `Mapping.save` writes it, never changed
    <checkpoint>/evenly/versions.json         which mappings are in force, since when and why, oldest first

A mapping is written first and counts for nothing until `versions.json` names it. Both are written whole (under another
name, then renamed) and carry checksums, so a driver that dies at any point leaves the old version in force or
the new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from evenly.errors import CheckpointMismatch, DamagedData, EvenlyError
from evenly.keys.mapping import Mapping
from evenly.keys.versions import (
    FORMAT,
    FORMAT_VERSION,
    LOG,
    Version,
    digest_of,
    digests_of,
    mapping_file,
    versions_of,
)
from evenly.sealed import opened, sealed
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.java_errors import Py4JJavaError
from evenly.spark.placing.mapping_check import check_fit, hashed_alike
from evenly.spark.placing.placement import Span
from evenly.spark.state import lineage


def _nothing(step: str) -> None:
    """What happens when a change of mappings reaches a step."""


reached: Callable[[str], None] = _nothing
"""Called with the name of each step of a change as it is reached. Tests replace it to end the process there."""


@dataclass(frozen=True)
class Placement:
    """What a checkpoint is bound to: state keyed in one way cannot be read in another."""

    key: tuple[str, ...]
    instances: int
    slot: str
    window: str | None = None
    types: tuple[str, ...] = ()

    def check(self, mapping: Mapping) -> None:
        """Refuse a mapping that is not for these keys and instances."""
        check_fit(mapping, self.key, self.types, self.instances)

    def told(self) -> dict[str, Any]:
        """As it is written beside the checkpoint."""
        return {**asdict(self), "key": list(self.key), "types": list(self.types)}


class MappingStore:
    """Reads and writes the versions of one query's mapping."""

    def __init__(self, spark: SparkSession, checkpoint: str, placement: Placement) -> None:
        self._spark = spark
        self._checkpoint = Folder(spark, checkpoint)
        self._folder = self._checkpoint.child("evenly")
        self.placement = placement
        self._digests: dict[int, str] = {}
        self._seen = ""  # the digest of the log as this one last read or wrote it
        self._own = False
        self.versions: tuple[Version, ...] = ()

    def load(self) -> tuple[Version, ...]:
        """The versions so far, oldest first; none for a checkpoint that does not exist yet.

        Refused: a query that has begun without them, a broken file, and a placement other than the stored one.
        """
        if not self._folder.has(LOG):
            if self.begun():
                raise CheckpointMismatch(
                    f"the query of checkpoint {self._checkpoint.path} has begun, but {self._folder.path}/{LOG} is missing, so "
                    "nobody knows where its keys are: restore that folder from a backup, or start with a new checkpoint"
                )
            self.versions = ()
            return self.versions
        return self._logged()

    def _logged(self) -> tuple[Version, ...]:
        content = self._read_log()
        self._check_placement(content)
        try:
            self._digests, self.versions = digests_of(content), versions_of(content)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise self._damaged(LOG, str(error)) from error
        return self.versions

    def mapping(self, number: int) -> Mapping:
        """The mapping of a version, as it was written."""
        name = mapping_file(number)
        text = self._read(name)
        if number in self._digests and digest_of(text) != self._digests[number]:
            raise self._damaged(name, f"its checksum is not the one in {LOG}")
        return self._typed(Mapping.from_json(text, source=f"{self._folder.path}/{name}"))

    def _typed(self, mapping: Mapping) -> Mapping:
        """A mapping that knows the types of its key: earlier ones do not say, and Spark refuses state of other types."""
        return mapping if mapping.types else replace(mapping, types=self.placement.types)

    def spans(self) -> tuple[Span, ...]:
        """The mappings in force, by the start of a window."""
        return tuple(Span(self.mapping(number), from_us) for number, from_us in self.versions[-1].spans)

    def proposed(self, number: int) -> bool:
        """Whether a mapping has been written for a version, in force or not."""
        return self._folder.has(mapping_file(number))

    def propose(self, mapping: Mapping) -> None:
        """Write the mapping of a version that is not in force yet."""
        self.check_unchanged()
        text = replace(mapping, columns=self.placement.key, types=self.placement.types).to_json()
        self._folder.write(mapping_file(mapping.version), text)
        self._digests[mapping.version] = digest_of(text.encode())
        reached("proposed")

    def begin(self, mapping: Mapping, reason: str, *, given: bool) -> Mapping:
        """Put the first version of a query that has not begun in force; the mapping that it has then.

        That is the one which another start has put there meanwhile, such as another application's, unless it is of another
        placement, or another one was `given`: both go on under what is written, and not each under its own.
        """
        fitted = replace(mapping, columns=self.placement.key, types=self.placement.types)
        text, name = fitted.to_json(), mapping_file(fitted.version)
        self._own = self._folder.make(name, text)
        if not self._own:
            there = None if given else self._left_by_another(name)
            self._own = there is None
            if there is None:
                self._folder.write(name, text)
            else:
                fitted, text = there, self._read(name).decode()
        self._digests = {fitted.version: digest_of(text.encode())}
        stamped = Version(fitted.version, reason, ((fitted.version, None),), written_at=_now())
        reached("proposed")
        if not self._folder.make(LOG, self._log((stamped,))) and not self._same_log():
            self._folder.write(LOG, self._log((stamped,)))
        self.load()
        reached("enforced")
        return fitted

    def take_back(self) -> None:
        """Remove the first version of a start that failed: it binds nobody. Not if a query has begun, or another wrote it."""
        if self._own and self._is_unchanged() and not self.begun():
            self._folder.remove(LOG)
            self._folder.remove(mapping_file(self.versions[-1].number))

    def _left_by_another(self, name: str) -> Mapping | None:
        """The mapping that is there, if it can be that of this placement."""
        try:
            there = Mapping.from_json(self._read(name))
            self.placement.check(there)
        except EvenlyError:
            return None
        return there if there.columns == self.placement.key and there.types == self.placement.types else None

    def _same_log(self) -> bool:
        """Whether the log that is there is of this placement, and of its first mapping as it is here."""
        wanted = dict(self._digests)
        try:
            found = MappingStore(self._spark, self._checkpoint.path, self.placement)
            return len(found._logged()) == 1 and found._digests == wanted
        except EvenlyError:
            return False

    def enforce(self, version: Version) -> None:
        """Put a version in force. Its mappings must have been proposed."""
        for number, _ in version.spans:
            if number not in self._digests:
                self._digests[number] = digest_of(self._read(mapping_file(number)))
        self._write_log((*self.versions, replace(version, written_at=_now())))
        reached("enforced")

    def note(self, number: int, figures: dict[str, float]) -> None:
        """Add what was measured to a version that is in force; not where another run of the query has written since."""
        if self._is_unchanged():
            self._write_log(
                tuple(replace(it, figures={**it.figures, **figures}) if it.number == number else it for it in self.versions)
            )

    def begun(self) -> bool:
        """Whether the query was ever started: only then may there be state under a mapping, now or as soon as rows come.

        Spark writes `metadata` at the start, and offsets with the first rows. A query that waits for rows may be one of
        another application.
        """
        logs = ("offsets", "commits", lineage.LINEAGES)
        return self._checkpoint.has("metadata") or any(self._checkpoint.child(name).names() for name in logs)

    def _is_unchanged(self) -> bool:
        """Whether the log is what this one last read or wrote."""
        return not self.versions or (self._folder.has(LOG) and digest_of(self._read(LOG)) == self._seen)

    def check_unchanged(self) -> None:
        """Refuse to write over the mappings of another run: its state would be looked for under those of this one."""
        if not self._is_unchanged():
            raise CheckpointMismatch(
                f"another run of the query of checkpoint {self._checkpoint.path} has changed its mapping since this one read "
                f"version {self.versions[-1].number}: run one query on a checkpoint at a time, and ask the one that runs now"
            )

    def _log(self, versions: tuple[Version, ...]) -> str:
        content = {
            **self.placement.told(),
            "mappings": {str(number): digest for number, digest in sorted(self._digests.items())},
            "versions": [{**asdict(version), "spans": [list(span) for span in version.spans]} for version in versions],
        }
        return sealed(content, kind=FORMAT, version=FORMAT_VERSION, indent=1)

    def _write_log(self, versions: tuple[Version, ...]) -> None:
        self.check_unchanged()
        text = self._log(versions)
        self._folder.write(LOG, text)
        self._seen = digest_of(text.encode())
        self.versions = versions

    def _read_log(self) -> dict[str, Any]:
        text = self._read(LOG)
        self._seen = digest_of(text)
        content = opened(
            text,
            kind=FORMAT,
            version=FORMAT_VERSION,
            what="log of mappings",
            source=f"{self._folder.path}/{LOG}",
            damaged=lambda why: self._damaged(LOG, why),
        )
        if not content.get("versions"):
            raise self._damaged(LOG, "it names no version")
        return content

    def _check_placement(self, content: dict[str, Any]) -> None:
        for name, value in self.placement.told().items():
            stored = content.get(name)
            if not self._fits(name, stored, value):
                raise CheckpointMismatch(
                    f"checkpoint {self._checkpoint.path} was begun with {name}={stored!r} and is now asked for "
                    f"{name}={value!r}: its state would not be found. {_remedy(name, stored)}, or a new checkpoint"
                )

    def _fits(self, name: str, stored: Any, asked: Any) -> bool:
        if name == "key":  # one stream is meant, so the names count; not their case
            return [str(it).lower() for it in stored or ()] == [it.lower() for it in asked]
        if name == "types":  # earlier releases did not write them
            return not stored or (len(stored) == len(asked) and all(map(hashed_alike, stored, asked)))
        return bool(stored == asked)

    def _read(self, name: str) -> bytes:
        try:
            return self._folder.read(name, checked_by_caller=True)
        except Py4JJavaError as error:
            raise self._damaged(name, str(error.java_exception.toString())) from error

    def _damaged(self, name: str, why: str) -> DamagedData:
        return DamagedData(
            f"{self._folder.path}/{name} is missing or damaged ({why}): restore it from a backup, or start with a new "
            "checkpoint. The query was not started, because its keys would not find their state"
        )


def _remedy(name: str, stored: Any) -> str:
    return f"Cast the key columns to {', '.join(stored)}" if name == "types" else f"Use {name}={stored!r}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
