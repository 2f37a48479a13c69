"""Folders that commands read without Spark: those of this machine."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlparse

from evenly.errors import InvalidParameter, MissingFile

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def local_folder(given: str, *, what: str, remedy: str = "Copy it here first") -> Path:
    """The folder that is to be `what`, if it is on this machine; `remedy`: what to do with one that is not."""
    if _SCHEME.match(given):
        parts = urlparse(given)
        if parts.scheme.lower() != "file" or parts.netloc:
            raise InvalidParameter(f"{given} is not on this machine: this command reads local folders. {remedy}")
        given = unquote(parts.path)
    path = Path(given)
    if not given or not path.is_dir():
        raise MissingFile(f"there is no folder {given or repr(given)}: give {what}")
    return path
