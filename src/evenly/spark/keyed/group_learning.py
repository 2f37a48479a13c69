"""Where groups go by the time that they are expected to take.

Spark counts the rows of each key by its id (a shuffle of ids and counts), and times are estimated where these are. Whatever
the number of keys, what comes to the driver are the longest groups of a task and its sums by bucket.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenly.checks import MAX_INSTANCES
from evenly.costs.group_parts import in_parts
from evenly.costs.group_times import GroupTimes
from evenly.costs.rounds import group_shares
from evenly.errors import StreamingMismatch
from evenly.instances import Auto, MeasuredTimes
from evenly.kernels.types import F64, I64
from evenly.keys.dkg import DKG
from evenly.keys.hot_keys import split_in_parts
from evenly.keys.mapping import Mapping
from evenly.keys.regret import GuessedKeys, guessed_mapping
from evenly.keys.resizing import most_instances
from evenly.keys.split_mapping import SplitMapping
from evenly.spark.described import described
from evenly.spark.frames import check_frame
from evenly.spark.jvm.session_slots import session_slots
from evenly.spark.keyed.choosing import chosen_for, usual_instances
from evenly.spark.keyed.keys import Key, key_id, key_names, type_names
from evenly.spark.python_workers import on_workers
from evenly.spark.sums import summed
from evenly.spark.worker_errors import worker_errors
from evenly.worker.group_loads import LOADS, GroupLoads

_LOG = logging.getLogger(__name__)
_MOST_TASKS = 64
"""So many tasks send their sums: at 1,000 instances they are up to three megabytes each."""
_TOLD = 3
_CLEARLY, _WORTH_S = 1.1, 1.0
"""A group is named if it is longer than an instance's share by so much, in parts and in seconds."""
_WHOLE = (
    "If results of parts can be merged, aggregate_by_key with a Merging and balance='time' (or mapping=watch.mapping) splits "
    "such keys"
)
_IN_PARTS = "They are parts of keys that have no more rows to be cut by"


def learn_by_time(df: DataFrame, *, key: Key, instances: int | Auto, times: GroupTimes) -> tuple[Mapping, int]:
    """The mapping by which instances have about the same time, and their number. Groups that are too long for an instance are
    logged.

    As long as nothing is known of times, the mapping is over pieces of what the instances do, the large ones first. Pieces of a
    size have about the same number of groups, of rows, and of the squares of groups' rows. More instances than slots are left
    whole: Spark starts them as slots come free anyway.
    """
    counted = _counted(df, key, instances, times)
    mapping = counted.mapping
    if times.curve is not None:
        _tell_of_long_groups(mapping, times, mapping.heavy_weights, float(mapping.fitted_loads.sum()), _WHOLE)
    elif 1 < mapping.instances <= session_slots(df.sparkSession).number:
        return counted.in_pieces(), mapping.instances
    return mapping, mapping.instances


def split_by_time(df: DataFrame, *, key: Key, instances: int | Auto, times: GroupTimes) -> SplitMapping:
    """The same where keys that take longer than an instance's share are split, as far as they have rows. Before times are known
    those are split that have more rows than an instance's share."""
    counted = _counted(df, key, instances, times)
    mapping, rows = counted.mapping, counted.heavy_rows()
    ids, total_s = mapping.heavy_keys.view(np.int64), float(mapping.fitted_loads.sum())
    parts = in_parts(times.estimates, ids, rows, mapping.heavy_weights, total_s=total_s, instances=mapping.instances)
    total_s += float((parts.seconds - mapping.heavy_weights).sum())
    if times.curve is not None:
        _tell_of_long_groups(mapping, times, parts.longest_s, total_s, _IN_PARTS)
    return split_in_parts(replace(mapping, heavy_weights=parts.seconds), parts.fewest, parts.most)


@dataclass(frozen=True)
class _Counted:
    """What Spark has counted of groups: the longest one by one, by their ids with their rows, and all by bucket."""

    mapping: Mapping
    keys: GuessedKeys
    rows: I64
    learner: DKG

    def in_pieces(self) -> Mapping:
        """The mapping over pieces of what its instances do, as far as there are buckets for so many and rows are placed over
        so many."""
        shares = group_shares(self.mapping.instances)
        if shares.size > min(self.learner.bucket_count, MAX_INSTANCES):
            return self.mapping
        pieces = guessed_mapping(self.keys, self.learner, instances=self.mapping.instances, shares=shares)
        return replace(pieces, columns=self.mapping.columns, types=self.mapping.types, chosen=self.mapping.chosen)

    def heavy_rows(self) -> F64:
        """The rows of the mapping's heavy keys."""
        order = np.argsort(self.keys.ids)
        return self.rows[order][np.searchsorted(self.keys.ids[order], self.mapping.heavy_keys)].astype(np.float64)


def _counted(df: DataFrame, key: Key, instances: int | Auto, times: GroupTimes) -> _Counted:
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
    found = _together(told, loads.estimates.guesses, learner.bucket_count)
    mapping = guessed_mapping(found, learner, columns=names)
    if isinstance(instances, Auto):
        longest_s = 0.0 if instances.may_split else float(mapping.heavy_weights.max(initial=0.0))
        known = None if times.curve is None else MeasuredTimes(float(mapping.fitted_loads.sum()), longest_s)
        most = most_instances(mapping)
        choice = chosen_for(df.sparkSession, instances, mapping, rows=None, times=known, most=most)
        mapping = replace(guessed_mapping(found, learner, columns=names, instances=choice.number), chosen=choice.why)
    rows = np.concatenate([np.empty(0, np.int64), *(np.frombuffer(row.rows, np.int64) for row in told)])
    return _Counted(replace(mapping, types=type_names(df, names)), found, rows, learner)


def _together(told: list[Any], guesses: int, buckets: int) -> GuessedKeys:
    """What all tasks have told. Each group was in one of them."""
    sums = np.zeros((guesses, buckets))
    ids, weights = [np.empty(0, np.int64)], [np.empty((guesses, 0))]
    for row in told:
        sums[:, np.frombuffer(row.at, np.int32)] += _rows(row.buckets, guesses)
        ids.append(np.frombuffer(row.ids, np.int64))
        weights.append(_rows(row.weights, guesses))
    return GuessedKeys(np.concatenate(ids).view(np.uint64), np.concatenate(weights, axis=1), sums)


def _rows(data: bytes, guesses: int) -> F64:
    return np.frombuffer(data, np.float64).reshape(guesses, -1)


def _tell_of_long_groups(mapping: Mapping, times: GroupTimes, seconds: F64, total_s: float, remedy: str) -> None:
    """A warning that names the groups that no placement can make good, and what would help; `seconds` are of the heavy keys."""
    share_s = total_s / mapping.instances
    order = np.argsort(-seconds, kind="stable")[:_TOLD]
    order = order[seconds[order] > max(_CLEARLY * share_s, share_s + _WORTH_S)]
    if not order.size:
        return
    longest_s = float(seconds[order[0]])
    called = times.names
    told = []
    for at in order.tolist():
        key = int(mapping.heavy_keys[at : at + 1].view(np.int64)[0])
        name = called.get(key, f"a key not timed by name yet, xxhash64({', '.join(mapping.columns)}) = {key}")
        told.append(f"{name} ({seconds[at]:.3g} s)")
    fewer = max(1, int(total_s / longest_s))
    _LOG.warning(
        "longer than an instance's share of %.3g s are the groups of %s: the stage takes at least %.3g s. %s; otherwise %d "
        "instance%s will do as well",
        share_s,
        "; ".join(told),
        longest_s,
        remedy,
        fewer,
        "" if fewer == 1 else "s",
    )
