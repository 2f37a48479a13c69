"""Causes that are about which rows a task got: uneven inputs, uneven keys, one key that is too hot, and joins with these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenly.diagnosis.advice import AGGREGATES, GROUPED, MIB, WINDOWS, buckets_of, runs, scans_files, with_tasks
from evenly.diagnosis.calls import (
    aggregate_by_key_call,
    by_key_call,
    grouped_by,
    placed_call,
    setting_call,
    slot_column,
    split_by_key_call,
    unslotted_call,
)
from evenly.diagnosis.findings import Advice, Cause, Confidence, Finding, Thresholds
from evenly.diagnosis.joins import join_advice
from evenly.diagnosis.placing import cogroups, keeps_state, placed_groups
from evenly.diagnosis.stages import Exchange, PastStage
from evenly.kernels.types import I64
from evenly.measures.load import imbalance_pct

_LEAST_TASKS = 20
"""So many tasks make a line."""
_AS_MUCH = 0.95
"""So much of what the longest task read is as much."""
_LIKE_ANY = 0.25
"""A task that exceeds the mean by less than this part of what the longest one does took as long as any."""
_MOST = 10
"""One task with so many times the least mean tells enough by itself: all others may be empty."""
_NEARLY_ALL = 0.9
_LESS_THAN_SURE = 0.79
_LEAST_PIECE = 8 * MIB
"""Pieces of files that are smaller cut nothing: what is read at once (a row group) is larger."""


@dataclass(frozen=True)
class Measured:
    """What the tasks read, as it explains their times: rows, or bytes where these tell more."""

    values: I64
    unit: str
    explained: float

    @property
    def told(self) -> str:
        """The largest beside the mean, in a sentence."""
        largest, mean = float(self.values.max()), float(self.values.mean())
        uneven = f"λ {imbalance_pct(self.values):.0f} %"
        if self.unit == "rows":
            return f"the largest task read {largest:,.0f} rows, the mean is {mean:,.0f} ({uneven})"
        return f"the largest task read {largest / MIB:,.1f} MiB, the mean is {mean / MIB:,.1f} ({uneven})"


def uneven_reading(stage: PastStage, limits: Thresholds) -> Measured | None:
    """What the tasks read, if that is uneven and explains why the longest took longer than the mean."""
    tasks = stage.tasks
    for values, unit, least in ((tasks.rows, "rows", limits.least_rows), (tasks.bytes, "bytes", float(MIB) / 16)):
        alone = _all_in_one(stage, values)
        tells = alone or max(float(values.mean()), float(values.max()) / _MOST) >= least
        of_the_same = values[stage.alike]
        if tells and min(imbalance_pct(values), imbalance_pct(of_the_same)) >= limits.uneven_rows_pct:
            explained = max(explained_by_reading(stage, values), _explained_by_all(stage, values, limits))
            if explained >= limits.explained and not _denied(stage, values):
                return Measured(of_the_same, unit, min(explained, _LESS_THAN_SURE) if alone else explained)
    return None


def _all_in_one(stage: PastStage, values: I64) -> bool:
    """Whether the longest task read nearly everything, and most others nothing: that tells, however little it was."""
    return float(np.median(values)) == 0.0 and int(values[stage.deciding]) >= _NEARLY_ALL * int(values.sum()) > 0.0


def explained_by_reading(stage: PastStage, values: I64) -> float:
    """The excess that the longest task would have if all of `values` took the same time, over the excess that it has."""
    work = stage.tasks.work_ms
    longest = stage.deciding
    mean_value, mean_work = float(values.mean()), float(work.mean())
    excess = float(work[longest]) / mean_work - 1.0 if mean_work > 0.0 else 0.0
    return (float(values[longest]) / mean_value - 1.0) / excess if mean_value > 0.0 and excess > 0.0 else 0.0


def _explained_by_all(stage: PastStage, values: I64, limits: Thresholds) -> float:
    """The same by the line through all tasks: rows may cost more in large tasks, and tasks may have cost beside rows.

    Only where that line explains the times of most tasks, and the longest is not what makes it: it is left out. It makes
    nothing certain.
    """
    work = stage.tasks.work_ms.astype(np.float64)
    longest = stage.deciding
    x, y = np.delete(values.astype(np.float64), longest), np.delete(work, longest)
    if x.size < _LEAST_TASKS or not x.std() > 0.0 or not y.std() > 0.0:
        return 0.0
    related = float(np.corrcoef(x, y)[0, 1])
    if related <= 0.0 or related**2 < limits.explained:
        return 0.0
    slope = related * float(y.std() / x.std())
    excess = float(work[longest] - work.mean())
    return min(_LESS_THAN_SURE, slope * float(values[longest] - values.mean()) / excess) if excess > 0.0 else 0.0


def _denied(stage: PastStage, values: I64) -> bool:
    """Whether tasks that read as much were done like any other: then what the longest read is not what it took longer for."""
    work, longest = stage.tasks.work_ms, stage.deciding
    alike = values >= _AS_MUCH * values[longest]
    alike[longest] = False
    excess = float(work[longest] - work.mean())
    return bool(alike.any()) and float(np.median(work[alike])) - float(work.mean()) < _LIKE_ANY * excess


def by_reading(stage: PastStage, read: Measured, limits: Thresholds) -> Finding:
    """Where uneven rows come from, and what evens them out there."""
    why = read.told
    if stage.spilled_bytes:
        why += f"; {stage.spilled_bytes / MIB:,.0f} MiB spilled to disk"
    confidence = Confidence.by(read.explained)
    exchange = stage.exchange
    if exchange is None or exchange.kind != "hashpartitioning":
        advice = _input_advice(stage, exchange)
        return Finding(stage, Cause.ROWS, stage.saved_s, why, advice.remedy, advice.call, confidence)
    why += f", by {exchange.named}"
    if exchange.coalesced and not exchange.split and read.values.max() < limits.merged * np.median(read.values):
        why += f": adaptive execution merged {exchange.partitions} partitions into {stage.instances} tasks that are not equal"
        advice = _merged_advice(stage, exchange)
        return Finding(stage, Cause.ROWS, stage.saved_s, why, advice.remedy, advice.call, confidence)
    return _by_keys(stage, exchange, read, why, limits, confidence)


def _input_advice(stage: PastStage, exchange: Exchange | None) -> Advice:
    """Rows that are uneven where no key decides: files, sorted ranges, or rows that a job made."""
    if exchange is not None or stage.work.reads_shuffle:
        return _shuffle_advice(exchange)
    slots = max(stage.slots, stage.cluster_slots)
    if runs(stage, *GROUPED) or buckets_of(stage):
        return Advice(
            "rows of a key are together where the input has them (a bucket of its table, a partition that is kept), and keys "
            "are uneven: evenly diagnose keys says of a table which, and which call places them"
        )
    if stage.work.python and stage.operators:
        return Advice("the input's parts are uneven: spread the rows before the function", f"df.repartition({slots})")
    return _made_advice(stage, slots)


def _made_advice(stage: PastStage, slots: int) -> Advice:
    bare = stage.query is None and not stage.operators
    if stage.work.groups_rdds and bare:
        return Advice(
            "the job's own partitioner (partitionBy, reduceByKey, sortByKey, join and the like) puts so many rows into few "
            "partitions: more partitions, or a partitioner that weighs its keys or ranges; where one key is too many, parts of "
            "it that are merged afterwards. Repartition would take rows of a key apart"
        )
    if scans_files(stage):
        return _file_advice(stage, slots)
    if bare:
        return Advice("the partitions are uneven: spread the rows before the function", f"rdd.repartition({slots})")
    return Advice("the rows are uneven where they are made: spread them there, before this stage")


def _shuffle_advice(exchange: Exchange | None) -> Advice:
    if exchange is None:
        return Advice("a shuffle makes them uneven, of which the log does not say the keys: spread its rows by more columns")
    if exchange.kind == "rangepartitioning":
        return Advice("sorted ranges are uneven: sort by more columns, or in instances only (sortWithinPartitions)")
    return Advice("the rows were uneven when they were spread: nothing here decides that")


def _file_advice(stage: PastStage, slots: int) -> Advice:
    if not stage.tasks.rows.all():
        return Advice(
            "some tasks got no rows: the files' row groups (or files that cannot be split) are larger than a task's share. "
            "Only their writer can change that: more files, or smaller row groups (parquet.block.size)"
        )
    tasks = max(4 * slots, 2 * stage.instances)
    advice = with_tasks(stage, tasks)
    files = "the files are uneven: have them written in equal sizes (df.repartition(…).write)"
    small = (stage.work.files_bytes or int(stage.tasks.bytes.sum())) < tasks * _LEAST_PIECE
    return Advice(files) if advice is None or small else Advice(f"{files}, or cut them finer: {advice.remedy}", advice.call)


def _merged_advice(stage: PastStage, exchange: Exchange) -> Advice:
    tasks = max(stage.slots, stage.instances)
    if exchange.keys and runs(stage, *GROUPED):
        return placed_groups(stage, exchange.placeable, tasks)
    return Advice(
        "switch the merging of partitions off for this query, so that short tasks fill the gaps",
        setting_call("spark.sql.adaptive.coalescePartitions.enabled", "false"),
    )


def _by_keys(
    stage: PastStage, exchange: Exchange, read: Measured, why: str, limits: Thresholds, confidence: Confidence
) -> Finding:
    """Rows of one key are in one place: keys have to be placed by what they weigh, or split."""
    if exchange.placed and not keeps_state(stage):
        remedy = "the keys are placed by Evenly already, for other rows than these: learn the mapping anew"
        call = by_key_call(exchange.placeable, stage.instances)
        return Finding(stage, Cause.KEYS, stage.saved_s, why, remedy, call, confidence)
    share = _hot_share(read.values)
    slots = min(stage.slots, int((read.values > 0).sum()))
    hot = share * slots > limits.hot_key
    # A key may be too heavy for one of very many instances and yet not for a slot: then fewer instances will do.
    instances = stage.slots if share * read.values.size > limits.hot_key else max(read.values.size, stage.slots)
    keys = exchange.placeable or ("key",)
    made = "" if exchange.keys else f' (first make {exchange.named} a column, df.withColumn("key", …))'
    if hot:
        seems = (
            f"one key by {exchange.named} seems to have {share:.0%} of the {read.unit}, more than a slot's share of "
            f"{1.0 / slots:.0%} (evenly diagnose keys can tell)"
        )
        advice = join_advice(stage, exchange, hot=True, instances=instances) or _hot_advice(stage, exchange, keys, instances)
        confidence = Confidence.LIKELY if confidence is Confidence.CERTAIN else Confidence.GUESS
        return Finding(stage, Cause.HOT_KEY, stage.saved_s, why, f"{seems}: {advice.remedy}{made}", advice.call, confidence)
    advice = join_advice(stage, exchange, hot=False, instances=instances) or _key_advice(stage, keys, instances)
    return Finding(stage, Cause.KEYS, stage.saved_s, why, f"{advice.remedy}{made}", advice.call, confidence)


def _hot_share(values: I64) -> float:
    """The part of all by which the largest task exceeds the median of those that got any: about what one hot key in it has."""
    return float(values.max() - np.median(values[values > 0])) / float(values.sum())


def _hot_advice(stage: PastStage, exchange: Exchange, keys: tuple[str, ...], instances: int) -> Advice:
    if keeps_state(stage):
        return Advice("the state of a key is in one place, so nothing spreads it: treat that key apart")
    if any(WINDOWS.match(name) for name in stage.operators):
        return Advice(
            "a window sees all rows of its key in one task, so nothing spreads it: treat that key apart, or window by more"
        )
    if cogroups(stage):
        return Advice("a cogrouped function sees all rows of its key in one task, so nothing spreads it: treat that key apart")
    if runs(stage, *GROUPED):
        remedy = "split it, if the function's results on parts of a key can be merged; else treat that key apart"
        return Advice(remedy, aggregate_by_key_call(keys, instances))
    return _hot_native(stage, exchange, keys, instances)


def _hot_native(stage: PastStage, exchange: Exchange, keys: tuple[str, ...], instances: int) -> Advice:
    call = split_by_key_call(keys, instances)
    if any(AGGREGATES.match(name) for name in stage.operators):
        by = ", ".join(keys)
        return Advice(
            f"aggregate its parts by ({by}, part), and the results once more by {by}",
            f"{call}.groupBy({grouped_by(keys, 'part')})",
        )
    if exchange.origin.startswith("REPARTITION"):
        remedy = (
            "spread its rows, if what follows does not count on rows of a key being together (a function over partitions, or "
            "one file for each key, may; large keys in several files are evenly.write_by_key)"
        )
        return Advice(remedy, f"df.repartition({instances})")
    if stage.work.streaming:
        return Advice("spread its rows (repartition), if rows of a key need not be together for what follows")
    return Advice("split it, if rows of a key need not be together for what follows", f'{call}.drop("part")')


def _key_advice(stage: PastStage, keys: tuple[str, ...], instances: int) -> Advice:
    if any(WINDOWS.match(name) for name in stage.operators):
        by = ", ".join((*keys, slot_column(keys)))
        return Advice(f"place the keys by their weight, and window by ({by})", placed_call(keys, instances))
    if keeps_state(stage) or runs(stage, *GROUPED) or any(AGGREGATES.match(name) for name in stage.operators):
        return placed_groups(stage, keys, instances)
    if stage.work.streaming:
        remedy = "place the keys by their weight, under a mapping that is learnt from a table of earlier rows"
        return Advice(remedy, unslotted_call(keys, instances, fit_on="earlier"))
    return Advice("place the keys by their weight", unslotted_call(keys, instances))
