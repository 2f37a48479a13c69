"""The runs behind the prototypes' figures on Spark: the same micro-batches by round-robin and by Evenly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from evenly.errors import MissingDependency
from evenly.lab.papers.applications.catalogue import (
    StreamApplication,
    reach_application,
    synthetic_application,
    tweet_application,
)
from evenly.lab.papers.posg.bench import EVENLY, ROUND_ROBIN, Measured
from evenly.lab.papers.publication import RunsBench
from evenly.lab.simulation.keys import run_seed
from evenly.report.figures import Curve

if TYPE_CHECKING:
    from evenly.costs.model import CostModel
    from evenly.lab.trials.rows import TimedBatch, Trial

SERIES = (ROUND_ROBIN, EVENLY)
SLOTS = 10
OBJECTIVE: Final = "completion"
APPLICATIONS: dict[str, Callable[..., StreamApplication]] = {
    "tweets": tweet_application,
    "reach": reach_application,
    "synthetic": synthetic_application,
}


@dataclass(frozen=True)
class Scale:
    """How much work a run is: seconds of waiting in all, whatever the number of instances.

    `batch_s` is the work of a micro-batch, `learning_s` that of the rows before it that teach the costs. `shift_batches`
    micro-batches of `shift_rows` rows make the time series; its costs are `shift_scale` times the paper's.
    """

    batch_s: float = 20.0
    learning_s: float = 80.0
    shift_batches: int = 10
    shift_rows: int = 15_000
    shift_scale: float = 1.0 / 16.0


@dataclass(eq=False)
class SparkBench(RunsBench):
    """Starts Spark when first needed, and keeps results. Use it in a `with`, so that Spark is stopped.

    `progress` hears of every run (a micro-batch by both ways) that is done. A session of the caller's (`spark`) is used as it
    is, and not stopped.
    """

    scale: Scale = field(default_factory=Scale)
    spark: Any = None
    _own: bool = False
    _learnt: dict[str, CostModel] = field(default_factory=dict)
    _streams: dict[str, StreamApplication] = field(default_factory=dict)
    _done: dict[tuple[str, int], Measured] = field(default_factory=dict)

    def __enter__(self) -> Self:
        if find_spec("pyspark") is None:
            raise MissingDependency("figures on Spark need PySpark: pip install 'evenly[spark]'")
        return self

    def __exit__(self, *_: object) -> None:
        if self._own:
            self.spark.stop()
            self.spark, self._own = None, False

    def trial(self, application: StreamApplication) -> Trial:
        """The application on Spark with ten slots, every one with its Python started."""
        # Imported here, so that `evenly --help` and the simulations need no Spark.
        from evenly.lab.trials.rows import Trial  # noqa: PLC0415
        from evenly.spark.session import local_session  # noqa: PLC0415

        if self.spark is None:
            self.spark, self._own = local_session("evenly paper", slots=SLOTS), True
        return Trial(self.spark, application.function, application.schema, application.cost_key)

    def measure(self, name: str, instances: int) -> Measured:
        """An application's next micro-batches over that many instances, made now or before."""
        if (name, instances) not in self._done:
            trial = self._learning(name)
            found = np.array([self._run(trial, name, instances, number) for number in range(self.runs)])
            completion, p99, messages = ({way: found[:, row, at] for row, way in enumerate(SERIES)} for at in range(3))
            self._done[name, instances] = Measured(completion, p99, messages, {})
        return self._done[name, instances]

    def stream(self, name: str) -> StreamApplication:
        """The rows that teach, and after them those of as many micro-batches as there are runs."""
        if name not in self._streams:
            mean_s = APPLICATIONS[name](2_000, seed=run_seed(self.seed, 0)).costs_ms.mean() * 1e-3
            rows = int((self.scale.learning_s + self.runs * self.scale.batch_s) / mean_s) + 1
            self._streams[name] = APPLICATIONS[name](rows, seed=run_seed(self.seed, 0))
        return self._streams[name]

    def _learning(self, name: str) -> Trial:
        """The trial of an application whose costs are learnt."""
        stream = self.stream(name)
        trial = self.trial(stream)
        if name not in self._learnt:
            warm_up_trial(trial, stream)
            df = trial.frame(stream.part(0, self.taught_rows(name)).table)
            self._learnt[name] = trial.by_evenly(df, SLOTS, costs=None)[1]
            df.unpersist()
            self.advance()
        return trial

    def taught_rows(self, name: str) -> int:
        """How many rows teach an application's costs before its first run."""
        share = self.scale.learning_s / (self.scale.learning_s + self.runs * self.scale.batch_s)
        return int(self.stream(name).rows * share)

    def batch_rows(self, name: str) -> int:
        """How many rows a micro-batch of an application has."""
        return (self.stream(name).rows - self.taught_rows(name)) // self.runs

    def _run(self, trial: Trial, name: str, instances: int, number: int) -> list[list[float]]:
        """One micro-batch both ways, which is first by turns."""
        rows = self.batch_rows(name)
        df = trial.frame(self.stream(name).part(self.taught_rows(name) + number * rows, rows).table)
        batches: dict[str, TimedBatch] = {}
        for way in SERIES if number % 2 == 0 else SERIES[::-1]:
            if way == ROUND_ROBIN:
                batches[way] = trial.round_robin(df, instances)
            else:
                batches[way], _ = trial.by_evenly(df, instances, costs=self._learnt[name], objective=OBJECTIVE)
        df.unpersist()
        self.advance()
        return [
            [batches[way].completion_ms_mean, batches[way].completion_ms_p99, instances if way == EVENLY else 0.0]
            for way in SERIES
        ]

    def series(self, multipliers: Sequence[Sequence[float]], instances: int) -> dict[str, list[TimedBatch]]:
        """The POSG paper's changing instances, micro-batch by micro-batch, nothing known before the first.

        The first row of `multipliers` holds for the first half of the batches, the second for the rest.
        """
        scale = self.scale
        least = min(factor for period in multipliers for factor in period)
        stream = synthetic_application(
            scale.shift_batches * scale.shift_rows, seed=run_seed(self.seed, 0), most_ms=64.0 * scale.shift_scale * least
        )
        trial = self.trial(stream)
        warm_up_trial(trial, stream)
        costs = None
        found: dict[str, list[TimedBatch]] = {way: [] for way in SERIES}
        for number in range(scale.shift_batches):
            period = multipliers[0] if number < scale.shift_batches / 2 else multipliers[1]
            # The fastest instance takes the time of the row, the others longer.
            slowness = [factor / least for factor in period]
            df = trial.frame(stream.part(number * scale.shift_rows, scale.shift_rows).table)
            found[ROUND_ROBIN].append(trial.round_robin(df, instances, slowness))
            batch, costs = trial.by_evenly(df, instances, costs=costs, objective=OBJECTIVE, slowness=slowness)
            found[EVENLY].append(batch)
            df.unpersist()
            self.advance()
        return found

    def points(self, name: str, instances: int) -> list[dict[str, object]]:
        """Both ways at one number of instances, as flat objects."""
        found = self.measure(name, instances)
        stream = self.stream(name).stream
        return [
            {"x": instances, "stream": stream, "instances": instances, "runs": self.runs, **found.row(way)} for way in SERIES
        ]

    def completion_curves(self, name: str, instances: Sequence[int]) -> list[Curve]:
        """Mean completion time over the number of instances, and the worst run's."""
        x = tuple(map(float, instances))
        found = [self.measure(name, k) for k in instances]
        return [
            Curve(way, x, [float(getattr(one.completion_ms[way], of)()) for one in found], worst=of == "max")
            for way in SERIES
            for of in ("mean", "max")
        ]

    def gain_curves(self, name: str, instances: Sequence[int]) -> list[Curve]:
        """Mean S_L over the number of instances, and the least run's."""
        x = tuple(map(float, instances))
        found = [self.measure(name, k).speedup(EVENLY) for k in instances]
        return [Curve(EVENLY, x, [float(getattr(one, of)()) for one in found], worst=of == "min") for of in ("mean", "min")]


def warm_up_trial(trial: Trial, stream: StreamApplication) -> None:
    """A Python process for each slot, so that no run pays for its start."""
    df = trial.frame(stream.part(0, 40 * SLOTS).table)
    trial.round_robin(df, SLOTS)
    trial.by_evenly(df, SLOTS, costs=None)
    df.unpersist()
