"""Spark's event log as events: one file or a rolling folder, compressed or not, whole or still being written.

Lines are read one by one and only events of the wanted kinds are parsed, so a log of any length takes little memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from evenly.diagnosis.compression import Truncated, chunks
from evenly.errors import DamagedData

_ROLLING = "eventlog_v2_"
_PART = re.compile(r"^events_(\d+)_.*?(\.compact)?$")
_DATABRICKS = re.compile(r"^eventlog(-\d{4}-\d\d-\d\d--\d\d-\d\d(-\d\d)?)?(\.(gz|zstd?|lz4|snappy))?$")
"""Databricks puts what it rolls aside (`eventlog-2021-06-15--15-00.gz`) beside the file that it writes (`eventlog`)."""
_EVENT = re.compile(rb'^\s*\{\s*"Event"\s*:\s*"([^"]+)"')
_NOT_A_LOG = (
    'is not a Spark event log: it has no line that begins with {"Event":…}. Spark writes one if spark.eventLog.enabled is set'
)
_CUT = "breaks off before its first event: it is damaged, or the application had only begun to write it. Copy it again"
_BEGIN = b'{"Event":"'
_BOM = b"\xef\xbb\xbf"
_SURROGATE = b"\\ud"
_NAMED = 5


@dataclass
class EventLog:
    """An event log, read by iterating over `events`; afterwards `unreadable` counts lines that could not be read.

    `truncated` says that the last file breaks off, as that of an application that still runs or was killed; `gaps` tell
    of files before it that break off, and of parts that are not there.
    """

    path: Path
    files: list[Path]
    unreadable: int = 0
    truncated: bool = False
    gaps: list[str] = field(default_factory=list)
    _seen: int = field(default=0, repr=False)
    _cut: bool = field(default=False, repr=False)

    @property
    def size_bytes(self) -> int:
        """The size of all files, for progress."""
        return sum(file.stat().st_size for file in self.files)

    def events(self, kinds: frozenset[str], progress: Callable[[int], None] | None = None) -> Iterator[dict[str, Any]]:
        """The events of these kinds (the last part of the event's name), in order. `progress` gets bytes read."""
        for file in self.files:
            for line in self._lines(file, progress):
                event = self._event(line, kinds)
                if event is not None:
                    yield event
        if self._seen == 0:
            raise DamagedData(f"{self.path} {_CUT if self._cut else _NOT_A_LOG}")

    def _event(self, line: bytes, kinds: frozenset[str]) -> dict[str, Any] | None:
        if self._seen == 0:
            line = line.removeprefix(_BOM)  # copies that Windows made
        named = _EVENT.match(line)
        if named is None:
            if line.strip():
                if self._seen == 0:
                    raise DamagedData(f"{self.path} {_NOT_A_LOG}")
                self.unreadable += 1
            return None
        self._seen += 1
        kind = named.group(1).decode("utf-8", "replace").rpartition(".")[2]
        if kind not in kinds:
            self.unreadable += line.count(_BEGIN) > 1  # lines that have run into each other: one of them may have been wanted
            return None
        try:
            event = json.loads(line)
            if _SURROGATE in line.lower():
                event = json.loads(_encodable(json.dumps(event, ensure_ascii=False)))
        except (ValueError, RecursionError):
            self.unreadable += 1
            return None
        event["Event"] = kind
        return dict(event)

    def _lines(self, path: Path, progress: Callable[[int], None] | None) -> Iterator[bytes]:
        read = 0
        rest: list[bytes] = []
        try:
            with path.open("rb") as file:
                for piece in chunks(file):
                    if progress is not None:
                        at = file.tell()
                        progress(at - read)
                        read = at
                    first, *others = piece.split(b"\n")
                    rest.append(first)
                    for line in others:
                        yield b"".join(rest)
                        rest = [line]
        except Truncated:
            self._cut = True
            self._breaks_off(path)
        except (OSError, pa.ArrowException, DamagedData) as error:
            if self._seen == 0:
                raise DamagedData(f"{path} cannot be read: {error}") from error
            self._breaks_off(path)
        if any(part.strip() for part in rest):
            # A line without an end is whole only if it parses: the writer may have been stopped within it.
            last = b"".join(rest)
            if _parses(last):
                yield last
            else:
                self._breaks_off(path)
                if self._seen == 0 and not self._cut:
                    yield last

    def _breaks_off(self, path: Path) -> None:
        """A file ends too early. What follows in other files is read all the same."""
        if path == self.files[-1]:
            self.truncated = True
        else:
            said = f"{path.name} breaks off, and the log goes on in the next file: what came between is missing"
            self.gaps += [] if said in self.gaps else [said]


def _encodable(text: str) -> str:
    """The text without halves of characters, which a name has that was cut: nothing can print them or write them to a file."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _parses(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def open_event_log(path: str | Path) -> EventLog:
    """The event log at `path`: a file, a rolling folder (`eventlog_v2_…`, or of Databricks), or a folder with one such log."""
    if not str(path):
        raise DamagedData("an empty path was given: give the path of a Spark event log (spark.eventLog.dir has them)")
    where = Path(str(path).removeprefix("file://").removeprefix("file:"))
    if "://" in str(path) and not str(path).startswith("file:"):
        raise DamagedData(
            f"{path} is not on this machine: copy the event log here first (hdfs dfs -get, aws s3 cp --recursive, …)"
        )
    gaps: list[str] = []
    if where.is_file():
        files = [where]
    elif not where.is_dir():
        raise DamagedData(
            f"{path} is neither a file nor a folder: give the path of a Spark event log (spark.eventLog.dir has them)"
        )
    elif parts := _rolled(where):
        files = [file for _, file in parts]
        gaps = _missing([number for number, _ in parts])
    elif files := _databricks(where):
        pass
    else:
        return open_event_log(_only_log(where))
    if not any(file.stat().st_size for file in files):
        raise DamagedData(f"{path} is empty: the application has written no event yet, or was stopped before it did")
    return EventLog(where, files, gaps=gaps)


def _rolled(folder: Path) -> list[tuple[int, Path]]:
    """The parts of a rolling log in order, from the last compaction on: that stands for all parts before it."""
    parts: list[tuple[int, bool, Path]] = []
    for file in folder.iterdir():
        match = _PART.match(file.name)
        if match and file.is_file():
            parts.append((int(match.group(1)), match.group(2) is not None, file))
    compacted = max((number for number, compact, _ in parts if compact), default=0)
    kept = [(number, file) for number, compact, file in parts if number > compacted or (compact and number == compacted)]
    return sorted(kept)


def _missing(numbers: list[int]) -> list[str]:
    """The parts that are not there although later ones are. Spark counts from 1; what was compacted has gone for good."""
    gone = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
    return [f"part {', '.join(map(str, gone))} of the rolling log is missing: stages in it are not told"] if gone else []


def _databricks(folder: Path) -> list[Path]:
    """What Databricks rolled aside, by its date, and then what it was writing."""
    found = [
        (match.group(1) or "~", file) for file in folder.iterdir() if (match := _DATABRICKS.match(file.name)) and file.is_file()
    ]
    return [file for _, file in sorted(found)] if any(dated != "~" for dated, _ in found) else []


def _only_log(folder: Path) -> Path:
    logs = sorted(
        (
            entry
            for entry in folder.iterdir()
            if not entry.name.startswith(".") and (entry.is_file() or entry.name.startswith(_ROLLING))
        ),
        key=lambda entry: entry.stat().st_mtime,
        reverse=True,
    )
    if not logs:
        raise DamagedData(
            f"{folder} has no event log in it: set spark.eventLog.enabled and spark.eventLog.dir, and run the job again"
        )
    if len(logs) > 1:
        newest = ", ".join(entry.name for entry in logs[:_NAMED])
        more = f" and {len(logs) - _NAMED} more" if len(logs) > _NAMED else ""
        raise DamagedData(f"{folder} has {len(logs)} entries, of which one must be named; the newest first: {newest}{more}")
    return logs[0]
