"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file so that a reader sees the old content or the new, never a part."""
    target = Path(path)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(partial).chmod(0o644)
        Path(partial).replace(target)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


class KeptInFile(ABC):
    """Plain data that is kept as JSON in a file of its own."""

    @abstractmethod
    def to_json(self) -> str:
        """All of it as one JSON object with a checksum."""

    @classmethod
    @abstractmethod
    def from_json(cls, text: str | bytes, *, source: str = "this text") -> Self:
        """What `to_json` was called on. Anything else is refused; `source` names it in errors."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, whole or not at all."""
        write_whole(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        return cls.from_json(Path(path).read_bytes(), source=str(path))
