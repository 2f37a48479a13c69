"""Learning a mapping on Spark: sums by key and then by bucket, all Spark's own aggregates, read at the driver.

Only a sample is summed, of as many rows as `evenly.keys.sampling` wants. Where Spark knows how many rows there are, each is
taken with one probability. Otherwise row i of partition p is taken with probability 1 / s and stands for s = floor(i d /
reserve + 1/2) + 1 rows, with d = min(2 p + 1, 32) and a reserve of half the rows that are wanted, and for itself alone if i
is below 5,000. So the first rows of a partition are all taken, its number of rows need not be known, and every estimate is
unbiased. Partitions of about one size add up to a sample as good as the one of a single partition, though nobody says how
many there are: n of them take about (ln n) / 2 times as much as one, up to 16, and not n times. 32 is what a partition that
is much larger than all before it can lose of the precision of its sample.

A row stands for a whole number of rows, so sums are exact and do not depend on the order in which Spark adds them. What the
driver reads is one line for each fine bucket, see `evenly.keys.native_counts`: 8,192 or, from 128 instances on, as many as
there are buckets (64,000 at 1,000 instances, 65,536 at 10,000: 8 MB). A sample that is known beforehand to have at most
500,000 rows (8 MB of ids and places) is read instead, and summed here: one stage, and little to plan and to compile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, NumericType, ShortType

from evenly.checks import checked_whole, is_number
from evenly.errors import InvalidCost, InvalidParameter, StreamingMismatch
from evenly.instances import AUTO, Instances, asked_instances
from evenly.kernels.types import F64
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.keys.native_counts import ORDER_BITS, ORDERS, NativeCounts, fine_buckets, octave_bit
from evenly.keys.resizing import most_instances
from evenly.keys.sampled_rows import counts_of
from evenly.keys.sampling import Sampling, rows_wanted
from evenly.keys.turns import TURNS
from evenly.sketches.hashing import derive
from evenly.spark.described import described
from evenly.spark.features import Feature, has
from evenly.spark.frames import check_frame
from evenly.spark.jvm.row_order import comes_shuffled
from evenly.spark.jvm.sizes import rows_known
from evenly.spark.keyed.choosing import chosen_for, usual_instances
from evenly.spark.keyed.keys import Key, column_name, key_id, key_names, type_names
from evenly.spark.sums import summed
from evenly.spark.worker_errors import worker_errors

_ALL_TAKEN = 5_000
_MOST_DIVIDED = 32
_EXACT = 2.0**53
LARGEST = 1e100
"""No weight is larger: of sums of squares a double must hold all."""
_PARTITION_BITS = 33
"""From this bit on `monotonically_increasing_id` has the partition, and below it the row's number there."""
_AT = {"rows": f"(place & {(1 << _PARTITION_BITS) - 1}L)", "partitions": f"shiftright(place, {_PARTITION_BITS})"}
"""Which row, and which partition, of those that rows may have come in the order of."""
_DRAWN_BITS = 24
_TURN = {order: f"{order}_octave % {TURNS}" for order in ORDERS}
_SUMS = {
    "weight": "weight",
    **{f"{order}_{turn}": f"if({_TURN[order]} = {turn}, weight, 0D)" for order in ORDERS for turn in range(1, TURNS)},
}
"""What is summed of rows, by id and by bucket."""
_TURN_SUMS = tuple(_SUMS)[1:]
_SHARE_BITS = 15
_SHARE = 2**_SHARE_BITS - 1
"""Of a bucket's heaviest id the parts that came in each turn are told in so many bits, all in one number."""
_SQUARES, _ROWS, _OCTAVES = "squares", "rows", "octaves"
_OF_LOADS = {"wrong": "if(load < 0D, 1D, 0D)", "varied": "stands * load * load"}
"""And what is summed besides where each row has a weight of its own."""
_WHOLE_TYPES = (ByteType, ShortType, IntegerType, LongType)

Weight = str | Column
"""What a row counts for: a column of numbers by its name, or an expression."""


class _TooFewError(Exception):
    """A sample is far smaller than the number of rows promised, so that number was wrong.

    Spark before 4.3 counts a cached partition again each time that it is lost and made anew.
    """


def learn_mapping(
    df: DataFrame,
    *,
    key: Key,
    instances: Instances = AUTO,
    weight: Weight | None = None,
    tolerance_pct: float | None = 2.0,
    seed: int = 0,
) -> Mapping:
    """Learn which instance each key of `df` should be on, in one pass over `df`.

        mapping = evenly.learn_mapping(df, key="user", instances=16)
        mapping.fitted_imbalance_pct  # λ of these rows
        mapping.expected_range_pct  # and from how much to how much it may be of new ones

    `instances="auto"`, the default, takes as many as the session has slots, or a multiple if an instance would hold more than
    ten million rows; `mapping.instances` is that number, and `mapping.chosen` says why.

    `weight` is what a row counts for, if not one: a column of numbers by its name, or an expression (`F.length("text")`, bytes,
    an estimate of its cost). Loads and λ are then of that. A weight that is null, negative, NaN or infinite is refused
    (`InvalidCost`), also one in a row that the sample would leave out; 0 is a weight.

    Nothing runs in Python on the executors. `tolerance_pct` is the imbalance that sampling may add (in percentage points of λ),
    for weights that are about alike; None reads every row. The same rows in the same partitions give the same mapping, as long
    as they are in memory (cached) both times or neither time: there Spark knows how many they are, and the sample is another. A
    DataFrame without rows gives a mapping that spreads keys by hash alone.

    What to expect of new rows is told by rows that were held back from a first mapping (they are in the one returned): the
    later rows of each partition, and the last partitions; behind a shuffle, where rows are in no order, any of them. So keys
    that change from one end of `df` to the other show, whether that is their order in time or not: rows that are sorted by
    their key look as if keys changed.
    """
    check_frame(df)
    asked = asked_instances(instances)
    if tolerance_pct is not None and not (is_number(tolerance_pct) and 0.0 < tolerance_pct < math.inf):
        raise InvalidParameter(f"tolerance_pct must be above 0 (or None to read every row), got {tolerance_pct!r}")
    checked_whole(seed, "seed", -(2**63), 2**63 - 1)
    if df.isStreaming:
        raise StreamingMismatch("a mapping cannot be learnt from a streaming DataFrame: learn it from a batch of earlier rows")
    names = key_names(df, key)
    number = usual_instances(df.sparkSession, asked)
    learner = partial(DKG.automatic, number, seed=seed, ids="xxhash64")
    rows, whole = _loads(df, names, weight)
    weighted = weight is not None
    sampling = Sampling(None) if tolerance_pct is None else Sampling(rows_wanted(number, tolerance_pct), *rows_known(rows))
    ordered = not comes_shuffled(df)

    def counted(sampling: Sampling) -> NativeCounts:
        taken, buckets = _taken(rows, sampling, seed), fine_buckets(learner())
        with described(df.sparkSession, f"learn mapping of {', '.join(names)}"):
            # Rows of a weight that is none are all taken, to be counted: they may be any number.
            if not weighted and sampling.is_small and has(df.sparkSession, Feature.TO_ARROW):
                return _counted_here(taken, sampling, buckets, seed, ordered=ordered)
            by_bucket = _by_bucket(taken, sampling, buckets, seed, weighted=weighted, ordered=ordered)
            return _counted(by_bucket, weighted=weighted, least=sampling.least)

    try:
        counts = counted(sampling)
    except _TooFewError:
        counts = counted(sampling.uncounted())
    # Sums of whole numbers are exact, in any order, up to a limit.
    counts = counts if whole and counts.weights[:, 0].sum() < _EXACT else counts.coarse()
    mapping = replace(counts.mapping(learner, columns=names), types=type_names(df, names))
    if isinstance(asked, int):
        return mapping
    seen = None if weighted else float(counts.weights[:, 0].sum())
    found = chosen_for(df.sparkSession, asked, mapping, rows=seen, most=most_instances(mapping))
    if found.number != number:
        again = counts.mapping(learner, columns=names, instances=found.number)
        mapping = replace(again, types=mapping.types)
    return replace(mapping, chosen=found.why)


def check_not_learnt(mapping: object, weight: Weight | None) -> None:
    """Refuse a weight beside a mapping that is learnt already."""
    if mapping is not None and weight is not None:
        raise InvalidParameter(
            f"weight is {weight!r}, and a mapping was given, which has learnt what it balances: leave out one of them, or "
            "learn it with learn_mapping(df, ..., weight=...)"
        )


def _loads(df: DataFrame, names: tuple[str, ...], weight: Weight | None) -> tuple[DataFrame, bool]:
    """Ids of keys, each with the load of its row where it has one, below 0 where it is none; and whether loads are whole."""
    ids = key_id(names).alias("id")
    if weight is None:
        return df.select(ids), True
    rows, whole = row_loads(df, [ids], weight)
    number = "cast(load as double)"
    checked = f"if(coalesce({number} >= 0D and {number} <= {LARGEST!r}D, false), {number}, -1D) as load"
    return rows.selectExpr("id", checked), whole


def row_loads(df: DataFrame, keys: Sequence[Column], weight: Weight) -> tuple[DataFrame, bool]:
    """These columns and `load`, what rows count for as it was given; and whether that is a whole number by its type."""
    if not isinstance(weight, (str, Column)):
        raise InvalidParameter(f"weight must be the name of a column of numbers, or an expression, got {weight!r}")
    given = F.col(column_name(df, weight)) if isinstance(weight, str) else weight
    try:
        # Inside a function no expression can make several rows of one.
        rows = df.select(*keys, F.coalesce(given).alias("load"))
        kind: DataType = rows.schema["load"].dataType
    except AnalysisException as error:
        raise InvalidParameter(
            f"weight {weight!r} is not a number of each row ({str(error).splitlines()[0]}): give a column, or an expression of "
            "columns of one row; what is summed or exploded, add before by withColumn, over a window"
        ) from error
    if not isinstance(kind, NumericType):
        raise InvalidParameter(
            f"weight {weight!r} is of type {kind.simpleString()}: it must be a number, such as F.length(column)"
        )
    return rows, isinstance(kind, _WHOLE_TYPES)


def _taken(rows: DataFrame, sampling: Sampling, seed: int) -> DataFrame:
    """All rows, or a sample, with their places. In SQL as `placement.py` says."""
    placed = rows.selectExpr("*", "monotonically_increasing_id() as place")
    if sampling.stands == 1:
        return placed
    # Spark seeds partition p with seed + p, so a small seed would repeat the random numbers of a neighbour's column.
    drawn = placed.selectExpr("*", f"rand({derive(seed, 'sample', 2**62)}L) as drawn")
    taken = f"drawn * {_stands(sampling)} < 1D"
    return drawn.where(f"{taken} or load < 0D" if "load" in rows.columns else taken)


def _stands(sampling: Sampling) -> str:
    """How many rows a row at `place` stands for if it is taken, in SQL."""
    if sampling.stands is not None:
        return f"{sampling.stands}D"
    reserve = (sampling.wanted or 0) / 2.0
    divided = f"least(2 * {_AT['partitions']} + 1, {_MOST_DIVIDED})"
    return f"if({_AT['rows']} < {_ALL_TAKEN}L, 1D, floor({_AT['rows']} * {divided} / {reserve!r}D + 0.5D) + 1D)"


def _by_bucket(
    taken: DataFrame, sampling: Sampling, buckets: int, seed: int = 0, *, weighted: bool = False, ordered: bool = True
) -> DataFrame:
    """One line for each fine bucket: the sums of its rows, and those of its heaviest id.

    Two aggregates, both of numbers alone, for which Spark has hashed memory: by id, and of that by bucket. A sample is shuffled
    by its buckets before, so both are in the tasks of one stage. Of ids that weigh the same the bits of the id say which is the
    heaviest, and not the order in which Spark saw them.

    Rows that come from a shuffle are in no order that means anything: Spark's `repartition` sorts what is left of them, the
    keys, by their hash. Any order is as good then, so a drawn one is taken, and not that in which keys seem to change.
    """
    rows = taken.selectExpr("id", f"pmod(id, {buckets}L) as fine", "place", *(["load"] if weighted else []))
    rows = rows if sampling.tasks is None else rows.repartition(sampling.tasks, "fine")
    drawn = f"shiftrightunsigned(xxhash64(place, {derive(seed, 'order', 2**62)}L), {64 - _DRAWN_BITS})"
    at = _AT if ordered else {"rows": drawn, "partitions": "0"}
    stands = _stands(sampling)
    told = rows.selectExpr(
        *("id", "fine", f"{stands} as stands"),
        *(["load", f"{stands} * greatest(load, 0D) as weight"] if weighted else [f"{stands} as weight"]),
        *(f"cast(least(log2({at[order]} + 1), {ORDER_BITS - 1}) as int) as {order}_octave" for order in ORDERS),
    )
    octaves = " | ".join(f"shiftleft(1L, {octave_bit(order)} + {order}_octave)" for order in ORDERS)
    values = {**_SUMS, _SQUARES: "weight * weight", _ROWS: "1D", **(_OF_LOADS if weighted else {})}
    sums = [f"sum({value}) as {name}" for name, value in values.items()]
    by_id = summed(told, ("fine", "id"), [F.expr(each) for each in (*sums, f"bit_or({octaves}) as {_OCTAVES}")])
    shares = " | ".join(
        f"shiftleft(cast({_SHARE}D * {name} / greatest(weight, 1e-300D) + 0.5D as bigint), {_SHARE_BITS * at})"
        for at, name in enumerate(_TURN_SUMS)
    )
    rank = f"weight * (1D + shiftrightunsigned(id, 44) / {2.0**44!r}D)"
    own = {"id": "id", "weight": "weight", "shares": shares}
    heaviest = [f"max_by({value}, {rank}) as own_{name}" for name, value in own.items()]
    again = [f"sum({name}) as {name}" for name in values]
    return summed(by_id, ("fine",), [F.expr(each) for each in (*again, f"bit_or({_OCTAVES}) as {_OCTAVES}", *heaviest)])


def _counted_here(taken: DataFrame, sampling: Sampling, buckets: int, seed: int, *, ordered: bool) -> NativeCounts:
    """The same of a sample that is known to be small: its ids are read, with their places if these mean anything.

    One job of one stage. Aggregates of so few rows cost less than what Spark takes to plan, compile and start them.
    """
    with worker_errors():
        table = taken.select(*(["id", "place"] if ordered else ["id"])).toArrow()
    ids = table["id"].to_numpy().view(np.uint64)
    if ids.size < sampling.least:
        raise _TooFewError
    if ordered:
        place = table["place"].to_numpy()
        at = {"rows": place & (1 << _PARTITION_BITS) - 1, "partitions": place >> _PARTITION_BITS}
    else:
        drawn = np.random.default_rng(derive(seed, "order", 2**62)).integers(0, 1 << _DRAWN_BITS, ids.size)
        at = {"rows": drawn, "partitions": np.zeros(ids.size, np.int64)}
    return counts_of(ids, at, buckets, stands=sampling.stands or 1)


def _counted(by_bucket: DataFrame, *, weighted: bool = False, least: int = 0) -> NativeCounts:
    with worker_errors():  # the rows may be those of a function in Python
        if has(by_bucket.sparkSession, Feature.TO_ARROW):
            table = by_bucket.toArrow()
            read = {name: table[name].to_numpy() for name in table.column_names}
        else:
            rows = by_bucket.collect()
            read = {name: np.array([row[name] for row in rows]) for name in by_bucket.columns}
    order = np.argsort(read["fine"], kind="stable")

    def column(name: str) -> F64:
        values: F64 = read[name].astype(np.float64)[order]
        return values

    if weighted and (wrong := int(column("wrong").sum())):
        raise InvalidCost(
            f"{wrong} rows have a weight that is null, negative, NaN or infinite (above {LARGEST:g}): give 0 or what is "
            "usual there, as in weight=F.coalesce(column, F.lit(0)), or leave such rows out"
        )
    if column(_ROWS).sum() < least:
        raise _TooFewError
    weights, varied = np.column_stack([column(name) for name in _SUMS]), column("varied" if weighted else "weight").sum()
    own, shares = column("own_weight"), read["own_shares"].astype(np.int64)[order]
    parts = [(shares >> _SHARE_BITS * at & _SHARE) / _SHARE for at in range(len(_TURN_SUMS))]
    return NativeCounts(
        fine=read["fine"].astype(np.int64)[order],
        weights=weights,
        ids=read["own_id"].astype(np.int64)[order].view(np.uint64),
        own_weights=np.column_stack([own, *(own * part for part in parts)]),
        squares=float(column(_SQUARES).sum()),
        octaves=int(np.bitwise_or.reduce(read[_OCTAVES].astype(np.int64))),
        rows=float(np.square(weights[:, 0].sum()) / varied) if varied > 0.0 else 0.0,
    )
