"""Why a stage was uneven, and what would fix it: one decision on its numbers.

The longest task decides how long a stage takes, so the question is what made it longer than the mean. Each candidate
(its rows, garbage collection, waiting for the shuffle) is asked how much of that excess it explains; the first that explains
half is the cause. What nothing explains is the cost of the rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from evenly.diagnosis.calls import aggregate_by_key_call, apply_by_cost_call, by_key_call
from evenly.diagnosis.stages import PastStage
from evenly.kernels.types import I64

_MERGEABLE = ("HashAggregate", "SortAggregate", "ObjectHashAggregate", "FlatMapGroupsIn", "AggregateIn", "ArrowAggregate")
"""Operators that compute one result per key, which can often be merged of parts. Windows and joins cannot."""
_ROW_BY_ROW = ("Window", "MapIn", "FlatMap", "PythonMapIn", "ArrowWindowPython", "WindowInPandas")
"""Operators with work for every row. In one partition these are a mistake more often than a total or a limit is."""
_MIB = 1 << 20


class Cause(StrEnum):
    """What makes a stage longer than its work."""

    EVEN = "even"
    KEYS = "keys"
    HOT_KEY = "hot key"
    ROWS = "rows"
    COST = "cost"
    SPILL = "spill"
    FETCH = "shuffle fetch"
    GC = "garbage collection"
    EXECUTOR = "slow executor"
    TOO_FEW = "too few tasks"
    TOO_MANY = "too many tasks"


_RANK = {Cause.TOO_FEW: 1, Cause.TOO_MANY: 1, Cause.EVEN: 2}


@dataclass(frozen=True)
class Thresholds:
    """Where a finding begins. Every one is a judgement; the defaults keep noise out and hide nothing that costs minutes.

    - `least_saved_s`, `least_saved_pct`: below either, balance would save too little to act on.
    - `uneven_rows_pct`: λ of rows from which rows count as uneven; a hash spreads even keys to within a few percent.
    - `least_rows`: mean rows per task, below which they say little (a cached table counts batches, a folder its files).
    - `explained`: the part of the longest task's excess over the mean that a candidate must explain.
    - `slower`: how many times the others' time a row (or a task) must take to be called slow.
    - `hot_key`: how many times an instance's share of the rows the largest task must exceed the median task by, for one key to
      be taken for too heavy for an instance. A log has no keys: that several heavy keys met there cannot be told apart from it.
    - `few_tasks`: a stage with fewer tasks than this part of the slots leaves slots without work.
    - `overhead`: the part of the tasks' time that is not their own run time, from which they are too small.
    """

    least_saved_s: float = 1.0
    least_saved_pct: float = 5.0
    uneven_rows_pct: float = 20.0
    least_rows: float = 10.0
    explained: float = 0.5
    slower: float = 1.5
    hot_key: float = 1.1
    few_tasks: float = 0.5
    overhead: float = 0.3


@dataclass(frozen=True)
class Finding:
    """What is wrong with one stage: the cause in a word, why in a sentence, the remedy, and code to paste where there is some.

    `saved_s` is what the remedy would save at best, on the slots that the stage had (on all of the application's slots where
    there were too few tasks).
    """

    stage: PastStage
    cause: Cause
    saved_s: float
    why: str
    remedy: str
    call: str | None = None

    @property
    def saved_pct(self) -> float:
        """That time as a part of the stage's."""
        return 100.0 * self.saved_s / self.stage.seconds if self.stage.seconds > 0.0 else 0.0

    def row(self) -> dict[str, object]:
        """The finding as a flat object."""
        stage = self.stage
        exchange = stage.exchange
        return {
            "series": "stage",
            "stage": stage.stage,
            "attempt": stage.attempt,
            "name": stage.name,
            "operator": stage.operators[0] if stage.operators else None,
            "query": stage.query,
            "partitioning": exchange.kind if exchange else None,
            "key": ",".join(exchange.keys) if exchange and exchange.keys else None,
            "instances": stage.instances,
            "slots": stage.schedule.slots,
            "seconds": stage.seconds,
            "saved_s": self.saved_s,
            "task_ms_max": int(stage.tasks.run_ms.max()),
            "task_ms_median": float(np.median(stage.tasks.run_ms)),
            "task_ms_mean": float(stage.tasks.run_ms.mean()),
            "imbalance_pct_time": stage.time_imbalance_pct,
            "imbalance_pct_rows": stage.rows_imbalance_pct,
            "imbalance_pct_bytes": stage.bytes_imbalance_pct,
            "rows": int(stage.tasks.rows.sum()),
            "spilled_bytes": stage.spilled_bytes,
            "gc_pct": 100.0 * stage.gc_share,
            "fetch_wait_pct": 100.0 * stage.fetch_share,
            "failed": stage.failed,
            "speculative": stage.speculative,
            "cause": self.cause.value,
            "why": self.why,
            "remedy": self.remedy,
            "call": self.call,
        }


def diagnose_stage(stage: PastStage, thresholds: Thresholds | None = None) -> Finding:
    """The one thing that cost the stage most, or that it was even."""
    limits = thresholds or Thresholds()
    candidates = [_uneven(stage, limits), _too_few(stage, limits), _too_many(stage, limits)]
    found = [finding for finding in candidates if finding is not None and _counts(finding, limits)]
    if not found:
        why = f"perfect balance would save {stage.saved_s:.1f} s of {stage.seconds:.1f} s"
        return Finding(stage, Cause.EVEN, stage.saved_s, why, "nothing to do")
    return max(found, key=lambda finding: finding.saved_s)


def _counts(finding: Finding, limits: Thresholds) -> bool:
    return finding.saved_s >= limits.least_saved_s and finding.saved_pct >= limits.least_saved_pct


@dataclass(frozen=True)
class Repeated:
    """The same finding in several runs of one line of code, as in the micro-batches of a stream: the worst, and all of them."""

    worst: Finding
    times: int
    saved_s: float


def repeated_findings(findings: Iterable[Finding]) -> list[Repeated]:
    """Findings of the same call site, operator and cause as one, those that cost most first.

    What is uneven comes before what has too few or too many tasks, and that before what is even: what balance saves follows
    from the schedule, what other numbers of tasks would save is a guess, because more tasks may share the same cores.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.stage.name, finding.stage.operators, finding.cause, finding.stage.exchange)
        groups.setdefault(key, []).append(finding)
    repeated = [
        Repeated(max(group, key=lambda finding: finding.saved_s), len(group), sum(finding.saved_s for finding in group))
        for group in groups.values()
    ]
    return sorted(repeated, key=lambda one: (_RANK.get(one.worst.cause, 0), -one.saved_s))


def _uneven(stage: PastStage, limits: Thresholds) -> Finding | None:
    """What made the longest task longer than the mean."""
    if stage.instances < 2 or stage.time_imbalance_pct <= 0.0:
        return None
    uneven_rows = stage.rows_imbalance_pct >= limits.uneven_rows_pct and stage.tasks.rows.mean() >= limits.least_rows
    if uneven_rows and _explained_by_rows(stage) >= limits.explained:
        return _by_rows(stage, limits)
    for cause, part, remedy in (
        (
            Cause.GC,
            stage.tasks.gc_ms,
            "give executors more memory, or fewer slots each (spark.executor.memory, spark.executor.cores)",
        ),
        (Cause.FETCH, stage.tasks.fetch_wait_ms, "look at the network and the disks of the executors that it fetched from"),
    ):
        explained = _explained_by(stage, part)
        if explained >= limits.explained:
            why = f"{cause.value} explains {min(1.0, explained):.0%} of what the longest task took beyond the mean"
            return Finding(stage, cause, stage.saved_s, why, remedy)
    return _slow_executor(stage, limits) or _spill(stage, limits) or _by_cost(stage)


def _explained_by(stage: PastStage, part: I64) -> float:
    run = stage.tasks.run_ms
    longest = int(run.argmax())
    excess = float(run[longest] - run.mean())
    return float(part[longest] - part.mean()) / excess if excess > 0.0 else 0.0


def _explained_by_rows(stage: PastStage) -> float:
    """The excess that the longest task would have if all rows took the same time, over the excess that it has."""
    run, rows = stage.tasks.run_ms, stage.tasks.rows
    longest = int(run.argmax())
    mean_rows, mean_run = float(rows.mean()), float(run.mean())
    excess = float(run[longest]) / mean_run - 1.0 if mean_run > 0.0 else 0.0
    return (float(rows[longest]) / mean_rows - 1.0) / excess if mean_rows > 0.0 and excess > 0.0 else 0.0


def _by_rows(stage: PastStage, limits: Thresholds) -> Finding:
    rows = stage.tasks.rows
    why = f"the largest task read {int(rows.max()):,} rows, the mean is {rows.mean():,.0f} (λ {stage.rows_imbalance_pct:.0f} %)"
    if stage.spilled_bytes:
        why += f"; {stage.spilled_bytes / _MIB:,.0f} MiB spilled to disk"
    exchange = stage.exchange
    if exchange is None or exchange.kind != "hashpartitioning":
        remedy = {
            None: "the input's parts are uneven: spread the rows before the costly step",
            "rangepartitioning": "sorted ranges are uneven: sort by more columns, or in instances only (sortWithinPartitions)",
        }.get(exchange.kind if exchange else None, "spread the rows evenly before the costly step")
        call = None if exchange and exchange.kind == "rangepartitioning" else f"df.repartition({_instances(stage)})"
        return Finding(stage, Cause.ROWS, stage.saved_s, why, remedy, call)
    return _by_keys(stage, why, limits)


def _by_keys(stage: PastStage, why: str, limits: Thresholds) -> Finding:
    """Rows of one key are in one place: keys have to be placed by what they weigh, or split."""
    exchange, instances = stage.exchange, _instances(stage)
    assert exchange is not None  # noqa: S101 - the caller has looked
    named = exchange.keys or exchange.expressions
    by = ", ".join(named)
    if exchange.keys and exchange.keys[-1] == "slot":
        remedy = "the keys are placed by Evenly already, for other rows than these: learn the mapping anew"
        return Finding(stage, Cause.KEYS, stage.saved_s, f"{why}, by {by}", remedy, by_key_call(exchange.keys[:-1], instances))
    keys = exchange.keys or ("key",)
    made = "" if exchange.keys else f' (first make {by} a column, df.withColumn("key", …))'
    share = _hot_share(stage)
    if share * instances > limits.hot_key:
        hot = (
            f"one key by {by} seems to have {share:.0%} of the rows, more than an instance's share of {1.0 / instances:.0%} "
            "(evenly diagnose keys can tell)"
        )
        why = f"{why}, by {by}"
        if stage.operators and stage.operators[0].startswith(_MERGEABLE):
            call = aggregate_by_key_call(keys, instances)
            return Finding(stage, Cause.HOT_KEY, stage.saved_s, why, f"{hot}: split it, and merge its parts{made}", call)
        remedy = f"{hot}: treat that key apart; placing the keys by their weight evens out the rest{made}"
        return Finding(stage, Cause.HOT_KEY, stage.saved_s, why, remedy, by_key_call(keys, instances))
    return Finding(
        stage,
        Cause.KEYS,
        stage.saved_s,
        f"{why}, by {by}",
        f"place the keys by their weight{made}",
        by_key_call(keys, instances),
    )


def _hot_share(stage: PastStage) -> float:
    """The part of all rows by which the largest task exceeds the median task: about what one hot key in it has."""
    rows = stage.tasks.rows
    return float(rows.max() - np.median(rows)) / float(rows.sum())


def _instances(stage: PastStage) -> int:
    return stage.instances if stage.exchange is None or stage.exchange.partitions is None else stage.exchange.partitions


def _slow_executor(stage: PastStage, limits: Thresholds) -> Finding | None:
    """An executor on which every task was slow, with two tasks at least: one slow task may be a slow task."""
    run, rows, executor = stage.tasks.run_ms, stage.tasks.rows, stage.tasks.executor
    pace = run / np.maximum(rows, 1) if int(rows.sum()) else run.astype(np.float64)
    suspect = executor[int(run.argmax())]
    its, others = pace[executor == suspect], pace[executor != suspect]
    if its.size < 2 or others.size < 2:
        return None
    times = float(its.min() / np.median(others)) if np.median(others) > 0.0 else 0.0
    if times < limits.slower:
        return None
    why = (
        f"every one of the {its.size} tasks on executor {suspect} took at least {times:.1f} times as long as tasks elsewhere do"
    )
    remedy = f"look at the host of executor {suspect}; spark.speculation starts copies of slow tasks elsewhere"
    return Finding(stage, Cause.EXECUTOR, stage.saved_s, why, remedy)


def _spill(stage: PastStage, limits: Thresholds) -> Finding | None:
    """The longest task spilled, and tasks that spilled took longer a row than tasks that did not."""
    run, rows, spilled = stage.tasks.run_ms, stage.tasks.rows, stage.tasks.spilled > 0
    if not spilled[int(run.argmax())] or spilled.all():
        return None
    pace = run / np.maximum(rows, 1)
    others = float(np.median(pace[~spilled]))
    times = float(np.median(pace[spilled])) / others if others > 0.0 else 0.0
    if times < limits.slower:
        return None
    why = (
        f"{int(spilled.sum())} tasks spilled {stage.spilled_bytes / _MIB:,.0f} MiB to disk and took {times:.1f} times as long "
        "a row as the others"
    )
    remedy = f"more instances with fewer rows each (now {stage.instances}), or more memory a slot"
    return Finding(stage, Cause.SPILL, stage.saved_s, why, remedy)


def _by_cost(stage: PastStage) -> Finding:
    tasks = stage.tasks
    known = int(tasks.rows.sum()) > 0
    why = f"the longest task took {tasks.run_ms.max() / 1000.0:.1f} s, the mean is {tasks.run_ms.mean() / 1000.0:.1f} s, " + (
        f"with about the same rows (λ {stage.rows_imbalance_pct:.0f} %)" if known else "and rows were not counted"
    )
    if known and stage.rows_imbalance_pct >= Thresholds().uneven_rows_pct:
        why = why.replace("with about the same rows", "and it is not the rows")
    exchange = stage.exchange
    if exchange is not None and exchange.kind == "hashpartitioning" and exchange.expressions:
        remedy = (
            "some rows cost more than others: spread rows by their cost where rows of a key need not stay together; "
            "where they must, more instances than slots let short tasks fill the gaps"
        )
    else:
        remedy = "some rows cost more than others: spread rows by their cost"
    return Finding(stage, Cause.COST, stage.saved_s, why, remedy, apply_by_cost_call(_instances(stage)))


def _too_few(stage: PastStage, limits: Thresholds) -> Finding | None:
    """Slots that had no task of the stage. A total or a limit is one task by its nature, and not told."""
    slots = stage.cluster_slots
    if slots < 2 or stage.instances >= limits.few_tasks * slots:
        return None
    saved = max(0.0, stage.seconds - stage.schedule.seconds_on(slots))
    why = f"{stage.instances} {'task' if stage.instances == 1 else 'tasks'} on {slots} slots"
    exchange = stage.exchange
    if exchange is not None and exchange.kind == "SinglePartition":
        if not stage.operators or not stage.operators[0].startswith(_ROW_BY_ROW):
            return None
        remedy = "everything is in one partition: partition by a key what need not see all rows"
        return Finding(stage, Cause.TOO_FEW, saved, why, remedy)
    call = f"df.repartition({slots})"
    if exchange is not None and exchange.kind == "hashpartitioning" and exchange.keys:
        call = by_key_call(exchange.keys, slots)
    return Finding(
        stage, Cause.TOO_FEW, saved, why, f"{slots} instances, one per slot, if each slot is a core of its own", call
    )


def _too_many(stage: PastStage, limits: Thresholds) -> Finding | None:
    """Tasks so small that starting them costs more than a part of their work."""
    slots = stage.schedule.slots
    held_ms = float((stage.schedule.finish_ms - stage.schedule.launch_ms).sum())
    wanted = 2 * max(slots, stage.cluster_slots)
    if stage.instances <= 2 * wanted or held_ms <= 0.0 or stage.overhead_ms / held_ms < limits.overhead:
        return None
    saved = stage.overhead_ms / 1000.0 / slots * (1.0 - wanted / stage.instances)
    started = f"{stage.overhead_ms / held_ms:.0%} of their time went on starting them"
    why = f"{stage.instances} tasks of {stage.tasks.run_ms.mean():,.0f} ms: {started}"
    remedy = f"about {wanted} instances: spark.sql.shuffle.partitions, or coalesce"
    return Finding(stage, Cause.TOO_MANY, saved, why, remedy, f'spark.conf.set("spark.sql.shuffle.partitions", {wanted})')
