"""Files of a folder that are read and written whole: through the JVM, or by Python alone on a local disk.

To read a file of 10 kB through the JVM takes 44 ms, of which 40 are two sockets that wait for each other; a job of a second
would feel it. On a disk that the driver's Java and Python share nobody needs to ask Java.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from evenly.errors import InvalidParameter, UnwritableFile
from evenly.files import read_whole, write_whole
from evenly.spark.jvm.hadoop_files import Folder


class Shelf(Protocol):
    """A folder with files of ours; a file in it is written whole or not at all."""

    def read(self, name: str, *, most_bytes: int) -> bytes | None:
        """What is in a file, whose reader compares it with a checksum of its own; None if there is no such file."""

    def write(self, name: str, text: str) -> None:
        """Write it, in the place of what is there."""

    def names(self) -> list[str]:
        """The names of all files, without hidden ones; none if there is no such folder."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""


def shelf(folder: Folder, whole_path: str) -> Shelf:
    """The files of a folder by the shortest way to them; `whole_path` is what it says of itself."""
    return LocalShelf(Path(whole_path.removeprefix("file:"))) if folder.is_plain else HadoopShelf(folder)


class HadoopShelf:
    """On any path that Spark can write to."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def read(self, name: str, *, most_bytes: int) -> bytes | None:
        size = self._folder.size_bytes(name)
        if size is None:
            return None
        _check_size(f"{self._folder.path}/{name}", size, most_bytes)
        return self._folder.read(name, checked_by_caller=True)

    def write(self, name: str, text: str) -> None:
        self._folder.write(name, text)

    def names(self) -> list[str]:
        return self._folder.names()

    def remove(self, name: str) -> None:
        self._folder.remove(name)


class LocalShelf:
    """On a disk of this machine. Hadoop's checksums beside files of ours go: they would be of what was there before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str, *, most_bytes: int) -> bytes | None:
        path = self._folder / name
        try:
            size = path.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InvalidParameter(f"{path} cannot be read ({error})") from error
        _check_size(path, size, most_bytes)
        return read_whole(path, what="a memory of past runs")

    def write(self, name: str, text: str) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._checksum(name).unlink(missing_ok=True)
        except OSError as error:
            raise UnwritableFile(f"{self._folder} cannot be written ({error}): give a folder that you may write to") from error
        write_whole(self._folder / name, text)

    def names(self) -> list[str]:
        try:
            return sorted(it.name for it in self._folder.iterdir() if it.is_file() and not it.name.startswith("."))
        except OSError:
            return []

    def remove(self, name: str) -> None:
        try:
            (self._folder / name).unlink(missing_ok=True)
            self._checksum(name).unlink(missing_ok=True)
        except OSError as error:
            raise UnwritableFile(f"{self._folder / name} cannot be removed ({error})") from error

    def _checksum(self, name: str) -> Path:
        return self._folder / f".{name}.crc"


def _check_size(path: object, size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise InvalidParameter(f"{path} has {size:,} bytes, and no memory of past runs has")
