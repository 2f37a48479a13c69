"""Where groups go by the time that they are expected to take.

Spark counts the rows of each key by its id (a shuffle of ids and counts), and times are estimated where these are. Whatever
the number of keys, what comes to the driver are the longest groups of a task and its sums by bucket.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenly.checks import MAX_INSTANCES
from evenly.costs.group_parts import in_parts
from evenly.costs.group_sums import GroupSums
from evenly.costs.group_times import GroupTimes
from evenly.costs.rounds import group_shares
from evenly.errors import StreamingMismatch
from evenly.instances import Auto
from evenly.kernels.types import F64, I64
from evenly.keys.dkg import DKG
from evenly.keys.hot_keys import split_in_parts
from evenly.keys.mapping import Mapping
from evenly.keys.regret import GuessedKeys, guessed_mapping
from evenly.keys.split_mapping import SplitMapping
from evenly.spark.described import described
from evenly.spark.frames import check_frame
from evenly.spark.jvm.session_slots import session_slots
from evenly.spark.keyed.choosing import about_as_good, chosen_by_time, usual_instances
from evenly.spark.keyed.group_plan import GroupPlan, tell_of_long_groups
from evenly.spark.keyed.keys import Key, key_id, key_names, type_names
from evenly.spark.keyed.time_watch import TimeWatch
from evenly.spark.python_workers import on_workers
from evenly.spark.remembering.store import Where
from evenly.spark.remembering.times import TimeMemory
from evenly.spark.sums import summed
from evenly.spark.worker_errors import worker_errors
from evenly.worker.group_loads import LOADS, GroupLoads

_MOST_TASKS = 64
"""So many tasks send their sums: at 1,000 instances they are up to three megabytes each."""


@dataclass(frozen=True)
class PlannedByTime:
    """Where groups go, the times by which that is, and who measures."""

    plan: GroupPlan
    times: GroupTimes
    watch: TimeWatch | None
    kept: TimeMemory | None


def planned_by_time(
    df: DataFrame,
    *,
    key: Key,
    counted: DataFrame | None,
    asked: int | Auto,
    times: GroupTimes,
    watch: TimeWatch | None,
    remember: Where | None,
    split: bool,
    by: str,
) -> PlannedByTime:
    """Groups of `df`, or those that are `counted` in their place, by the times given, or by those that earlier runs have left
    where `remember` says. Groups that are too long for an instance are logged."""

    def count(known: GroupTimes) -> GroupPlan:
        learn = split_by_time if split else learn_by_time
        return learn(df if counted is None else counted, key=key, instances=asked, times=known)

    kept = None
    if remember is None:
        plan = count(times)
    else:
        kept = TimeMemory(df, remember, key_names(df, key), asked, split=split, by=by)
        plan, times = kept.planned(count)
        watch = TimeWatch() if watch is None else watch
    if not plan.blind:
        tell_of_long_groups(plan.mapping, times)
    return PlannedByTime(plan, times, watch, kept)


def learn_by_time(df: DataFrame, *, key: Key, instances: int | Auto, times: GroupTimes) -> GroupPlan:
    """The mapping by which instances have about the same time.

    As long as nothing is known of times, the mapping is over pieces of what the instances do, the large ones first. Pieces of a
    size have about the same number of groups, of rows, and of the squares of groups' rows. More instances than slots are left
    whole: Spark starts them as slots come free anyway.
    """
    counted = _Counted.of(df, key, instances, times)
    mapping, blind = counted.mapping, times.curve is None
    number = mapping.instances
    if blind and 1 < number <= session_slots(df.sparkSession).number:
        mapping = counted.in_pieces()
    return GroupPlan(mapping, number, blind, lambda known: counted.knowing(known).mapping)


def split_by_time(df: DataFrame, *, key: Key, instances: int | Auto, times: GroupTimes) -> GroupPlan:
    """The same where keys that take longer than an instance's share are split, as far as they have rows. Before times are known
    those are split that have more rows than an instance's share."""
    counted = _Counted.of(df, key, instances, times)
    mapping = counted.in_parts(times)
    blind = times.curve is None
    return GroupPlan(mapping, mapping.instances, blind, lambda known: counted.knowing(known).in_parts(known))


@dataclass(frozen=True)
class _Counted:
    """What Spark has counted of groups: the longest one by one, by their ids with their rows, and all by bucket."""

    spark: Any
    asked: int | Auto
    keys: GuessedKeys
    rows: I64
    learner: DKG
    columns: tuple[str, ...]
    types: tuple[str, ...]
    timed: bool

    @classmethod
    def of(cls, df: DataFrame, key: Key, instances: int | Auto, times: GroupTimes) -> _Counted:
        """The groups of `df`."""
        check_frame(df, "fit_on")
        if df.isStreaming:
            raise StreamingMismatch("groups cannot be counted in a streaming DataFrame: give fit_on= a batch of earlier rows")
        names = key_names(df, key)
        learner = DKG.automatic(usual_instances(df.sparkSession, instances), ids="xxhash64")
        keyed = df.select(key_id(names).alias("id"))
        counted = summed(keyed, ["id"], [F.count(F.lit(1)).alias("count")]).coalesce(_MOST_TASKS)
        loads = GroupLoads(times.estimates, learner.bucket_count, learner.counters)
        with worker_errors(), described(df.sparkSession, f"count groups of {', '.join(names)}"):
            told = counted.mapInArrow(on_workers(df.sparkSession, loads), LOADS).collect()
        found, rows = _together(told, loads)
        spark, types = df.sparkSession, type_names(df, names)
        return cls(spark, instances, found, rows, learner, names, types, timed=times.curve is not None)

    @cached_property
    def mapping(self) -> Mapping:
        """Each group on one of as many instances as were asked for, or are best for what is known of times."""
        mapping = self._over(None)
        if isinstance(self.asked, Auto):
            total_s = float(mapping.fitted_loads.sum()) if self.timed else None
            choice = chosen_by_time(self.spark, self.asked, mapping, total_s=total_s)
            mapping = replace(self._over(choice.number), chosen=choice.why)
        return mapping

    def in_pieces(self) -> Mapping:
        """The mapping over pieces of what its instances do, as far as there are buckets for so many and rows are placed over
        so many."""
        shares = group_shares(self.mapping.instances)
        if shares.size > min(self.learner.bucket_count, MAX_INSTANCES):
            return self.mapping
        pieces = guessed_mapping(self.keys, self.learner, instances=self.mapping.instances, shares=shares)
        return replace(pieces, columns=self.columns, types=self.types, chosen=self.mapping.chosen)

    def in_parts(self, times: GroupTimes) -> SplitMapping:
        """The mapping with keys split that take longer than an instance's share; over as many instances as are best for what
        parts take, who may take less together than whole keys, or more."""
        found = self._split(self.mapping, times)
        if self.timed and isinstance(self.asked, Auto):
            total_s = float(found.fitted_loads.sum())
            choice = chosen_by_time(self.spark, self.asked, found.light, total_s=total_s)
            if not about_as_good(self.spark, found.instances, choice.number):
                found = self._split(replace(self._over(choice.number), chosen=choice.why), times)
        return found

    def _split(self, mapping: Mapping, times: GroupTimes) -> SplitMapping:
        total_s = float(mapping.fitted_loads.sum())
        order = np.argsort(self.keys.ids)
        rows = self.rows[order][np.searchsorted(self.keys.ids[order], mapping.heavy_keys)].astype(np.float64)
        ids, instances = mapping.heavy_keys.view(np.int64), mapping.instances
        parts = in_parts(times.estimates, ids, rows, mapping.heavy_weights, total_s=total_s, instances=instances)
        return split_in_parts(replace(mapping, heavy_weights=parts.seconds), parts.fewest, parts.most)

    def knowing(self, times: GroupTimes) -> _Counted:
        """The same groups by what is known of times now, if nothing was when they were counted."""
        if self.timed or times.curve is None:
            return self
        estimates = times.estimates
        told = GroupSums(self.keys.ids.view(np.int64), self.rows.astype(np.float64), self.keys.buckets).with_timed(estimates)
        keys = GuessedKeys(told.ids.view(np.uint64), *told.seconds(estimates))
        return replace(self, keys=keys, rows=told.rows.round().astype(np.int64), timed=True)

    def _over(self, instances: int | None) -> Mapping:
        return replace(guessed_mapping(self.keys, self.learner, columns=self.columns, instances=instances), types=self.types)


def _together(told: list[Any], loads: GroupLoads) -> tuple[GuessedKeys, I64]:
    """What all tasks have told, and the rows of the groups that are told by their ids: the longest of all tasks, by each guess.
    Each group was in one of them."""
    guesses = loads.estimates.guesses
    sums = np.zeros((guesses, loads.buckets))
    ids, weights, rows = [np.empty(0, np.int64)], [np.empty((guesses, 0))], [np.empty(0, np.int64)]
    for row in told:
        sums[:, np.frombuffer(row.at, np.int32)] += _rows(row.buckets, guesses)
        ids.append(np.frombuffer(row.ids, np.int64))
        weights.append(_rows(row.weights, guesses))
        rows.append(np.frombuffer(row.rows, np.int64))
    of_ids, of_weights, of_rows = loads.longest(np.concatenate(ids), np.concatenate(weights, axis=1), np.concatenate(rows))
    return GuessedKeys(of_ids.view(np.uint64), of_weights, sums), of_rows


def _rows(data: bytes, guesses: int) -> F64:
    return np.frombuffer(data, np.float64).reshape(guesses, -1)
