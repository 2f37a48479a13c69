"""Planning again while a dataflow runs: batches in, changes out. Spark carries them out between two batches.

Only what changes no row is changed: threads that a description leaves open, instances of edges without state, rows of a batch.
What needs a restart (slots) is recommended. One change at a time, so that what came of it is known; a change that came to
nothing is taken back, and not tried again.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from evenly.checks import MAX_INSTANCES
from evenly.dataflow.graph import Dataflow, Edge
from evenly.dataflow.reports import FlowBatch, Measured
from evenly.dataflow.tuning import Tuning
from evenly.errors import InvalidParameter
from evenly.numbers import plain
from evenly.planning.micro_batches.plan import PlannedStage, SparkPlan

ChangeKind = Literal["threads", "instances", "rows per batch", "slots", "profile"]
MOST_TRIED_THREADS = 256
_HEADROOM = 1.1
_SLOWER, _UNEVEN_PCT, _BUSY_PCT, _CPU_PCT = 1.5, 30.0, 70.0, 70.0
_SHORT, _LATE, _FILL = 0.7, 1.02, 0.95
_BETTER = 0.95
_FINER = 4


@dataclass(frozen=True)
class Change:
    """A change that is in force from the next batch on, or (`recommended`) that somebody may make with a restart."""

    kind: ChangeKind
    of: str
    before: int | None
    after: int
    reason: str
    expected: str
    recommended: bool = False

    def __str__(self) -> str:
        verb = "recommended" if self.recommended else "changed"
        where = f" of {self.of}" if self.of else ""
        numbers = f"from {_told(self.before)} to {_told(self.after)}"
        return f"{verb}: {self.kind}{where} {numbers}, for {self.reason}; expected: {self.expected}"


@dataclass(frozen=True)
class Outcome:
    """What came of a change; one that was not `kept` is taken back from the next batch on."""

    change: Change
    kept: bool
    came: str

    def __str__(self) -> str:
        where = f" of {self.change.of}" if self.change.of else ""
        end = "kept" if self.kept else f"taken back to {_told(self.change.before)}"
        return f"{self.change.kind}{where} at {_told(self.change.after)}: {self.came}, expected: {self.change.expected}; {end}"


Event = Change | Outcome


@dataclass
class _Pending:
    change: Change
    stage: PlannedStage | None
    before_s: float
    tuning: Tuning
    skip: int
    seen_s: list[float]


class Replanner:
    """Tell it every batch (`observe`); `tuning` is what is in force from then on.

    - `patience`: so many batches in a row must show the same before anything is changed; after a change two batches are left
      out, and as many as `patience` tell what came of it.
    - `source_tells`: whether the source can be told how many rows a batch may have.
    - `usual_instances`: those of an edge that names none; as many as the plan has slots, unless the session has another number.

    Guarantees (property-tested): nothing is changed before `patience` batches; one change at a time; threads stay from 1 to
    256 and only those that the description leaves open change; instances of edges by cost and to state stay; while batches are
    alike it comes to rest.
    """

    def __init__(
        self,
        flow: Dataflow,
        plan: SparkPlan,
        tuning: Tuning,
        *,
        patience: int = 5,
        source_tells: bool = False,
        usual_instances: int | None = None,
    ) -> None:
        if patience < 1:
            raise InvalidParameter(f"patience must be a number of batches, at least 1, got {patience}")
        self._flow, self._plan, self.tuning = flow, plan, tuning
        self._patience, self._source_tells = patience, source_tells
        self._usual = usual_instances or plan.slots
        self._row: dict[tuple[str, str], int] = {}
        self._tried: set[tuple[ChangeKind, str]] = set()
        self._recommended: dict[ChangeKind, int] = {}
        self._pending: _Pending | None = None
        self._last: FlowBatch | None = None
        self._recent: deque[FlowBatch] = deque(maxlen=patience)
        self._lowered = False

    def observe(self, batch: FlowBatch) -> list[Event]:
        """A batch has ended. One without rows, or of which Spark has not told, changes nothing."""
        if not batch.rows or batch.began_s is None:
            return []
        before, self._last = self._last, batch
        self._recent.append(batch)
        if self._pending is not None:
            return self._judged(self._pending, batch)
        seen = dict(self._deviations(batch, before))
        self._row = {what: self._row.get(what, 0) + 1 for what in seen}
        for what, reason in seen.items():
            if self._row[what] >= self._patience and (events := self._acted(what, reason)):
                self._row.clear()
                return events
        return []

    def _deviations(self, batch: FlowBatch, before: FlowBatch | None) -> Iterable[tuple[tuple[str, str], str]]:
        """What this batch shows that the plan did not say, and in which words."""
        yield from self._of_stages(batch)
        yield from self._of_rows(batch)
        yield from self._of_rate(batch, before)

    def _of_stages(self, batch: FlowBatch) -> Iterable[tuple[tuple[str, str], str]]:
        rows = batch.rows or 0
        for stage in self._plan.stages:
            span_s, predicted_s = _span_s(stage, batch), stage.seconds(rows)
            if span_s is None or not stage.binding:
                continue
            told = f"{plain(span_s)} s in place of {plain(predicted_s)} s with {rows:,} rows"
            if span_s > _SLOWER * predicted_s:
                yield ("slower", stage.binding), f"the stage of {stage.binding} takes {told}"
            elif span_s < predicted_s / _SLOWER:
                yield ("faster", stage.binding), f"the stage of {stage.binding} takes only {told}"

    def _of_rows(self, batch: FlowBatch) -> Iterable[tuple[tuple[str, str], str]]:
        rows, cap, trigger_s = batch.rows or 0, self.tuning.rows_per_batch, self._plan.trigger_s
        if not self._source_tells or cap is None or trigger_s is None or rows < 0.99 * cap:
            return
        if batch.took_s < _SHORT * trigger_s:
            yield ("short", ""), f"batches of {rows:,} rows take {plain(batch.took_s)} s of {trigger_s:g} s, and rows wait"
        elif batch.took_s > _LATE * trigger_s:
            yield ("long", ""), f"batches of {rows:,} rows take {plain(batch.took_s)} s, and one is due every {trigger_s:g} s"

    def _of_rate(self, batch: FlowBatch, before: FlowBatch | None) -> Iterable[tuple[tuple[str, str], str]]:
        if before is None or batch.began_s is None or before.began_s is None or batch.began_s <= before.began_s:
            return
        rate = (batch.rows or 0) / (batch.began_s - before.began_s)
        most = max(self._plan.rate, _FILL * self._plan.peak_rate)
        if rate > most:
            yield ("above", ""), f"{plain(rate, 4)} rows/s arrive, and the plan holds {plain(most, 4)}"
        elif rate < 0.5 * self._plan.rate:
            yield ("below", ""), f"{plain(rate, 4)} rows/s arrive, of {plain(self._plan.rate, 4)} that were planned for"

    def _acted(self, what: tuple[str, str], reason: str) -> list[Event]:
        kind, name = what
        if kind == "short":
            return self._more_rows(reason)
        if kind == "long":
            return self._fewer_rows(reason) or self._relieved(self._longest(), reason)
        if kind == "slower":
            return self._relieved(next(it for it in self._plan.stages if it.binding == name), reason)
        if kind == "above":
            return self._relieved(self._longest(), reason)
        if kind == "faster":
            return self._recommend("profile", name, None, 1, reason, "a plan that asks for less")
        return self._slots(reason)

    def _longest(self) -> PlannedStage | None:
        batch = self._recent[-1]
        told = [(span_s, stage) for stage in self._plan.stages if (span_s := _span_s(stage, batch)) is not None]
        return max(told, key=lambda one: one[0])[1] if told else None

    def _relieved(self, stage: PlannedStage | None, reason: str) -> list[Event]:
        """A stage made shorter, by what has not been tried yet; else more slots are recommended."""
        if stage is not None:
            batch = self._recent[-1]
            for name in stage.operators:
                for edge in self._flow.into[name]:
                    if found := self._spread(edge, batch.operators.get(name)):
                        after, why = found
                        way = (edge.start, edge.end)
                        change = Change(
                            "instances", f"{edge.start} -> {edge.end}", self.tuning.instances_of(edge, self._usual),
                            after, f"{reason}, {why}", "a shorter stage",
                        )  # fmt: skip
                        return self._begin(change, stage, self.tuning.with_instances(way, after))
            told = [batch.operators[name] for name in stage.operators if name in batch.operators]
            for one in sorted(told, key=lambda it: -it.busy_pct):
                if self._waits(one):
                    before = self.tuning.threads_of(self._flow.by_name[one.operator])
                    after = min(2 * before, MOST_TRIED_THREADS)
                    expected = f"a stage of {plain(before / after * one.span_s)} s in place of {plain(one.span_s)} s"
                    change = Change(
                        "threads", one.operator, before, after,
                        f"{reason}, its threads are busy {one.busy_pct:.0f} % of it, a core {one.cpu_pct:.0f} %", expected,
                    )  # fmt: skip
                    return self._begin(change, stage, self.tuning.with_threads(one.operator, after))
        return self._slots(reason)

    def _spread(self, edge: Edge, one: Measured | None) -> tuple[int, str] | None:
        """More instances for an edge, if they may help."""
        free = edge.grouping == "shuffle" or (edge.grouping == "key" and self._flow.by_name[edge.end].kind != "state")
        if not free or one is None or ("instances", f"{edge.start} -> {edge.end}") in self._tried:
            return None
        now, slots = self.tuning.instances_of(edge, self._usual), self._plan.slots
        if now < slots:
            return slots, f"it has {now} tasks for {slots} slots"
        finer = min(_FINER * slots, MAX_INSTANCES)
        if edge.grouping == "shuffle" and one.imbalance_pct > _UNEVEN_PCT and now < finer:
            return finer, f"its tasks are uneven (λ {one.imbalance_pct:.0f} %)"
        return None

    def _waits(self, one: Measured) -> bool:
        """Whether more threads may help an operator: they are all busy, and not with computing."""
        described = self._flow.by_name[one.operator]
        threads = self.tuning.threads_of(described)
        open_ = described.threads is None and described.kind in ("row", "batch")
        tried = ("threads", one.operator) in self._tried
        waits = one.busy_pct > _BUSY_PCT and one.cpu_pct is not None and one.cpu_pct < _CPU_PCT
        return open_ and not tried and waits and threads < MOST_TRIED_THREADS

    def _more_rows(self, reason: str) -> list[Event]:
        batch, trigger_s = self._recent[-1], self._plan.trigger_s
        if trigger_s is None or self._lowered:
            return []
        after = math.floor(_FILL * trigger_s / max(batch.took_s, 0.05 * trigger_s) * (batch.rows or 0))
        return self._rows(after, reason, f"batches near {trigger_s:g} s")

    def _fewer_rows(self, reason: str) -> list[Event]:
        batch, trigger_s = self._recent[-1], self._plan.trigger_s
        cap = self.tuning.rows_per_batch
        if trigger_s is None or cap is None or self._lowered:
            return []
        self._lowered = True  # never up again: a source that is too fast would make it go up and down
        return self._rows(max(1, math.floor(_FILL * trigger_s / batch.took_s * cap)), reason, f"batches within {trigger_s:g} s")

    def _rows(self, after: int, reason: str, expected: str) -> list[Event]:
        before = self.tuning.rows_per_batch
        if after == before:
            return []
        change = Change("rows per batch", "", before, after, reason, expected)
        return self._begin(change, None, replace(self.tuning, rows_per_batch=after))

    def _slots(self, reason: str) -> list[Event]:
        """Slots by the plan, corrected by how much longer batches take than it says."""
        plan, batch = self._plan, self._recent[-1]
        first = self._recent[0]
        seconds = (batch.began_s or 0.0) - (first.began_s or 0.0)
        rows = sum(one.rows or 0 for one in self._recent) - (first.rows or 0)
        rate = rows / seconds if seconds > 0.0 else plan.rate
        predicted_s = plan.batch_s(batch.rows or 0)
        slower = batch.took_s / predicted_s if predicted_s > 0.0 else 1.0
        if not (plan.peak_rate > 0.0 and math.isfinite(plan.peak_rate)):
            return []
        needed = max(1, min(MAX_INSTANCES, math.ceil(plan.slots * _HEADROOM * rate * slower / plan.peak_rate)))
        if needed == plan.slots:
            return []
        return self._recommend(
            "slots", "", plan.slots, needed, reason, f"{plain(rate, 4)} rows/s held, {(_HEADROOM - 1):.0%} to spare"
        )

    def _recommend(self, kind: ChangeKind, of: str, before: int | None, after: int, reason: str, expected: str) -> list[Event]:
        """Once, and again when it is another number by more than a tenth."""
        last = self._recommended.get(kind)
        if last is not None and abs(after - last) <= 0.1 * last:
            return []
        self._recommended[kind] = after
        return [Change(kind, of, before, after, reason, expected, recommended=True)]

    def _begin(self, change: Change, stage: PlannedStage | None, tuning: Tuning) -> list[Event]:
        before_s = statistics.median(_row_s(stage, one) for one in self._recent)
        self._pending = _Pending(change, stage, before_s, self.tuning, 2, [])
        self.tuning = tuning
        return [change]

    def _judged(self, pending: _Pending, batch: FlowBatch) -> list[Event]:
        if pending.skip:
            pending.skip -= 1
            return []
        pending.seen_s.append(_row_s(pending.stage, batch))
        if len(pending.seen_s) < self._patience:
            return []
        self._pending = None
        after_s, change = statistics.median(pending.seen_s), pending.change
        faster = pending.before_s / after_s if after_s > 0.0 else math.inf
        kept = change.kind == "rows per batch" or after_s <= _BETTER * pending.before_s
        if not kept:
            self.tuning = pending.tuning
        if not kept or change.kind == "instances":
            self._tried.add((change.kind, change.of))
        what = "a batch" if pending.stage is None else "the stage"
        return [Outcome(change, kept, f"{what} takes {plain(1e3 * after_s)} ms a row, {faster:.2f} times as fast as before")]


def _span_s(stage: PlannedStage, batch: FlowBatch) -> float | None:
    """How long the measured operators of a stage took; None if there are none."""
    told = [batch.operators[name].span_s for name in stage.operators if name in batch.operators]
    return max(told, default=None)


def _row_s(stage: PlannedStage | None, batch: FlowBatch) -> float:
    """Seconds for a row, of a stage or of the whole batch."""
    seconds = batch.took_s if stage is None else _span_s(stage, batch)
    return (batch.took_s if seconds is None else seconds) / max(batch.rows or 0, 1)


def _told(number: int | None) -> str:
    return "what it was" if number is None else f"{number:,}"
