"""What each batch of a streaming query shows of its rows: rows per instance, rows per bucket, and the heaviest keys.

All are native aggregates (`DataFrame.observe`), so no row goes through Python. Each is a summary of frequent items. What is
observed beside a query is in every progress event, log line and event log, so it is told in a bounded number of characters,
whatever the number of instances (`Observation`); `Counted` tells all.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from evenly.kernels.types import F64, U64
from evenly.keys.controller import BatchLoad
from evenly.keys.dkg import DKG, KeyCounts
from evenly.keys.told import INSTANCE_DIGITS, KEY_DIGITS, Told, merged_counts, with_the_rest
from evenly.spark.jvm.progress_events import Metrics

_LEAST_TRACKED, _MOST_TRACKED = 64, 16_384
_MOST_NAMED, _NAME_CHARACTERS = 8, 32
_DOUBLINGS = 40  # counts are told up to 2^40


class Counted:
    """Rows by key as native aggregates, and what they gave as counts for a learner of these parameters."""

    def __init__(self, learner: DKG) -> None:
        self._buckets, self._keys = learner.bucket_count, min(learner.counters, _MOST_TRACKED // 4)

    def columns(self, identity: Column) -> list[Column]:
        """The aggregates, named `buckets` and `heavy`."""
        bucket = F.pmod(identity, F.lit(self._buckets).cast("bigint")).cast("int")
        # Four counters for each key that is told: those told are then nearly exact.
        return [
            _top(bucket, self._buckets, 2 * self._buckets).alias("buckets"),
            _top(identity, self._keys, 4 * self._keys).alias("heavy"),
        ]

    def read(self, rows: list[Row]) -> KeyCounts:
        """The counts of one batch, over all that was observed of it."""
        buckets = np.zeros(self._buckets)
        found = []
        for row in rows:
            for entry in row["buckets"] or []:
                buckets[entry["item"]] += entry["count"]
            found += [(entry["item"], entry["count"]) for entry in row["heavy"] or []]
        ids = np.array([item for item, _ in found], np.int64).view(np.uint64)
        return KeyCounts(buckets, ids, np.array([count for _, count in found], np.float64))


def _names(identity: Column, columns: tuple[str, ...]) -> Column:
    """The heaviest keys: of each 16 hexadecimal digits of its id, and the beginning of its values."""
    values = [F.coalesce(F.col(one).cast("string"), F.lit("null")) for one in columns]
    text = F.substring(F.concat_ws(", ", *values), 1, _NAME_CHARACTERS)
    entry = F.concat(F.lpad(F.hex(identity), 16, "0"), text)
    return F.transform(_top(entry, _MOST_NAMED, _LEAST_TRACKED * 4), lambda counted: counted["item"])


def _called(entry: str) -> str:
    """The key's name; one that may have been cut ends in some of its id's digits, as others may begin alike."""
    text = entry[16:]
    return text if len(text) < _NAME_CHARACTERS else f"{text}… {entry[:4].lower()}"


def _top(item: Column, told: int, tracked: int) -> Column:
    """The `told` most frequent of a column's values, with their counts; exact if there are fewer than 3/4 of `tracked`."""
    counters = max(_LEAST_TRACKED, 2 ** (tracked - 1).bit_length())
    return F.call_function("approx_top_k", item, F.lit(told), F.lit(counters))


@dataclass(frozen=True)
class Entries:
    """Values and their counts as text: so many hexadecimal digits for a value, so many for its count, then base64.

    `exact` counts are told as they are, others by their logarithm, to within 0.4 % (3 digits) or 0.03 % (4 digits).
    """

    value_digits: int
    count_digits: int
    exact: bool = False

    @property
    def _most(self) -> int:
        return int(16**self.count_digits - 1)

    def text(self, counted: Column) -> Column:
        """An array of values with counts as a text. Null is left out."""

        def digits(entry: Column) -> Column:
            count = entry["count"] if self.exact else F.round(F.log2(entry["count"]) * (self._most / _DOUBLINGS))
            told = F.least(count.cast("bigint"), F.lit(self._most).cast("bigint"))
            value = F.lpad(F.hex(entry["item"]), self.value_digits, "0")
            return F.concat(value, F.lpad(F.hex(told), self.count_digits, "0"))

        lines = F.base64(F.unhex(F.array_join(F.transform(counted, digits), "")))
        return F.translate(lines, "\r\n", "")

    def read(self, text: str | None) -> tuple[U64, F64]:
        """The values and their counts."""
        digits, width = base64.b64decode(text or "").hex(), self.value_digits + self.count_digits
        entries = [digits[at : at + width] for at in range(0, len(digits), width)]
        values = np.array([int(entry[: self.value_digits], 16) for entry in entries], np.uint64)
        counts = np.array([int(entry[self.value_digits :], 16) for entry in entries], np.float64)
        return values, counts if self.exact else np.exp2(counts * (_DOUBLINGS / self._most))


_INSTANCES = Entries(INSTANCE_DIGITS.value, INSTANCE_DIGITS.count, exact=True)
_KEYS = Entries(KEY_DIGITS.value, KEY_DIGITS.count)


class Observation:
    """The observation of one run of a query, under one version of its mapping, for each of its placed DataFrames.

    What it adds to a progress event does not grow with the instances. So with several DataFrames, or many instances, the
    heaviest are told and the rest as their mean: the rows of the 128 heaviest instances and the number of all rows are exact:
    λ is that of the rows. Of each side of a join it is 64 instances: with more than these λ may be told too low, where the
    busiest of both sides together is not among the 64 of each. Then come as many of the heaviest buckets and keys as there is
    room for. With 8 instances and one DataFrame these are all 512 buckets and 370 keys; from 128 instances on 540 buckets and
    140 keys. With `named` key columns eight of the heaviest are told by their values, too. Counts of buckets and keys are
    within 0.4 %; of more than about 12,000 buckets (200 instances) only those are told that stand out.
    """

    def __init__(self, name: str, *, instances: int, learner: DKG, sides: int = 1, named: tuple[str, ...] = ()) -> None:
        self._name, self._instances, self._learner, self._named = name, instances, learner, named
        self._tracked_keys = 4 * min(learner.counters, _MOST_TRACKED // 4)
        self._told = Told.of(learner, instances=instances, sides=sides)
        self._buckets = Entries(self._told.bucket_digits.value, self._told.bucket_digits.count)

    def of(self, side: int) -> Callable[[DataFrame, Column, Column, Column | None], DataFrame]:
        """Adds the observation to the rows of one DataFrame: what `with_slot_of_window` takes."""

        def observe(steps: DataFrame, instance: Column, identity: Column, newest: Column | None) -> DataFrame:
            return steps.observe(f"{self._name}_{side}", *self.columns(instance, identity, newest))

        return observe

    def columns(self, instance: Column, identity: Column, newest: Column | None) -> list[Column]:
        """The aggregates of one DataFrame's rows."""
        count = self._learner.bucket_count
        bucket = F.pmod(identity, F.lit(count).cast("bigint")).cast("int")
        buckets = _top(bucket, self._told.buckets, min(2 * count, _MOST_TRACKED))
        keys = _top(identity, self._told.keys, self._tracked_keys)
        return [
            *self._rows(instance, "rows"),
            self._buckets.text(buckets).alias("buckets"),
            _KEYS.text(keys).alias("heavy"),
            *(() if newest is None else self._rows(F.when(newest, instance), "newest")),
            *((_names(identity, self._named).alias("names"),) if self._named else ()),
        ]

    def names(self, metrics: Mapping[str, Metrics]) -> dict[int, str]:
        """The heaviest keys of a batch by their ids, as far as they are named."""
        found = [row for name, row in metrics.items() if name.rsplit("_", 1)[0] == self._name and "names" in row]
        told = (entry for row in found for entry in row["names"] or ())
        return {int(entry[:16], 16): _called(entry) for entry in told}

    def is_in(self, metrics: Iterable[str]) -> bool:
        """Whether a batch was observed."""
        return any(name.rsplit("_", 1)[0] == self._name for name in metrics)

    def read(self, metrics: Mapping[str, Metrics]) -> tuple[F64, BatchLoad] | None:
        """What a batch showed, over all sides; None if it was not observed."""
        if not self.is_in(metrics):
            return None
        found = [row for name, row in metrics.items() if name.rsplit("_", 1)[0] == self._name]
        rows = np.sum([self._decoded(row, "rows") for row in found], axis=0)
        newest = np.sum([self._decoded(row, "newest" if "newest" in row else "rows") for row in found], axis=0)
        counts = [self._counts(row) for row in found]
        buckets = np.sum([one.buckets for one in counts], axis=0)
        ids, told = np.concatenate([one.ids for one in counts]), np.concatenate([one.counts for one in counts])
        return rows, BatchLoad(newest, KeyCounts(buckets, ids, told))

    def _rows(self, instance: Column, name: str) -> tuple[Column, Column]:
        # One more than is told: rows without an instance, those under an older mapping, are a value too.
        counted = _top(instance, self._told.instances + 1, 2 * (self._instances + 1))
        return F.count(instance).alias(f"{name}_all"), _INSTANCES.text(counted).alias(name)

    def _decoded(self, row: Metrics, name: str) -> F64:
        at, counts = _INSTANCES.read(row[name])
        return with_the_rest(at.astype(np.int64), counts, float(row[f"{name}_all"]), self._instances)

    def _counts(self, row: Metrics) -> KeyCounts:
        at, counts = self._buckets.read(row["buckets"])
        ids, key_counts = _KEYS.read(row["heavy"])
        return merged_counts(self._learner, at.astype(np.int64), counts, ids, key_counts, float(row["rows_all"]))
