"""Plain data as JSON that is read back whole or refused: a format's name, its version and a checksum."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from evenly.errors import DamagedData, NewerFormat


def checksum(content: dict[str, Any]) -> str:
    """The SHA-256 of the content in canonical JSON."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def sealed(content: dict[str, Any], *, kind: str, version: int) -> str:
    """The content as one JSON object with its format, the format's version and a checksum."""
    told = {"format": kind, "format_version": version, **content}
    return json.dumps({**told, "checksum": checksum(told)})


def opened(text: str | bytes, *, kind: str, version: int, what: str, source: str) -> dict[str, Any]:
    """The content that `sealed` was given. `what` and `source` name it in errors: "mapping", "users.json"."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedData(f"{source} is not a saved {what}, or is damaged: {error}") from error
    if not isinstance(content, dict) or content.get("format") != kind:
        raise DamagedData(f"{source} is not a saved {what}: it has no format {kind!r}")
    found = content.get("format_version")
    if isinstance(found, int) and found > version:
        raise NewerFormat(
            f"{source} was saved in format version {found}, and this release reads up to {version}: upgrade evenly"
        )
    if content.pop("checksum", None) != checksum(content):
        raise DamagedData(f"{source} is damaged: its checksum does not fit. Make and save the {what} again")
    return content
