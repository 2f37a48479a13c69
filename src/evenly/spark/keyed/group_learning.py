"""Where groups go by the time that they are expected to take.

Spark counts the rows of each key by its id (a shuffle of ids and counts), and times are estimated where these are. Whatever
the number of keys, what comes to the driver are the longest groups of a task and its sums by bucket.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from pyspark.sql import DataFrame

from evenly.costs.group_parts import in_parts
from evenly.costs.group_times import GroupTimes
from evenly.errors import StreamingMismatch
from evenly.instances import Auto, MeasuredTimes
from evenly.kernels.types import F64
from evenly.keys.dkg import DKG
from evenly.keys.hot_keys import split_in_parts
from evenly.keys.mapping import Mapping
from evenly.keys.regret import GuessedKeys, guessed_mapping
from evenly.keys.resizing import most_instances
from evenly.keys.split_mapping import SplitMapping
from evenly.spark.described import described
from evenly.spark.frames import check_frame
from evenly.spark.keyed.choosing import chosen_for, usual_instances
from evenly.spark.keyed.keys import Key, key_id, key_names, type_names
from evenly.spark.python_workers import on_workers
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


def learn_by_time(df: DataFrame, *, key: Key, instances: int | Auto, times: GroupTimes) -> Mapping:
    """The mapping by which instances have about the same time; as far as that is not known, about the same number of groups, of
    rows, and of the squares of groups' rows. Groups that are too long for an instance are logged."""
    mapping, _ = _learnt(df, key, instances, times)
    if times.curve is not None:
        _tell_of_long_groups(mapping, times, mapping.heavy_weights, float(mapping.fitted_loads.sum()), _WHOLE)
    return mapping


def split_by_time(df: DataFrame, *, key: Key, instances: int | Auto, times: GroupTimes) -> SplitMapping:
    """The same where keys that take longer than an instance's share are split, as far as they have rows. Before times are known
    those are split that have more rows than an instance's share."""
    mapping, rows = _learnt(df, key, instances, times)
    ids, total_s = mapping.heavy_keys.view(np.int64), float(mapping.fitted_loads.sum())
    parts = in_parts(times.estimates, ids, rows, mapping.heavy_weights, total_s=total_s, instances=mapping.instances)
    total_s += float((parts.seconds - mapping.heavy_weights).sum())
    if times.curve is not None:
        _tell_of_long_groups(mapping, times, parts.longest_s, total_s, _IN_PARTS)
    return split_in_parts(replace(mapping, heavy_weights=parts.seconds), parts.fewest, parts.most)


def _learnt(df: DataFrame, key: Key, instances: int | Auto, times: GroupTimes) -> tuple[Mapping, F64]:
    """The mapping of whole keys, and the rows of its heavy ones."""
    check_frame(df, "fit_on")
    if df.isStreaming:
        raise StreamingMismatch("groups cannot be counted in a streaming DataFrame: give fit_on= a batch of earlier rows")
    names = key_names(df, key)
    learner = DKG.automatic(usual_instances(df.sparkSession, instances), ids="xxhash64")
    counted = df.select(key_id(names).alias("id")).groupBy("id").count().coalesce(_MOST_TASKS)
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
    ids = np.concatenate([np.empty(0, np.uint64), *(np.frombuffer(row.ids, np.uint64) for row in told)])
    rows = np.concatenate([np.empty(0, np.int64), *(np.frombuffer(row.rows, np.int64) for row in told)])
    order = np.argsort(ids)
    rows = rows[order][np.searchsorted(ids[order], mapping.heavy_keys)].astype(np.float64)
    return replace(mapping, types=type_names(df, names)), rows


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
