"""What one task measured of its groups, and how it is measured in bounded memory."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from evenly.costs.group_curve import BINS, binned
from evenly.errors import DamagedData
from evenly.kernels.types import F64, I64
from evenly.sealed import opened, sealed

MOST_GROUPS = 8_192
"""The most groups that a report tells one by one: 24 bytes each."""
LEAST_GROUPS = 64
NAMED = 8
"""So many of its longest groups a task names by their keys."""
_KIND, _VERSION = "evenly-group-report", 1
_PENDING = 4_096
_LONGEST_NAME = 80


def most_groups(instances: int) -> int:
    """How many groups each of so many instances may tell one by one: all reports together have a bound."""
    return min(MOST_GROUPS, max(LEAST_GROUPS, 4 * MOST_GROUPS // instances))


@dataclass(frozen=True, eq=False)
class GroupReport:
    """The groups of one instance: all of them added up by size, and the longest and the largest one by one.

    `bins` is what `binned` gives. `ids`, `rows` and `seconds` are of the groups that are told one by one; `names` are the keys
    of the longest, as texts, by their ids.
    """

    instance: int
    bins: F64
    ids: I64
    rows: F64
    seconds: F64
    names: dict[int, str] = field(default_factory=dict)

    @property
    def groups(self) -> int:
        """How many groups there were."""
        return round(float(self.bins[0].sum()))

    @property
    def all_rows(self) -> int:
        """How many rows they had."""
        return round(float(self.bins[1].sum()))

    @property
    def busy_s(self) -> float:
        """What they took together."""
        return float(self.bins[2].sum())

    def to_bytes(self) -> bytes:
        """Plain data with a checksum."""
        at = np.flatnonzero(self.bins[0] > 0.0)
        content = {
            "instance": self.instance,
            "at": at.tolist(),
            "bins": text_of(self.bins[:, at]),
            "ids": text_of(self.ids),
            "rows": text_of(self.rows),
            "seconds": text_of(self.seconds),
            "names": {str(key): name for key, name in self.names.items()},
        }
        return sealed(content, kind=_KIND, version=_VERSION).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The report that `to_bytes` was called on."""
        source = f"a report of {len(data)} bytes"
        content = opened(bytes(data), kind=_KIND, version=_VERSION, what="report of groups", source=source)
        try:
            at = np.array(content["at"], np.int64)
            bins = np.zeros((5, BINS))
            bins[:, at] = array_of(content["bins"], "<f8").reshape(5, at.size)
            ids, rows, seconds = (
                array_of(content[name], kind) for name, kind in (("ids", "<i8"), ("rows", "<f8"), ("seconds", "<f8"))
            )
            names = {int(key): str(name) for key, name in content["names"].items()}
            return cls(int(content["instance"]), bins, ids.astype(np.int64), rows, seconds, names)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise DamagedData(f"{source} cannot be read: {error}") from error


def steady_groups(reports: Iterable[GroupReport], noise: float) -> float:
    """As how many equal groups by chance the busy seconds of reports vary from run to run, where the logarithm of one group's
    time does by the variance `noise`: the square of all seconds over `noise` times their squares' sum."""
    seconds = squares = 0.0
    for report in reports:
        told_s, groups = float(report.seconds.sum()), report.bins[0]
        some = groups > 0.0
        by_size = float((report.bins[2][some] ** 2 / groups[some]).sum())
        seconds += max(report.busy_s, told_s)
        squares += max(by_size, float((report.seconds**2).sum()))
    return seconds * seconds / max(noise * squares, 1e-300)


class GroupMeter:
    """Takes in groups one by one, as they end, and gives their report.

    Memory is bounded, whatever the number of groups: sums by size, 4,096 groups that wait to be added, and at most `limit` that
    are told one by one: half of them the longest, half those of most rows (which may take surprisingly little).
    """

    def __init__(self, *, limit: int = MOST_GROUPS) -> None:
        self._limit = limit
        self._bins = np.zeros((5, BINS))
        self._told = (np.empty(0, np.int64), np.empty(0), np.empty(0))
        self._waiting: list[tuple[int, int, float]] = []
        self._longest: list[tuple[float, int, str]] = []

    def add(self, group_id: int, rows: int, seconds: float) -> bool:
        """Take in a group; whether it is among the longest so far, so that its key is to be told by `name`."""
        self._waiting.append((group_id, rows, seconds))
        if len(self._waiting) >= _PENDING:
            self._flush()
        return len(self._longest) < NAMED or seconds > self._longest[-1][0]

    def name(self, group_id: int, seconds: float, name: str) -> None:
        """The key of a group that took so long."""
        self._longest = sorted([*self._longest, (seconds, group_id, name[:_LONGEST_NAME])], reverse=True)[:NAMED]

    def report(self, instance: int) -> GroupReport:
        """All that was taken in."""
        self._flush()
        ids, rows, seconds = self._told
        return GroupReport(instance, self._bins, ids, rows, seconds, {key: name for _, key, name in self._longest})

    def _flush(self) -> None:
        if not self._waiting:
            return
        ids, rows, seconds = zip(*self._waiting, strict=True)
        self._waiting = []
        new = (np.array(ids, np.int64), np.array(rows, np.float64), np.array(seconds, np.float64))
        self._bins += binned(new[1], new[2])
        told = tuple(np.concatenate(pair) for pair in zip(self._told, new, strict=True))
        if told[0].size > self._limit:
            keep = np.zeros(told[0].size, np.bool_)
            for values in told[1:]:
                keep[np.argsort(-values, kind="stable")[: self._limit // 2]] = True
            told = tuple(values[keep] for values in told)
        self._told = (told[0], told[1], told[2])


def text_of(array: np.ndarray[Any, Any]) -> str:
    """An array as text, for `array_of`."""
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()).decode()


def array_of(text: str, kind: str) -> np.ndarray[Any, Any]:
    """The array that `text_of` was given, one after the other."""
    found = np.frombuffer(base64.b64decode(text, validate=True), kind)
    return found.astype(found.dtype.newbyteorder("="))
