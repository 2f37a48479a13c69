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

from evenly.checks import checked_instances
from evenly.costs.group_times import GroupTimes
from evenly.errors import StreamingMismatch
from evenly.kernels.types import F64
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.keys.regret import GuessedKeys, guessed_mapping
from evenly.spark.described import described
from evenly.spark.frames import check_frame
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


def learn_by_time(df: DataFrame, *, key: Key, instances: int, times: GroupTimes) -> Mapping:
    """The mapping by which instances have about the same time; as far as that is not known, about the same number of groups, of
    rows, and of the squares of groups' rows. Groups that are too long for an instance are logged."""
    check_frame(df, "fit_on")
    if df.isStreaming:
        raise StreamingMismatch("groups cannot be counted in a streaming DataFrame: give fit_on= a batch of earlier rows")
    names = key_names(df, key)
    learner = DKG.automatic(checked_instances(instances), ids="xxhash64")
    counted = df.select(key_id(names).alias("id")).groupBy("id").count().coalesce(_MOST_TASKS)
    loads = GroupLoads(times.estimates, learner.bucket_count, learner.counters)
    with worker_errors(), described(df.sparkSession, f"count groups of {', '.join(names)}"):
        told = counted.mapInArrow(on_workers(df.sparkSession, loads), LOADS).collect()
    found = _together(told, loads.estimates.guesses, learner.bucket_count)
    mapping = guessed_mapping(found, learner, columns=names)
    if times.curve is not None:
        _tell_of_long_groups(mapping, times)
    return replace(mapping, types=type_names(df, names))


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


def _tell_of_long_groups(mapping: Mapping, times: GroupTimes) -> None:
    """A warning that names the groups that no placement can make good, and what would help."""
    total_s = float(mapping.fitted_loads.sum())
    share_s = total_s / mapping.instances
    order = np.argsort(-mapping.heavy_weights, kind="stable")[:_TOLD]
    order = order[mapping.heavy_weights[order] > max(_CLEARLY * share_s, share_s + _WORTH_S)]
    if not order.size:
        return
    longest_s = float(mapping.heavy_weights[order[0]])
    called = times.names
    told = []
    for at in order.tolist():
        key = int(mapping.heavy_keys[at : at + 1].view(np.int64)[0])
        name = called.get(key, f"a key not timed by name yet, xxhash64({', '.join(mapping.columns)}) = {key}")
        told.append(f"{name} ({mapping.heavy_weights[at]:.3g} s)")
    fewer = max(1, int(total_s / longest_s))
    _LOG.warning(
        "longer than an instance's share of %.3g s are the groups of %s: the stage takes at least %.3g s. If results of parts "
        "can be merged, aggregate_by_key with a Merging and mapping=watch.mapping splits such keys; otherwise %d instance%s "
        "will do as well",
        share_s,
        "; ".join(told),
        longest_s,
        fewer,
        "" if fewer == 1 else "s",
    )
