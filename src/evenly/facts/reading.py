"""Records read back: strictly, but for a line that was cut off where its writer died."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from evenly.errors import DamagedData, NewerFormat
from evenly.facts.records import MOST_BYTES, VERSION, Fact
from evenly.files import read_whole

_BEGINNING = b'{"version":'  # of a record, and nowhere else in one: quotes inside texts are escaped
_LONGEST = 100 * MOST_BYTES


@dataclass(frozen=True)
class FactLines:
    """The records of a file, in order, and how many lines were cut off."""

    facts: tuple[Fact, ...]
    cut: int = 0


class _Head(msgspec.Struct):
    version: int


class LineReader:
    """Takes the bytes of a file in pieces of any size, as they are written, and gives the records of all whole lines.

    >>> reader = LineReader("facts.jsonl")
    >>> list(reader.feed(b'{"version":1,"time":0,"run":"a",'))
    []
    >>> [fact.event for fact in reader.feed(b'"kind":"keyed","event":"end"}\\n')]
    ['end']

    A line that ends too early is one whose writer died: it is left out and counted in `cut`, also where another writer has gone
    on in the same line. Any other line that is no record is refused, as is one of a later version.
    """

    def __init__(self, source: str = "this text") -> None:
        self._source = source
        self._rest = b""
        self._line = 0
        self.cut = 0

    @property
    def pending(self) -> bool:
        """Whether the last line has no end yet."""
        return bool(self._rest.strip())

    def feed(self, data: bytes) -> Iterator[Fact]:
        """The records of the lines that end in `data`."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line += 1
            if line.strip() and (fact := self._read(line)) is not None:
                yield fact
        if len(self._rest) > _LONGEST:
            self._line += 1
            raise self._refused(b"", ValueError(f"it has more than {_LONGEST:,} bytes"))

    def end(self) -> Iterator[Fact]:
        """The record of a last line that is whole but has no end."""
        line, self._rest = self._rest, b""
        if line.strip():
            self._line += 1
            if (fact := self._read(line)) is not None:
                yield fact

    def _read(self, line: bytes) -> Fact | None:
        try:
            return _DECODER.decode(line)
        except msgspec.DecodeError as error:
            if _is_cut(line, error):
                self.cut += 1
                return None
            if line.startswith(_BEGINNING) and (last := line.rfind(_BEGINNING)) > 0:
                self.cut += 1
                return self._read(line[last:])
            raise self._refused(line, error) from error

    def _refused(self, line: bytes, error: Exception) -> Exception:
        where = f"line {self._line} of {self._source}"
        try:
            found = msgspec.json.decode(line, type=_Head).version
        except (msgspec.DecodeError, UnicodeDecodeError):
            return DamagedData(f"{where} is no record of Evenly ({error}): give a file that evenly.emit_to has written")
        if found > VERSION:
            return NewerFormat(f"{where} is of version {found}, and this release reads up to {VERSION}: upgrade evenly")
        return DamagedData(f"{where} is damaged ({error}): remove that line, or give another file")


def read_facts(path: str | os.PathLike[str]) -> FactLines:
    """All records of a file of JSON lines, as `emit_to` writes it.

        found = evenly.read_facts("facts.jsonl")
        [fact.decision.reason for fact in found.facts if fact.event == "change"], found.cut

    A line that was cut off where its writer died is left out and counted in `cut`; any other that is no record is refused.
    """
    reader = LineReader(str(path))
    facts = [*reader.feed(read_whole(path, what="JSON lines that emit_to has written")), *reader.end()]
    return FactLines(tuple(facts), reader.cut)


def _is_cut(line: bytes, error: Exception) -> bool:
    """Whether a line is the beginning of a record: every record ends in }, as do some of its parts."""
    begins = line.startswith(_BEGINNING[: len(line)])
    return begins and (not line.rstrip().endswith(b"}") or "truncated" in str(error))


_DECODER = msgspec.json.Decoder(Fact)
