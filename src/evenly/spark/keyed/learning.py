"""Learning a mapping on Spark: counts or a sketch for each partition, merged at the driver.

Only the key's 64-bit id leaves the JVM, and only of a sample: row i of a partition is taken with
probability min(1, reserve / i) and stands for 1 / probability rows. So a partition of up to `reserve` rows is
read whole, a larger one yields about `reserve x (1 + ln(rows / reserve))` rows, its number of rows need
not be known, and every estimate is unbiased. No key is collected and nothing is shuffled.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from pyspark.sql import DataFrame, Row

from evenly.checks import checked_instances, checked_whole, is_number
from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.keys.dkg import DKG, KeyCounts
from evenly.keys.mapping import Mapping
from evenly.keys.partitions import CountedPartition, LearntPartition, SketchedPartition, Squares, learnt_mapping
from evenly.sketches.hashing import derive
from evenly.spark.frames import check_frame
from evenly.spark.keyed.keys import Key, key_id, key_names, type_names
from evenly.spark.python_workers import check_python
from evenly.spark.worker_errors import worker_errors
from evenly.worker.learning import LEARNT, PartitionLearner

_ROW_IN_PARTITION = (1 << 33) - 1
_LEAST_RESERVE = 10_000
_KEYS_PER_COUNTER = 4
"""So many keys with their counts take as many bytes as a counter of a sketch does, about: a partition sends no more."""


def sample_reserve(instances: int, tolerance_pct: float) -> int:
    """How many rows of a partition to take whole, so that sampling adds at most about `tolerance_pct` to λ.

    A sample of m tuples spread evenly over k instances has an imbalance of about sqrt(2 ln k · k / m) by
    chance alone; a partition with this reserve counts as a sample of twice the reserve.
    """
    tuples = 2.0 * math.log(max(instances, 2)) * instances / (tolerance_pct / 100.0) ** 2
    return max(_LEAST_RESERVE, math.ceil(tuples / 2.0))


def learn_mapping(df: DataFrame, *, key: Key, instances: int, tolerance_pct: float | None = 2.0, seed: int = 0) -> Mapping:
    """Learn which instance each key of `df` should be on, in one pass over `df`.

        mapping = evenly.learn_mapping(df, key="user", instances=16)
        mapping.fitted_imbalance_pct  # λ of these rows
        mapping.expected_range_pct  # and from how much to how much it may be of new ones

    `tolerance_pct` is the imbalance that sampling may add (in percentage points of λ); None reads every
    row. The same rows in the same partitions give the same mapping. A DataFrame without rows gives
    a mapping that spreads keys by hash alone.

    What to expect of new rows is told by rows that were held back from a first mapping (they are in the one returned): the
    later rows of each partition, and the last partitions. So keys that change from one end of `df` to the other show, whether
    that is their order in time or not: rows that are sorted by their key look as if keys changed.
    """
    check_frame(df)
    instances = checked_instances(instances)
    if tolerance_pct is not None and not (is_number(tolerance_pct) and 0.0 < tolerance_pct < math.inf):
        raise InvalidParameter(f"tolerance_pct must be above 0 (or None to read every row), got {tolerance_pct!r}")
    checked_whole(seed, "seed", -(2**63), 2**63 - 1)
    if df.isStreaming:
        raise StreamingMismatch("a mapping cannot be learnt from a streaming DataFrame: learn it from a batch of earlier rows")
    check_python(df.sparkSession)
    names = key_names(df, key)
    reserve = None if tolerance_pct is None else sample_reserve(instances, tolerance_pct)
    rows = _weighted(df.select(key_id(names).alias("id")), reserve, seed)
    learner = partial(DKG.automatic, instances, seed=seed, ids="xxhash64")
    in_partition = PartitionLearner(instances, seed, most_keys=_KEYS_PER_COUNTER * learner().counters)
    with worker_errors():
        found = [_partition(row) for row in rows.mapInArrow(in_partition, LEARNT).collect()]  # in the order of the partitions
    return replace(learnt_mapping(found, learner, columns=names), types=type_names(df, names))


def _partition(row: Row) -> LearntPartition:
    squares = Squares(row.squares, row.later_squares)
    ids, weights = np.frombuffer(row.ids, np.uint64), np.frombuffer(row.weights)
    later = np.frombuffer(row.later, np.float32).astype(np.float64)
    if row.sketch is None:
        return CountedPartition(ids, weights, later, squares)
    learner = DKG.from_bytes(bytes(row.sketch))
    return SketchedPartition(learner, KeyCounts(learner.counts().buckets * later, ids, weights), squares)


def _weighted(ids: DataFrame, reserve: int | None, seed: int) -> DataFrame:
    """All rows, each of weight 1; or a sample, in SQL as `placement.py` says."""
    if reserve is None:
        return ids.selectExpr("id", "1D as weight")
    row = f"(monotonically_increasing_id() & {_ROW_IN_PARTITION}L)"
    weighted = ids.selectExpr("id", f"greatest(1D, {row} / {reserve}D) as weight")
    # Spark seeds partition p with seed + p, so a small seed would repeat the random numbers of a neighbour's column.
    return weighted.where(f"rand({derive(seed, 'sample', 2**62)}L) * weight < 1D")
