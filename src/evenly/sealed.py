"""Plain data as JSON that is read back whole or refused: a format's name, its version and a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from evenly.errors import DamagedData, NewerFormat


def checksum(content: dict[str, Any]) -> str:
    """The SHA-256 of the content in canonical JSON."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def sealed(content: dict[str, Any], *, kind: str, version: int, indent: int | None = None) -> str:
    """The content as one JSON object with its format, the format's version and a checksum."""
    told = {"format": kind, "format_version": version, **content}
    return json.dumps({**told, "checksum": checksum(told)}, indent=indent)


def opened(
    text: str | bytes,
    *,
    kind: str,
    version: int,
    what: str,
    source: str,
    damaged: Callable[[str], DamagedData] | None = None,
) -> dict[str, Any]:
    """The content that `sealed` was given. `what` and `source` name it in errors: "mapping", "users.json".

    `damaged` makes the error of content that cannot be read, given why, where another remedy is needed than to save it again.
    """

    def refused(why: str) -> DamagedData:
        if damaged is not None:
            return damaged(why)
        return DamagedData(f"{source} is not a saved {what}, or is damaged: {why}. Make and save the {what} again")

    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refused(str(error)) from error
    if not isinstance(content, dict) or content.get("format") != kind:
        raise refused(f"it has no format {kind!r}")
    found = content.get("format_version")
    if isinstance(found, int) and found > version:
        raise NewerFormat(
            f"{source} was saved in format version {found}, and this release reads up to {version}: upgrade evenly"
        )
    if content.pop("checksum", None) != checksum(content):
        raise refused("its checksum does not fit")
    return content
