"""Moments are counted in calls, not in seconds: the n-th call in the input or in the work is where a fault happens, once.

Runs inside Spark's Python workers; all they know of each other is a folder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa

_PATIENCE_S = 40.0


class Disturbance(RuntimeError):
    """The exception that a schedule wants raised."""


class Moments:
    """Counts calls by place; `faults` are (number, kind, where, at)."""

    def __init__(self, folder: Path, faults: list[tuple[int, str, str, int]]) -> None:
        self.folder, self.faults = str(folder), faults

    def counts(self, where: str) -> bool:
        """Whether anything is to happen there."""
        return any(place == where for _, _, place, _ in self.faults)

    def call(self, where: str) -> None:
        """One call: the count goes up, and what is due happens."""
        if not self.counts(where):
            return
        handle = os.open(Path(self.folder, f"calls-{where}"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(handle, b".")
            count = os.fstat(handle).st_size
        finally:
            os.close(handle)
        for number, kind, place, at in self.faults:
            if place == where and count >= at and self.claim(number, kind):
                self._happen(number, kind)

    def claim(self, number: int, kind: str) -> bool:
        """Whether this process is the one for which a fault happens; leaves a mark that says which processes these are."""
        mark = Path(self.folder, f"fired-{number}")
        if mark.exists():
            return False
        mine = mark.with_name(f".{mark.name}-{os.getpid()}-{time.monotonic_ns()}")
        mine.write_text(json.dumps({"kind": kind, **_processes()}))
        try:
            os.link(mine, mark)
        except FileExistsError:
            return False
        finally:
            mine.unlink()
        return True

    def _happen(self, number: int, kind: str) -> None:
        if kind == "exception":
            raise Disturbance(f"fault {number} of the schedule")
        if kind == "exit":
            os._exit(17)
        until = time.monotonic() + _PATIENCE_S
        while not Path(self.folder, f"landed-{number}").exists() and time.monotonic() < until:
            time.sleep(0.01)


def _processes() -> dict[str, int]:
    """This worker, and what stands above it: the executor, a Java process however many forks away, and the cluster's worker."""
    found = {"python": os.getpid()}
    with suppress(psutil.Error):
        above = psutil.Process().parents()
        place = next((n for n, process in enumerate(above) if process.name() == "java"), None)
        if place is not None and place + 1 < len(above):
            found |= {"executor": above[place].pid, "worker": above[place + 1].pid}
    return found


def counted(moments: Moments, where: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For mapInArrow: batches as they come, each of them a call."""

    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            moments.call(where)
            yield batch

    return through
