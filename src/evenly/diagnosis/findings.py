"""What is said of a stage: the cause in a word, how sure that is, why, what would help, and what it would save."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from evenly.diagnosis.stages import PastStage


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
    CACHE = "cache"
    LOCALITY = "locality wait"
    EXECUTOR = "slow executor"
    WAITING = "waiting"
    COLD = "cold executors"
    FAILED = "failed tasks"
    ROUNDS = "last round"
    TOO_FEW = "too few tasks"
    TOO_MANY = "too many tasks"


_SURE = 0.8


class Confidence(StrEnum):
    """How sure a cause is, by what the log has to say about it."""

    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "a guess"

    @classmethod
    def by(cls, explained: float) -> Confidence:
        """Of a cause that explains this part of what the longest task took beyond the mean."""
        return cls.CERTAIN if explained >= _SURE else cls.LIKELY


SIZED = frozenset({Cause.TOO_FEW, Cause.TOO_MANY, Cause.ROUNDS})
"""Causes that are about the number of tasks."""
_RANK = {Cause.TOO_FEW: 1, Cause.TOO_MANY: 1, Cause.EVEN: 2}


@dataclass(frozen=True)
class Thresholds:
    """Where a finding begins. Every one is a judgement; the defaults keep noise out and hide nothing that costs minutes.

    - `least_saved_s`, `least_saved_pct`: below either, balance would save too little to act on.
    - `uneven_rows_pct`: λ of rows from which rows count as uneven; a hash spreads even keys to within a few percent.
    - `least_rows`: mean rows per task, below which they say little (a cached table counts batches, a folder its files).
    - `explained`: the part of the longest task's excess over the mean that a candidate must explain.
    - `slower`: how many times the others' time a row (or a task) must take to be called slow.
    - `hot_key`: how many times a slot's share of the rows the largest task must exceed the median task by, for one key to
      be taken for too heavy. A log has no keys: that several heavy keys met there cannot be told apart from it.
    - `merged`: how many times the median task a task must have read, to be more than adaptive execution's merging of small
      partitions, which fills tasks up to a size and leaves the last ones short.
    - `equal_spread`: standard deviation of times over their mean up to which tasks count as equal, where the last round is
      short of tasks.
    - `few_tasks`: a stage with no more tasks than this part of the slots leaves slots without work.
    - `least_task_s`: work for which a task is worth starting.
    - `overhead`: the part of the tasks' time that is not their own run time, from which they are too small.
    """

    least_saved_s: float = 1.0
    least_saved_pct: float = 5.0
    uneven_rows_pct: float = 20.0
    least_rows: float = 10.0
    explained: float = 0.5
    slower: float = 1.5
    hot_key: float = 1.1
    merged: float = 2.5
    equal_spread: float = 0.25
    few_tasks: float = 0.5
    least_task_s: float = 0.2
    overhead: float = 0.3


@dataclass(frozen=True)
class Advice:
    """What would help: in words, and as code to paste where there is some."""

    remedy: str
    call: str | None = None


NOTHING = "nothing to do"


@dataclass(frozen=True)
class Finding:
    """What is wrong with one stage: the cause in a word, why in a sentence, the remedy, and code to paste where there is some.

    `saved_s` is what the remedy would save at best, on the slots that the stage had (on those that were free besides where
    there were too few tasks).
    """

    stage: PastStage
    cause: Cause
    saved_s: float
    why: str
    remedy: str
    call: str | None = None
    confidence: Confidence = Confidence.LIKELY

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
            "description": stage.description or None,
            "partitioning": exchange.kind if exchange else None,
            "key": ",".join(exchange.keys) if exchange and exchange.keys else None,
            "instances": stage.instances,
            "slots": stage.slots,
            "cluster_slots": stage.cluster_slots,
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
            "confidence": None if self.cause is Cause.EVEN else self.confidence.value,
            "why": self.why,
            "remedy": self.remedy,
            "call": self.call,
        }


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
