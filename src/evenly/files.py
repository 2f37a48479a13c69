"""Files that are read whole, and written whole or not at all; what the machine says against it is an error of ours."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from evenly.errors import InvalidParameter, MissingFile, UnreadableFile, UnwritableFile


def read_whole(path: str | os.PathLike[str], *, what: str) -> bytes:
    """The content of a file, which is to be `what`."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise MissingFile(f"there is no file {path}: give the path of {what}") from error
    except IsADirectoryError as error:
        raise UnreadableFile(f"{path} is a folder: give the path of {what}") from error
    except TypeError as error:
        raise InvalidParameter(f"the path of {what} is wanted, got {path!r}") from error
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise UnreadableFile(f"{os.fspath(path)!r} cannot be read: {error}") from error


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file so that a reader sees the old content or the new, never a part."""
    target = Path(path)
    try:
        _replace(target, text)
    except (OSError, ValueError) as error:
        why = f"there is no folder {target.parent}" if not target.parent.is_dir() else str(error)
        raise UnwritableFile(f"{path} cannot be written ({why}): give a path in a folder that you may write to") from error


def write_new(path: str | os.PathLike[str], text: str) -> bool:
    """Write a text file that is not there yet, whole; False if there is one, which stays as it is."""
    target = Path(path)
    try:
        _replace(target, text, anew=True)
    except FileExistsError:
        return False
    except (OSError, ValueError) as error:
        raise UnwritableFile(f"{path} cannot be written ({error}): give a path in a folder that you may write to") from error
    return True


def _replace(target: Path, text: str, *, anew: bool = False) -> None:
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(partial).chmod(0o644)
        if anew:
            target.hardlink_to(partial)
        else:
            Path(partial).replace(target)
    finally:
        Path(partial).unlink(missing_ok=True)


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
        return cls.from_json(read_whole(path, what=f"a saved {cls.__name__}"), source=str(path))
