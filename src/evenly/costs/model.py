"""What a row is expected to cost, by its key, learnt in bounded memory."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.costs.chance import unevenness
from evenly.costs.moments import Moments
from evenly.costs.report import InstanceReport
from evenly.costs.shrinkage import Variances, believed, folded, seen_once, variances
from evenly.costs.table import CostTable
from evenly.errors import DamagedData, IncompatibleMerge, InvalidCost, InvalidParameter
from evenly.files import KeptInFile
from evenly.kernels.types import F64
from evenly.sealed import opened, sealed

MAX_CAPACITY = 16_384
KIND = "evenly-costs"
VERSION = 1

_EMPTY_S = 1e-3
_LEAST_GAIN = 0.01
_ENOUGH_AGAIN = 64.0
_ENOUGH_ROWS = 10_000.0
_FORGOTTEN = 1e-3
_INSTANCES = 8
_FEW_ROWS = 64 * _INSTANCES


class CostModel(KeptInFile):
    """Expected cost of a row by the id of its key, in at most 1 MiB whatever the stream.

    It keeps exact moments (rows, cost, squares) of the `capacity` ids that cost most in all; all other ids share one entry,
    the rest. An estimate is the mean of the id's rows, drawn toward the mean of all rows by as much as chance explains
    (empirical Bayes: the variance within keys against that between keys). Ids that are not in the table are
    estimated as the keys that were seen once and the rest are: what is new is rare. Frequent keys may cost quite another sum.

    - An estimate is above 0 and lies within the range of the key's mean and the overall mean.
    - `merge` is commutative, and so is `learn_all` in its reports: equal to the last bit for two, up to rounding for more.
    - Without repeated keys nothing is known about keys: every estimate is then the mean.

    `tests/property/test_cost_model.py` proves them.

    Parameters: `expressions`, the cost key as column names or SQL expressions, so that a saved model says what it is of, and
    `types`, those that Spark hashed them in (none: not known, as in files of before); `capacity`, 1 to 16,384 ids;
    `half_life_rows`, above 0: a row weighs half after so many others (None: never forget).

    >>> from evenly.costs import CostMeter
    >>> meter = CostMeter()
    >>> meter.add(np.array([1, 1, 2, 2]), np.array([0.1, 0.1, 0.3, 0.3]))
    >>> CostModel().learn(meter.report(instance=0)).estimate(np.array([1, 2, 3]))
    array([0.1, 0.3, 0.2])
    """

    def __init__(
        self,
        expressions: Sequence[str] = (),
        *,
        types: Sequence[str] = (),
        capacity: int = MAX_CAPACITY,
        half_life_rows: float | None = None,
    ) -> None:
        if isinstance(expressions, str):
            expressions = (expressions,)
        if not 1 <= capacity <= MAX_CAPACITY:
            raise InvalidParameter(f"capacity must be from 1 to {MAX_CAPACITY} ids, got {capacity}")
        if half_life_rows is not None and not (math.isfinite(half_life_rows) and half_life_rows > 0.0):
            raise InvalidParameter(f"half_life_rows must be a finite number above 0, or None, got {half_life_rows}")
        self.expressions, self.types = tuple(expressions), tuple(types)
        self.capacity = int(capacity)
        self.half_life_rows = None if half_life_rows is None else float(half_life_rows)
        self._known = Moments.empty()
        self._rest: F64 = np.zeros(3)
        self.batch_rows = 0
        """The rows of the last batch it has learnt from: what the next one is expected to have."""
        self._found: Variances | None = None
        self._table: CostTable | None = None

    # What it knows

    @property
    def rows(self) -> float:
        """The rows it remembers, forgotten ones less; rows that were not timed are not among them."""
        return float(self._known.counts.sum() + self._rest[0])

    @property
    def keys(self) -> int:
        """How many ids it knows one by one."""
        return self._known.size

    @property
    def mean_s(self) -> float:
        """The mean cost of a row; 0 if none was seen."""
        return self.variances.mean_s

    @property
    def memory_bytes(self) -> int:
        """What it takes: moments, estimates and the variance of each key. The estimates' ids are those of the moments."""
        table = 0 if self._table is None else self._table.costs_s.nbytes
        found = 0 if self._found is None else self._found.of_keys.nbytes
        return self._known.nbytes + self._rest.nbytes + table + found

    @property
    def moments(self) -> tuple[Moments, F64]:
        """The moments of the ids it knows one by one, and those of the rest."""
        return self._known, self._rest

    @property
    def variances(self) -> Variances:
        """How much of the costs' variance lies within keys, and how much between them."""
        if self._found is None:
            self._found = variances(self._known, self._rest)
        return self._found

    @property
    def gain(self) -> float:
        """What scheduling saves of the batch time against even dealing: 8 instances, as many rows as the last batch."""
        return self.gain_for(self.batch_rows or _FEW_ROWS, _INSTANCES)

    @property
    def gain_of_few(self) -> float:
        """The same for a batch of 64 rows for each of the 8: if there is no gain there, the key explains nothing."""
        return self.gain_for(_FEW_ROWS, _INSTANCES)

    def gain_for(self, rows: float, instances: int) -> float:
        """The share of the batch time that scheduling by this model saves against even dealing, for such a batch.

        What equal numbers of rows leave uneven is about cv · m · sqrt(k / n), m the expected maximum of k normal values (1.42
        for 8; sqrt(2 ln k) for very large k). Even dealing has that of all costs, scheduling that of what estimates leave: what
        varies within keys, and what is not known of keys that are new or were seen a few times.
        What routing takes is not in it: see `placing.choose_dealing`.
        """
        return _gain(self.variances.shares_to_come, rows, instances)

    @property
    def constant(self) -> bool:
        """Whether it is known that the key explains nothing that matters: scheduling would save less than 1 % even of a
        batch of 64 rows for each of 8 instances.

        That nothing was found is not enough, since a few wild costs hide what keys explain: even two standard errors more
        between keys must not matter.
        """
        if self.rows <= 0.0 or self.gain_of_few >= _LEAST_GAIN:
            return False
        found = self.variances
        if math.sqrt(found.total) < 0.04 * found.mean_s:
            return True
        # Keys that were never seen again say nothing yet, unless it has gone on for long.
        if found.freedom < _ENOUGH_AGAIN:
            return self.rows >= _ENOUGH_ROWS
        return _gain(found.shares_at_most, _FEW_ROWS, _INSTANCES) < _LEAST_GAIN

    @property
    def table(self) -> CostTable:
        """The estimates as plain arrays, for routers."""
        if self._table is None:
            self._table = self._estimates()
        return self._table

    def estimate(self, ids: ArrayLike) -> F64:
        """What a row of each id is expected to cost, in seconds, above 0; 1 ms each if no row was ever seen."""
        return self.table.estimate(ids)

    # Learning

    def learn(self, report: InstanceReport, *, speed: float = 1.0) -> Self:
        """Take in a report. `speed` is that of its executor: a row that took 4 s at speed 0.25 costs 1 s."""
        return self.learn_all([report], speeds=[speed])

    def learn_all(self, reports: Iterable[InstanceReport], *, speeds: Sequence[float] | None = None) -> Self:
        """Take in the reports of one batch at once: their order does not matter, and nothing is folded before all are in."""
        told = list(reports)
        factors = [1.0] * len(told) if speeds is None else [float(speed) for speed in speeds]
        if len(factors) != len(told):
            raise InvalidParameter(f"{len(told)} reports came with {len(factors)} speeds: give one for each")
        parts, rest = [], np.zeros(3)
        for report, speed in zip(told, factors, strict=True):
            if not (math.isfinite(speed) and speed > 0.0):
                raise InvalidParameter(f"the speed of {report.executor!r} is {speed}: it must be finite and above 0")
            parts.append(_checked(report).scaled(report.sampling, cost=speed))
            rest += np.asarray(report.rest) * (report.sampling * np.array([1.0, speed, speed * speed]))
        new = Moments.pooled(parts)
        if self.half_life_rows is not None:
            self.forget(0.5 ** ((float(new.counts.sum()) + float(rest[0])) / self.half_life_rows))
        self.batch_rows = sum(report.rows for report in told) or self.batch_rows
        self._take(new, rest)
        return self

    def merge(self, other: CostModel) -> Self:
        """Take in what another model of the same cost key has learnt."""
        if self.expressions != other.expressions:
            raise IncompatibleMerge(
                f"a model of {list(self.expressions)} cannot take in one of {list(other.expressions)}: learn the same cost key"
            )
        if self.types and other.types and self.types != other.types:
            raise IncompatibleMerge(
                f"a model of {', '.join(self.expressions)} as {', '.join(self.types)} cannot take in one as "
                f"{', '.join(other.types)}: learn the cost key in one type"
            )
        if self.capacity != other.capacity:
            raise IncompatibleMerge(f"models of {self.capacity} and {other.capacity} ids cannot be merged: make them alike")
        self.types = self.types or other.types
        self.batch_rows = max(self.batch_rows, other.batch_rows)
        self._take(other._known, other._rest)
        return self

    def forget(self, factor: float) -> Self:
        """All that was learnt weighs `factor` times as much, 0 to 1."""
        if not 0.0 <= factor <= 1.0:
            raise InvalidParameter(f"factor must be from 0 to 1, got {factor}")
        if factor < 1.0:
            faded = self._known.scaled(factor)
            keep = faded.counts >= _FORGOTTEN
            self._known = Moments(faded.ids[keep], faded.counts[keep], faded.sums_s[keep], faded.squares[keep])
            self._rest = self._rest * factor if self._rest[0] * factor >= _FORGOTTEN else np.zeros(3)
            self._changed()
        return self

    def rescale(self, factor: float) -> Self:
        """All costs are `factor` times what was learnt: the machines have become slower or faster for every key."""
        if not (math.isfinite(factor) and factor > 0.0):
            raise InvalidParameter(f"factor must be finite and above 0, got {factor}")
        self._known = self._known.scaled(1.0, cost=factor)
        self._rest = self._rest * np.array([1.0, factor, factor * factor])
        self._changed()
        return self

    def typed(self, types: Sequence[str]) -> CostModel:
        """A model of its own that says which types its key has, if this one does not."""
        other = self.copy()
        other.types = self.types or tuple(types)
        return other

    def copy(self) -> CostModel:
        """A model that learns on its own from here."""
        other = CostModel(self.expressions, types=self.types, capacity=self.capacity, half_life_rows=self.half_life_rows)
        other._known, other._rest, other.batch_rows = self._known, self._rest.copy(), self.batch_rows
        return other

    # Saving

    def to_json(self) -> str:
        """The model as one JSON object with a checksum: about 43 bytes an id, at most 700 KiB."""
        return sealed(self.content(), kind=KIND, version=VERSION)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "this text") -> Self:
        """The model that `to_json` was called on."""
        return cls.of_content(opened(text, kind=KIND, version=VERSION, what="cost model", source=source), source=source)

    def content(self) -> dict[str, Any]:
        """Plain data, for `of_content`: what a scheduler saves with its own state."""
        return {
            "expressions": list(self.expressions),
            "types": list(self.types),
            "capacity": self.capacity,
            "half_life_rows": self.half_life_rows,
            "batch_rows": self.batch_rows,
            "rest": self._rest.tolist(),
            "ids": _text(self._known.ids),
            "moments": _text(np.stack([self._known.counts, self._known.sums_s, self._known.squares])),
        }

    @classmethod
    def of_content(cls, content: dict[str, Any], *, source: str = "this text") -> Self:
        try:
            model = cls(
                content["expressions"],
                types=content.get("types", ()),  # files of before have none
                capacity=content["capacity"],
                half_life_rows=content["half_life_rows"],
            )
            ids = _array(content["ids"], "<i8").astype(np.int64)
            counts, sums, squares = _array(content["moments"], "<f8").astype(np.float64).reshape(3, ids.size)
            model._known = Moments(ids, counts, sums, squares)
            model._rest = np.array(content["rest"], np.float64).reshape(3)
            model.batch_rows = int(content["batch_rows"])
        except (LookupError, TypeError, ValueError, binascii.Error) as error:
            raise DamagedData(f"{source} is not a saved cost model, or is damaged: {error}") from error
        return model

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CostModel) and self.content() == other.content()

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns

    def __repr__(self) -> str:
        return (
            f"CostModel({list(self.expressions)}, rows={self.rows:.0f}, keys={self.keys}, "
            f"mean_s={self.mean_s:.3g}, gain={self.gain:.1%})"
        )

    # Within

    def _take(self, new: Moments, rest: F64) -> None:
        self._known, self._rest = folded(Moments.pooled([self._known, new]), self._rest + rest, limit=self.capacity)
        self._changed()

    def _changed(self) -> None:
        self._found = self._table = None

    def _estimates(self) -> CostTable:
        found = self.variances
        if self.rows <= 0.0:
            return CostTable.constant(_EMPTY_S)
        others = found.mean_s
        # A key that was never seen is like those that were seen once (as Good and Turing argued), and frequent keys are not.
        once = seen_once(self._known)
        rare = float(self._known.counts[once].sum() + self._rest[0])
        if rare > 0.0 and found.between > 0.0:
            signal = rare * found.between
            mean_s = float(self._known.sums_s[once].sum() + self._rest[1]) / rare
            others += (mean_s - others) * signal / (signal + found.within)
        least = max(found.mean_s * 1e-4, 1e-9)
        return CostTable(self._known.ids, np.maximum(np.append(believed(self._known, found), others), least))


def _gain(shares: tuple[float, float], rows: float, instances: int) -> float:
    if instances < 2 or rows <= 0:
        return 0.0
    even, by_cost = (unevenness(cv, rows, instances) for cv in shares)
    return (even - by_cost) / (1.0 + even)


def _checked(report: InstanceReport) -> Moments:
    told = report.moments
    rest = np.asarray(report.rest, np.float64)
    for name, values in (("counts", told.counts), ("sums_s", told.sums_s), ("squares", told.squares), ("rest", rest)):
        if values.size and not (values.min() >= 0.0 and values.max() < np.inf):
            at = int(np.argmax(~(np.isfinite(values) & (values >= 0.0))))
            raise InvalidCost(
                f"{name}[{at}] in the report of instance {report.instance} is {values[at]}: "
                "moments of costs are finite and at least 0; measure with CostMeter"
            )
    sizes = {told.ids.size, told.counts.size, told.sums_s.size, told.squares.size}
    if len(sizes) > 1 or not (told.ids[1:] > told.ids[:-1]).all() or not (told.counts > 0.0).all():
        raise InvalidCost(f"the report of instance {report.instance} has no moments by sorted ids: measure with CostMeter")
    return told


def _text(array: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()).decode()


def _array(text: str, dtype: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype)
