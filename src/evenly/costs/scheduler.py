"""The scheduler at the driver: a state machine that reports of batches drive, and that says how the next batch is dealt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np

from evenly.checks import checked_instances
from evenly.costs.contradiction import Contradiction, contradiction_of
from evenly.costs.model import CostModel
from evenly.costs.pieces import pieces
from evenly.costs.placing import DEALING_WAYS, DealingWay, choose_dealing
from evenly.costs.report import InstanceReport
from evenly.costs.speeds import Speeds
from evenly.errors import DamagedData
from evenly.kernels.types import F64
from evenly.sealed import opened, sealed

KIND = "evenly-cost-scheduler"
VERSION = 1
EVEN_TIMES_EVERY = 16
HALF_LIFE_ROWS = 2_000_000.0
"""Some 100 rows for each key that a model has room for: enough to know them, and new keys come in."""

_PATIENCE = 3
_FORGETS = 1.0 / 16.0
_LEAVES = 1.0 / 8.0
_LEAVES_EVEN = 0.02


class SchedulerState(StrEnum):
    """ROUND_ROBIN: rows are dealt evenly and all are timed, until every instance has reported. RUN: they are dealt by cost."""

    ROUND_ROBIN = "round-robin"
    RUN = "run"


@dataclass(frozen=True, eq=False)
class BatchDecision:
    """How a batch is dealt.

    `even`: by plain repartition, without a routing hop. `shares`: the part of the work for each partition (more partitions
    than instances if executors differ in speed). `model`: the estimates (of no use when `even`). `time_every`: one call of
    so many is timed. `reason`: why, in words. `way`: how they are dealt by cost.
    """

    state: SchedulerState
    even: bool
    shares: F64
    model: CostModel
    time_every: int
    reason: str = ""
    way: DealingWay = "routers"


class CostScheduler:
    """Decides for each batch how its rows are dealt, and learns from the reports of its instances. No clock and no Spark.

    States, after POSG: ROUND_ROBIN until every instance has reported (or three batches have reported something: an instance
    that never gets rows must not hold up the others), then RUN. In RUN:

    - **resynchronise**: when a batch contradicts the model (well-known keys cost something else than they should, beyond what
      chance and 15 % explain), all that was learnt before counts a 16th, and at most an 8th of that batch. It stays in RUN,
      since the new batch is in the model already. If three batches in a row contradict it, cost is no function of the key at
      present: a fresh model, and ROUND_ROBIN again. A batch in which all keys cost the same factor more or less is no
      contradiction: the model is rescaled.
    - **even**: when the model says that the key explains nothing that matters, and executors are alike, rows go out evenly
      and one call of 16 is timed. It goes on learning, and leaves that when scheduling would save 2 %. They go out evenly too
      where a batch of so many rows would gain less than routing takes (`choose_dealing`).

    A batch is counted once: reports of a batch at or below the last one counted are refused (`report` returns False), and of
    two reports of one instance in a batch the fuller one counts. No state waits for a message: whatever reports are lost,
    doubled or late, `decide` answers. `tests/property/test_cost_scheduler.py` proves it with seeded faults.

    Parameters: `instances`; `model`, to begin with what an earlier run has learnt (then it begins in RUN), or `expressions` and
    `half_life_rows` of a fresh one (after so many timed rows a row counts half; None: never forget).
    """

    def __init__(
        self,
        instances: int,
        *,
        expressions: Sequence[str] = (),
        model: CostModel | None = None,
        half_life_rows: float | None = HALF_LIFE_ROWS,
    ) -> None:
        self.instances = checked_instances(instances)
        self.model = CostModel(expressions, half_life_rows=half_life_rows) if model is None else model.copy()
        self.speeds = Speeds()
        self.state = SchedulerState.RUN if self.model.rows > 0.0 else SchedulerState.ROUND_ROBIN
        self.last_batch: int | None = None
        self.resynchronised = 0
        self._reported: set[int] = set()
        self._waited = 0
        self._contradicted = 0
        self._even = False
        self._settle()

    def decide(
        self,
        batch_id: int,
        *,
        row_bytes: float | None = None,
        slots: int | None = None,
        objective: str = "completion",
        ways: Sequence[DealingWay] = DEALING_WAYS,
    ) -> BatchDecision:
        """How the batch is dealt. Asked again for the same batch it says the same, as long as nothing is reported.

        The batch is expected to have as many rows as the last one; what else is known of it is as `choose_dealing` takes it.
        """
        del batch_id  # what is decided depends on what was reported alone: a batch that is run again is dealt as before
        if self.state is SchedulerState.ROUND_ROBIN:
            missing = self.instances - len(self._reported)
            return self._decision(even=True, every=1, reason=f"{missing} of {self.instances} instances have not reported yet")
        if self.speeds.uneven:
            return self._decision(even=False, every=1, reason="executors differ in speed")
        if self._even:
            return self._decision(even=True, every=EVEN_TIMES_EVERY, reason="evenly: the key does not tell the cost")
        if objective == "arrival":
            return self._decision(even=False, every=1, reason="in the order of arrival, as asked for")
        rows, model = self.model.batch_rows, self.model
        placed = choose_dealing(
            model, self.instances, rows=rows, row_bytes=row_bytes, slots=slots, objective=objective, ways=ways
        )
        if not placed.by_cost:
            return self._decision(even=True, every=EVEN_TIMES_EVERY, reason=placed.reason)
        return self._decision(even=False, every=1, reason=placed.reason, way=placed.way)

    def report(self, batch_id: int, reports: Sequence[InstanceReport]) -> bool:
        """Take in the reports of a batch. False, and nothing is changed, if it or a later batch was counted already."""
        if self.last_batch is not None and batch_id <= self.last_batch:
            return False
        once = _once(reports)
        timed = [report for report in once if report.counted > 0.0]
        speeds = self.speeds.copy().learn(timed, self.model)
        factors = _factors(speeds, timed)
        verdict = contradiction_of(self.model, timed, speeds=factors) if self.state is SchedulerState.RUN else Contradiction()
        learnt = self.model.copy()
        if verdict.contradicts:
            # The model was wrong, so what it says of executors is not believed either.
            rows = sum(report.counted * report.sampling for report in timed)
            learnt.forget(min(_FORGETS, _LEAVES * rows / learnt.rows)).learn_all(timed, speeds=_factors(self.speeds, timed))
            speeds = self.speeds.copy().learn(timed, learnt)
        else:
            learnt.rescale(max(verdict.scale, 1e-6)).learn_all(timed, speeds=factors)
        # From here on nothing can fail: a report that is refused leaves the scheduler as it was.
        self.model, self.speeds, self.last_batch = learnt, speeds, batch_id
        self._reported |= {report.instance for report in once if 0 <= report.instance < self.instances}
        self._waited += bool(timed)
        self._step(contradicted=verdict.contradicts)
        return True

    def _step(self, *, contradicted: bool) -> None:
        if self.state is SchedulerState.ROUND_ROBIN:
            heard = len(self._reported) == self.instances or self._waited >= _PATIENCE
            if heard and self.model.rows > 0.0:
                self.state = SchedulerState.RUN
        elif contradicted:
            self.resynchronised += 1
            self._contradicted += 1
            if self._contradicted >= _PATIENCE:
                self.model.forget(0.0)
                self.state = SchedulerState.ROUND_ROBIN
                self._reported, self._waited, self._contradicted = set(), 0, 0
        else:
            self._contradicted = 0
        self._settle()

    def _settle(self) -> None:
        """Enter even dealing below 1 % of gain, leave it above 2 %: between the two it stays as it is."""
        if self.state is SchedulerState.ROUND_ROBIN:
            self._even = False
        else:
            self._even = self.model.constant or (self._even and self.model.gain_of_few < _LEAVES_EVEN)

    def _decision(self, *, even: bool, every: int, reason: str, way: DealingWay = "routers") -> BatchDecision:
        shares = np.full(self.instances, 1.0 / self.instances) if even else pieces(self.speeds.values, self.instances)
        return BatchDecision(self.state, even, shares, self.model.copy(), every, reason, way)

    def to_json(self) -> str:
        """All of its state as one JSON object with a checksum, at most 1 MiB."""
        return sealed(self._content(), kind=KIND, version=VERSION)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "this text") -> Self:
        """The scheduler that `to_json` was called on: it goes on as that one would."""
        content = opened(text, kind=KIND, version=VERSION, what="cost scheduler", source=source)
        try:
            scheduler = cls(content["instances"], model=CostModel.of_content(content["model"], source=source))
            scheduler.speeds = Speeds.of_content(content["speeds"])
            scheduler.state = SchedulerState(content["state"])
            scheduler.last_batch = content["last_batch"]
            scheduler.resynchronised = content["resynchronised"]
            scheduler._reported = set(content["reported"])
            scheduler._waited, scheduler._contradicted = content["waited"], content["contradicted"]
            scheduler._even = content["even"]
        except (LookupError, TypeError, ValueError) as error:
            raise DamagedData(f"{source} is not a saved cost scheduler, or is damaged: {error}") from error
        return scheduler

    def _content(self) -> dict[str, Any]:
        return {
            "instances": self.instances,
            "state": str(self.state),
            "last_batch": self.last_batch,
            "resynchronised": self.resynchronised,
            "reported": sorted(self._reported),
            "waited": self._waited,
            "contradicted": self._contradicted,
            "even": self._even,
            "speeds": self.speeds.content(),
            "model": self.model.content(),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CostScheduler) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns


def _factors(speeds: Speeds, reports: Sequence[InstanceReport]) -> list[float]:
    """What the costs in each report are multiplied by: 1 while executors are alike, since speeds are noisy too."""
    known = speeds.all() if speeds.uneven else {}
    return [known.get(report.executor, 1.0) for report in reports]


def _once(reports: Sequence[InstanceReport]) -> list[InstanceReport]:
    """One report of each instance, in their order: the fuller one of two, which a copy that was cut short is not."""
    best: dict[int, InstanceReport] = {}
    for report in reports:
        held = best.get(report.instance)
        if held is None or (report.rows, report.last_s, report.to_bytes()) > (held.rows, held.last_s, held.to_bytes()):
            best[report.instance] = report
    return [best[instance] for instance in sorted(best)]
