"""What the groups of a keyed function take, by their rows and by their keys, learnt in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.costs.group_curve import BINS, FittedCurve, GroupCurve, curve_total_s, fitted, shifted
from evenly.costs.group_report import GroupReport, array_of, text_of
from evenly.costs.key_factors import FORGOTTEN, KeyFactors
from evenly.costs.moments import checked_ids
from evenly.errors import DamagedData, IncompatibleMerge, InvalidParameter
from evenly.files import KeptInFile
from evenly.kernels.types import F64, I64
from evenly.sealed import opened, sealed

MAX_KEYS = 16_384
KIND = "evenly-group-times"
VERSION = 1
UNKNOWN = (1.0, 0.0, 0.5, 1.5, 2.0)
"""Exponents that are all to be reckoned with as long as no group was timed: the rows, a constant, their square, between."""

_NAMED = 32
_MOST_DRAWN = 2.0
_UNLIKELY, _DOUBTED = 3.0, 0.2
"""Standard errors beyond which a time contradicts what was known, and what that weighs then, in parts."""
_HARDLY, _MANY = math.log(1.25), math.log(2.0)
_LEAST_KEYS, _LEAST_SPREAD = 5, 0.05
_LEAST_OTHERS = 4.0
_MOST_LOG = 100.0
"""No rows and no times in parts of others have logarithms above that."""


@dataclass(frozen=True, eq=False)
class GroupEstimates:
    """What a worker needs to estimate groups: curves, and of the keys that are known their times at their sizes then.

    With no curve nothing was ever timed, and a group is estimated by its rows to several powers.
    """

    curves: tuple[GroupCurve, ...]
    ids: I64
    rows: F64
    seconds: F64
    others: float = 1.0

    @property
    def guesses(self) -> int:
        """How many estimates there are of each group; the first is the likeliest."""
        return len(self.curves or UNKNOWN)

    def seconds_of(self, ids: ArrayLike, rows: ArrayLike) -> F64:
        """The times of groups by id and rows, several guesses of each: by the likeliest, a low and a high exponent."""
        sizes = np.maximum(np.asarray(rows, np.float64), 1.0)
        if not self.curves:
            return np.stack([sizes**exponent for exponent in UNKNOWN])
        found = np.stack([self.others * curve.seconds(sizes) for curve in self.curves])
        if self.ids.size:
            wanted = checked_ids(ids)
            at = np.minimum(np.searchsorted(self.ids, wanted), self.ids.size - 1)
            known = self.ids[at] == wanted
            at, sizes = at[known], sizes[known]
            grown = np.stack([curve.seconds(sizes) / curve.seconds(self.rows[at]) for curve in self.curves])
            found[:, known] = self.seconds[at] * grown
        return found


class GroupTimes(KeptInFile):
    """Expected time of a group by its rows and its key, in at most 1 MiB whatever the number of keys.

        watch = evenly.TimeWatch()
        evenly.apply_by_key(
            df, score, "user string, score double", key="user", instances=16, balance="time", watch=watch
        ).write.parquet("/data/scores")
        watch.times.save("times.json")
        evenly.GroupTimes.load("times.json").exponent  # 2 where a group of twice the rows takes four times as long

    A group of n rows takes a fixed part and a coefficient times a power of n, fitted to groups of all sizes, with the
    uncertainty of the exponent. A key that takes longer or shorter than that has a factor of its own, drawn toward 1 the more,
    the less its deviation stands out from what one key varies from run to run. Keys are remembered by their 64-bit ids, those
    whose time the curve misses by most; the 32 longest by their values too, so that they can be named.

    - An estimate is above 0; that of a known key lies between the curve and what was measured of the key.
    - `merge` is commutative, up to rounding.
    - A key that was never seen, or is not among those kept, is estimated by its rows.

    `tests/property/test_group_times.py` proves them.

    Parameters: `columns` and `types` of the key, so that it is not used for another; `capacity`, 1 to 16,384 keys;
    `half_life_runs`, above 0: a run weighs half after so many others (None: never forget).

    >>> from evenly.costs.group_report import GroupMeter
    >>> meter = GroupMeter()
    >>> for key, rows in enumerate([1, 10, 100, 1000]):
    ...     _ = meter.add(key, rows, rows**2 * 1e-6)
    >>> times = GroupTimes().learn([meter.report(0)])
    >>> round(times.exponent, 1), times.estimate([7], [2000]).round()
    (2.0, array([4.]))
    """

    def __init__(
        self,
        columns: Iterable[str] = (),
        types: Iterable[str] = (),
        *,
        capacity: int = MAX_KEYS,
        half_life_runs: float | None = 4.0,
    ) -> None:
        if not 1 <= capacity <= MAX_KEYS:
            raise InvalidParameter(f"capacity must be from 1 to {MAX_KEYS} keys, got {capacity}")
        if half_life_runs is not None and not (math.isfinite(half_life_runs) and half_life_runs > 0.0):
            raise InvalidParameter(f"half_life_runs must be a finite number above 0, or None, got {half_life_runs}")
        self.columns, self.types = tuple(columns), tuple(types)
        self.capacity = int(capacity)
        self.half_life_runs = None if half_life_runs is None else float(half_life_runs)
        self._bins: F64 = np.zeros((5, BINS))
        self._known = KeyFactors.empty()
        self._names: dict[int, str] = {}
        self._fitted: FittedCurve | None = None

    # What it knows

    @property
    def groups(self) -> float:
        """The groups it remembers, forgotten ones less."""
        return float(self._bins[0].sum())

    @property
    def keys(self) -> int:
        """How many keys it knows one by one."""
        return int(self._known.ids.size)

    @property
    def curve(self) -> GroupCurve | None:
        """The likeliest time by rows; None before a group was timed."""
        return None if self._fitted is None else self._fitted.likely

    @property
    def exponent(self) -> float | None:
        """How the time of a group grows with its rows: 1 in proportion, 2 with their square."""
        return None if self._fitted is None else self._fitted.likely.exponent

    @property
    def exponent_unsure(self) -> float | None:
        """The standard error of `exponent`. Where groups are all of one size, or take the same, nothing tells it."""
        return None if self._fitted is None else self._fitted.exponent_unsure

    @property
    def names(self) -> dict[int, str]:
        """The keys of the longest groups (at most 32) by their ids, longest first."""
        return dict(self._names)

    @property
    def variances(self) -> tuple[float, float]:
        """Of the logarithms of times over the curve's: what keys vary among each other, and one key from run to run."""
        noise = self._known.noise()
        return max((0.0 if self._fitted is None else self._fitted.variance) - noise, 0.0), noise

    @property
    def estimates(self) -> GroupEstimates:
        """All estimates as plain arrays, for workers."""
        if self._fitted is None:
            return GroupEstimates((), np.empty(0, np.int64), np.empty(0), np.empty(0))
        rows = np.exp(self._known.log_rows)
        seconds = self._fitted.likely.seconds(rows) * np.exp(self._believed())
        return GroupEstimates(self._fitted.all, self._known.ids, rows, seconds, self._others())

    def estimate(self, ids: ArrayLike, rows: ArrayLike) -> F64:
        """What groups are expected to take, in seconds; their numbers of rows if none was ever timed."""
        likely: F64 = self.estimates.seconds_of(ids, rows)[0]
        return likely

    # Learning

    def learn(self, reports: Iterable[GroupReport]) -> Self:
        """Take in the reports of one run. Their order does not matter."""
        told = list(reports)
        if not any(report.groups for report in told):
            return self
        if self.half_life_runs is not None:
            self._scale(0.5 ** (1.0 / self.half_life_runs))
        bins = np.sum([report.bins for report in told], axis=0)
        ids, rows, seconds = (np.concatenate([getattr(it, name) for it in told]) for name in ("ids", "rows", "seconds"))
        names = {key: name for report in told for key, name in report.names.items()}
        if self.half_life_runs is not None:
            self._doubt(told)
        self._take(bins, lambda curve: KeyFactors.empty().with_others(KeyFactors.of(ids, rows, seconds, curve.likely)), names)
        return self

    def merge(self, other: GroupTimes) -> Self:
        """Take in what was learnt elsewhere of the same key."""
        if (self.columns, self.types) != (other.columns, other.types):
            raise IncompatibleMerge(
                f"times of the key {_told(self)} cannot take in those of {_told(other)}: learn both for the same key"
            )
        if self.capacity != other.capacity:
            raise IncompatibleMerge(f"times of {self.capacity} and {other.capacity} keys cannot be merged: make them alike")
        self._take(other._bins, lambda curve: other._known.based_on(other._fitted, curve), other._names)
        return self

    def forget(self, factor: float) -> Self:
        """All that was learnt weighs `factor` times as much, 0 to 1."""
        if not 0.0 <= factor <= 1.0:
            raise InvalidParameter(f"factor must be from 0 to 1, got {factor}")
        self._scale(factor)
        self._rebase(fitted(self._bins))
        return self

    def copy(self) -> GroupTimes:
        """One that learns on its own from here."""
        other = GroupTimes(self.columns, self.types, capacity=self.capacity, half_life_runs=self.half_life_runs)
        other._bins, other._known, other._fitted = self._bins.copy(), self._known, self._fitted
        other._names = dict(self._names)
        return other

    # Saving

    def to_json(self) -> str:
        """All of it as one JSON object with a checksum: about 55 bytes a key."""
        return sealed(self._content(), kind=KIND, version=VERSION)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "this text") -> Self:
        """What `to_json` was called on."""
        content = opened(text, kind=KIND, version=VERSION, what="GroupTimes", source=source)
        try:
            times = cls(
                content["columns"], content["types"], capacity=content["capacity"], half_life_runs=content["half_life_runs"]
            )
            at = np.array(content["at"], np.int64)
            times._bins[:, at] = array_of(content["bins"], "<f8").reshape(5, at.size)
            ids = array_of(content["ids"], "<i8").astype(np.int64)
            times._known = KeyFactors(ids, *array_of(content["factors"], "<f8").reshape(4, ids.size))
            times._names = {int(key): str(name) for key, name in content["names"].items()}
            times._check()
            times._fitted = fitted(times._bins)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DamagedData(f"{source} is not a saved GroupTimes, or is damaged: {error}") from error
        return times

    def _content(self) -> dict[str, Any]:
        at, known = np.flatnonzero(self._bins[0] > 0.0), self._known
        return {
            "columns": list(self.columns),
            "types": list(self.types),
            "capacity": self.capacity,
            "half_life_runs": self.half_life_runs,
            "at": at.tolist(),
            "bins": text_of(self._bins[:, at]),
            "ids": text_of(known.ids),
            "factors": text_of(np.stack([known.seen, known.log_rows, known.logs, known.squares])),
            "names": {str(key): name for key, name in self._names.items()},
        }

    def _check(self) -> None:
        """Refuse numbers that were never measured: estimates would be none, and nobody would be told."""
        bins, known = self._bins, self._known
        counted = bins[[*range(3), 4]]  # logarithms may be below 0
        if not (np.isfinite(bins).all() and (counted >= 0.0).all()):
            raise ValueError("groups, rows and seconds must be finite and not below 0")
        if not (known.ids[1:] > known.ids[:-1]).all():
            raise ValueError("each key must be there once, in ascending order")
        told = np.stack([known.seen, known.log_rows, known.logs, known.squares])
        logs = np.abs(np.stack([known.log_rows * known.seen, known.logs]))
        if not (np.isfinite(told).all() and (known.seen > 0.0).all() and (logs <= _MOST_LOG * known.seen).all()):
            raise ValueError("what is told of keys must be finite, and of times that can be")
        np.array(list(self._names), np.int64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupTimes) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns

    def __repr__(self) -> str:
        told = "" if self._fitted is None else f", exponent={self.exponent:.2f} ± {self.exponent_unsure:.2f}"
        return f"GroupTimes({_told(self)}, groups={self.groups:.0f}, keys={self.keys}{told})"

    # Within

    def _take(self, bins: F64, known: Any, names: dict[int, str]) -> None:
        self._bins = self._bins + bins
        curve = fitted(self._bins)
        self._rebase(curve)
        if curve is None:
            return
        both = self._known.with_others(known(curve))
        if both.ids.size > self.capacity:
            # Where the curve is right a key need not be remembered.
            missed = curve.likely.seconds(np.exp(both.log_rows)) * np.abs(np.expm1(both.mean_logs))
            both = both.taken(np.sort(np.argsort(-missed, kind="stable")[: self.capacity]))
        self._known = both
        called = self._names | names
        ids = np.array(sorted(called), np.int64)
        took = self._measured_s(ids)
        longest = ids[np.argsort(-took, kind="stable")[:_NAMED]]
        self._names = {int(key): called[int(key)] for key in longest}

    def _measured_s(self, ids: I64) -> F64:
        """What was measured of keys; 0 for one that is not kept."""
        known = self._known
        if self._fitted is None or not known.ids.size:
            return np.zeros(ids.size)
        at = np.minimum(np.searchsorted(known.ids, ids), known.ids.size - 1)
        took = self._fitted.likely.seconds(np.exp(known.log_rows[at])) * np.exp(known.mean_logs[at])
        return np.where(known.ids[at] == ids, took, 0.0)

    def _doubt(self, told: list[GroupReport]) -> None:
        """Follow what a run has changed: the level of all times (another machine, a busy one, another function), and keys that
        took what nothing they did before would explain."""
        known, fit = self._known, self._fitted
        if fit is None or not known.ids.size:
            return
        ids, rows, seconds = (np.concatenate([getattr(it, name) for it in told]) for name in ("ids", "rows", "seconds"))
        # Of a report that could not tell all groups the longest are there because they were long: these say nothing of a level.
        drawn = np.concatenate([_by_their_rows(it) for it in told])
        at = np.minimum(np.searchsorted(known.ids, ids), known.ids.size - 1)
        here = known.ids[at] == ids
        at, drawn = at[here], drawn[here]
        apart = np.log(np.maximum(seconds[here], 1e-9) / fit.likely.seconds(rows[here])) - known.mean_logs[at]
        level, spread = _level(apart[drawn])
        if level != 0.0:
            self._bins, known, apart = shifted(self._bins, level), known.shifted(level), apart - level
        unlikely = _UNLIKELY * np.maximum(np.sqrt(known.noise() * (1.0 + 1.0 / known.seen[at])), spread)
        contradicted = np.zeros(known.ids.size, np.bool_)
        contradicted[at[np.abs(apart) > np.maximum(unlikely, _MANY)]] = True
        self._known = known.doubted(contradicted, _DOUBTED)

    def _scale(self, factor: float) -> None:
        faded = self._bins * factor
        faded[:, faded[0] < FORGOTTEN] = 0.0
        self._bins, self._known = faded, self._known.faded(factor)

    def _rebase(self, curve: FittedCurve | None) -> None:
        self._known = KeyFactors.empty() if curve is None else self._known.based_on(self._fitted, curve)
        self._fitted = curve

    def _believed(self) -> F64:
        """The logarithm of each known key's factor, drawn toward 0, and at most two standard errors far: one key that takes ten
        times as long, each time, is believed among thousands that are alike (limited translation, Efron and Morris, 1972)."""
        between, noise = self.variances
        seen, means = self._known.seen, self._known.mean_logs
        signal = seen * between
        drawn = means * signal / (signal + noise)
        sure = np.maximum(np.abs(means) - _MOST_DRAWN * np.sqrt(noise / seen), 0.0)
        return np.copysign(np.maximum(np.abs(drawn), sure), means)

    def _others(self) -> float:
        """What groups of keys that are not known take, in parts of the curve: the mean of those that are not kept, or of all
        where all are kept. (The curve goes through the middle of the groups, and their mean is above it.)"""
        if self._fitted is None:
            return 1.0
        curve, known = self._fitted.likely, self._known
        all_s, by_curve = float(self._bins[2].sum()), curve_total_s(self._bins, curve)
        whole = all_s / by_curve
        own = known.seen * curve.seconds(np.exp(known.log_rows))
        left = max(by_curve - float(own.sum()), 0.0)
        if self.groups - float(known.seen.sum()) < 0.5:
            left = 0.0
        left_s = min(max(all_s - float((own * np.exp(known.mean_logs)).sum()), 0.0), all_s)
        some = _LEAST_OTHERS * by_curve / max(self.groups, 1.0)
        return (left_s + some * whole) / (left + some) if left > 0.0 else whole


def _by_their_rows(report: GroupReport) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which groups of a report are told whatever they took: all, or the half of most rows."""
    chosen = np.ones(report.ids.size, np.bool_)
    if report.groups > report.ids.size:
        chosen[np.argsort(-report.rows, kind="stable")[report.ids.size // 2 :]] = False
    return chosen


def _level(apart: F64) -> tuple[float, float]:
    """By how much the logarithms of all times have moved (0 where that may be chance, or hardly matters), and how far most of
    them are from that."""
    if apart.size < _LEAST_KEYS:
        return 0.0, _LEAST_SPREAD
    level = float(np.median(apart))
    spread = max(1.4826 * float(np.median(np.abs(apart - level))), _LEAST_SPREAD)
    sure = abs(level) > max(_UNLIKELY * 1.25 * spread / math.sqrt(apart.size), _HARDLY)
    return level if sure else 0.0, spread


def _told(times: GroupTimes) -> str:
    if not times.columns:
        return "nothing"
    if len(times.columns) != len(times.types):
        return ", ".join(times.columns)
    return ", ".join(f"{column} ({kind})" for column, kind in zip(times.columns, times.types, strict=True))
