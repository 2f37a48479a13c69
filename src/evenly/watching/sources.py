"""Where the records of a live page come from: pairs of how long to wait and what has come then. No clock is read here."""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import BinaryIO

from evenly.errors import DamagedData, InvalidParameter, MissingFile, NewerFormat, UnreadableFile
from evenly.facts.reading import LineReader
from evenly.facts.records import Fact

Waited = tuple[float, Sequence[Fact | str]]
"""How long to wait, and then records, or a text to show."""
_Identity = tuple[int, int]

_PIECE_BYTES = 1 << 20
_REMEMBERED_BYTES = 512
_POLL_S = 0.25
_LONGEST_PAUSE_S = 3.0
_MOST_FILES = 200
_ENDINGS = (".jsonl", ".jsonl.1")
_DEMO_BATCHES, _DEMO_RESTART = 1_500, 75


class FollowedFile:
    """A file of JSON lines, read as far as it is written, under any name; one that was cut is read from its beginning.

    A file system gives a new file the number of one that has gone, and a file that was cut may have grown since: what was read
    last has to be there still.
    """

    def __init__(self, path: Path, identity: _Identity) -> None:
        self._identity = identity
        self._begin(path)

    def _begin(self, path: Path) -> None:
        self._reader, self._at, self._last = LineReader(str(path)), 0, b""

    def read(self, path: Path) -> Iterator[Fact]:
        """The records that came since the last call, if the file is at `path` now."""
        try:
            with path.open("rb") as file:
                now = os.fstat(file.fileno())
                if (now.st_dev, now.st_ino) != self._identity:
                    return  # renamed since
                if now.st_size < self._at or not self._goes_on(file):
                    self._begin(path)
                file.seek(self._at)
                while piece := file.read(_PIECE_BYTES):
                    self._at += len(piece)
                    self._last = (self._last + piece)[-_REMEMBERED_BYTES:]
                    yield from self._reader.feed(piece)
        except FileNotFoundError:
            return  # between two files of one name
        except OSError as error:
            raise UnreadableFile(f"{path} cannot be read ({error}): run as who may read it") from error

    def _goes_on(self, file: BinaryIO) -> bool:
        file.seek(self._at - len(self._last))
        return file.read(len(self._last)) == self._last


def files_of(path: Path) -> list[Path]:
    """The file itself, or the JSON lines right in a folder; what a link there leads to elsewhere is left out."""
    if not path.exists():
        raise MissingFile(f"{path} does not exist: give a file or folder that evenly.emit_to writes to, or evenly watch --demo")
    return list(_identified(path).values())


def _identified(path: Path) -> dict[_Identity, Path]:
    """The same with what a file keeps when it is renamed."""
    if not path.is_dir():
        found = _state(path)
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise UnreadableFile(f"{path} is no file: give a file of JSON lines that evenly.emit_to has written")
        return {} if found is None else {(found.st_dev, found.st_ino): path}
    inside = path.resolve()
    try:
        with os.scandir(path) as entries:
            named = [Path(one.path) for one in entries if one.name.endswith(_ENDINGS) and _is_inside(one, inside)]
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read ({error}): give a folder that you may read") from error
    states = [(state, one) for one in named if (state := _state(one)) is not None and stat.S_ISREG(state.st_mode)]
    states.sort(key=lambda it: it[0].st_mtime)
    return {(state.st_dev, state.st_ino): one for state, one in states[-_MOST_FILES:]}


def _is_inside(entry: os.DirEntry[str], folder: Path) -> bool:
    """Of what is no link that is known without a look: a folder may have thousands of files, and is looked at often."""
    if not entry.is_symlink():
        return True
    return os.path.exists(entry.path) and Path(entry.path).resolve().parent == folder  # noqa: PTH110 - pathlib's raises of a loop


def _state(path: Path) -> os.stat_result | None:
    """None of a file that has gone meanwhile."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read ({error}): give a file that you may read") from error


def check_readable(path: Path) -> None:
    """Refuses what does not begin with records."""
    for one in files_of(path):
        try:
            with one.open("rb") as file:
                list(LineReader(str(one)).feed(file.read(_PIECE_BYTES)))
        except OSError as error:
            raise UnreadableFile(f"{one} cannot be read ({error}): give a file that you may read") from error


def follow(path: Path) -> Iterator[Waited]:
    """All records that are there, and then without end those that come."""
    followed: dict[_Identity, FollowedFile] = {}
    broken: set[_Identity] = set()
    while True:
        found = _now(path, followed)
        if len(found) < _MOST_FILES:  # another file may get the number of one that has gone
            for gone in followed.keys() - found.keys():
                del followed[gone]
        broken &= followed.keys()
        for identity, one in found.items():
            if identity in broken:
                continue
            facts = followed.setdefault(identity, FollowedFile(one, identity)).read(one)
            try:
                while piece := _some(facts):
                    yield 0.0, piece
            except (DamagedData, NewerFormat, UnreadableFile) as error:
                broken.add(identity)
                yield 0.0, [f"{error}. Nothing more is read from it"]
        yield _POLL_S, []


def _now(path: Path, followed: Container[_Identity]) -> dict[_Identity, Path]:
    """What is to be read, oldest first: also a file that was followed at `path` before it was renamed, to its end."""
    if path.is_dir():
        return _identified(path)
    before = Path(f"{os.path.realpath(path)}.1")  # beside what a link leads to
    return {identity: one for identity, one in _identified(before).items() if identity in followed} | _identified(path)


def _some(facts: Iterator[Fact]) -> list[Fact]:
    return [fact for _, fact in zip(range(200), facts, strict=False)]


def replay(path: Path, *, speed: float = 1.0) -> Iterator[Waited]:
    """All records that are there, `speed` times as fast as they came; nobody waits longer than three seconds for the next."""
    if not 0.0 < speed < float("inf"):
        raise InvalidParameter(f"--speed must be above 0, got {speed}")
    before: float | None = None
    for fact in heapq.merge(*(_whole(one) for one in files_of(path)), key=lambda fact: fact.time):
        passed = 0.0 if before is None else max(0.0, fact.time - before)
        before = fact.time
        yield min(passed / speed, _LONGEST_PAUSE_S), [fact]


def _whole(path: Path) -> Iterator[Fact]:
    reader = LineReader(str(path))
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield from reader.feed(piece)
    yield from reader.end()


def demonstration(begin_s: float, *, seed: int = 0) -> Iterator[Waited]:
    """Without end: a stream whose keys drift and that is rebalanced, a dataflow beside its plan, and queues on one link."""
    # Imported here, because it decides by kernels, and a page of records needs none.
    from evenly.facts.sample import dataflow, drifting_stream, paced_sending  # noqa: PLC0415

    begin_s = float(int(begin_s))  # the times of its records are rounded: so all begin at once
    streams = (
        _endless(drifting_stream, begin_s, seed, batches=_DEMO_BATCHES, restart_after=_DEMO_RESTART),
        _endless(dataflow, begin_s, seed, batches=120),
        _endless(paced_sending, begin_s, seed, batches=60),
    )
    before = begin_s
    for fact in heapq.merge(*streams, key=lambda fact: fact.time):
        yield max(0.0, fact.time - before), [fact]
        before = max(before, fact.time)


def _endless(sample: Callable[..., Iterator[Fact]], begin_s: float, seed: int, **options: object) -> Iterator[Fact]:
    for more in count():
        last: Fact | None = None
        for last in sample(seed=seed + more, begin_s=begin_s, **options):
            yield last
        begin_s = begin_s if last is None else last.time
