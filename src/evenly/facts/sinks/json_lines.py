"""Records as lines of a local file."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from evenly.errors import InvalidParameter, UnwritableFile
from evenly.facts.records import MOST_BYTES, Fact

if sys.platform != "win32":
    import fcntl

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_LEAST_BYTES = 10 * MOST_BYTES


class JsonLines:
    """Appends every record to a file as one line of JSON.

        evenly.emit_to(evenly.JsonLines("/data/facts.jsonl", most_bytes=10_000_000))

    A line is written by one call, after those that are there: a restart goes on in the same file, and several processes may
    write to it. A line that was cut off, where its writer died or the disk was full, is ended first, and readers leave it out.
    From `most_bytes` on (64 MiB) the file is renamed to its name and `.1`, in the place of the one before, and begun anew: so
    it takes at most twice that. A file that somebody else has renamed or removed is begun anew, too.

    The path is one of this machine, or of a folder that is mounted here. Object stores cannot append: give `emit_to` a
    function.
    """

    def __init__(self, path: str | os.PathLike[str], *, most_bytes: int = 64 * 2**20) -> None:
        told = os.fspath(path)
        if not isinstance(told, str) or not told or "\0" in told or _SCHEME.match(told):
            raise InvalidParameter(
                f"the path of a local file is wanted, got {path!r}: elsewhere files cannot be appended to. Give emit_to a "
                "function that sends each record"
            )
        if most_bytes < _LEAST_BYTES:
            raise InvalidParameter(
                f"most_bytes must be at least {_LEAST_BYTES:,}, ten of the largest records, got {most_bytes!r}"
            )
        # The same one after a change of the working folder; and what a link leads to, which is to stay a link.
        self.path, self._most_bytes = Path(os.path.realpath(told)), most_bytes
        if Path(told).exists() and not self.path.is_file():
            self.path = Path(told).absolute()
        self._file, self._size = -1, 0
        try:
            self._open()
        except OSError as error:
            raise UnwritableFile(
                f"{path} cannot be written ({error}): give a path in a folder that you may write to"
            ) from error

    def write(self, fact: Fact) -> None:
        """Append one line."""
        line = fact.to_json() + b"\n"
        if self._file >= 0 and not self._is_there():
            self.close()
        if self._file < 0:
            self._open()
        if self._size + len(line) > self._most_bytes:
            self._turn()
        written = os.write(self._file, line)
        self._size += written
        if written < len(line):
            self.close()  # what is opened again is ended first
            raise OSError(f"{written} of {len(line)} bytes were written to {self.path}: the disk may be full")

    def close(self) -> None:
        """Close the file; a record that is written later opens it again."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _is_there(self) -> bool:
        """Whether the path still leads to the file that is open: another process may have renamed it, or removed it.

        Others may write to it, too: its size is what it is now.
        """
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        self._size = found.st_size
        return os.path.samestat(found, os.fstat(self._file))

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_RDWR, 0o644)
        try:
            self._size = os.fstat(self._file).st_size
            if self._size and os.pread(self._file, 1, self._size - 1) != b"\n":
                self._size += os.write(self._file, b"\n")
        except OSError:
            self.close()
            raise

    def _turn(self) -> None:
        """Begin a new one. Of several processes that find it full at once one renames it: a second would rename the new one."""
        if sys.platform != "win32":
            with suppress(OSError):  # a file system without locks
                fcntl.flock(self._file, fcntl.LOCK_EX)
        if self._is_there() and self._size + MOST_BYTES > self._most_bytes:
            if sys.platform == "win32":
                self.close()  # a file that is open cannot be renamed there
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
        self.close()
        self._open()
