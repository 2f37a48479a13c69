"""The runs behind the figures of the POSG and OSG papers: the same tuples through every grouping."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypedDict, TypeVar

import numpy as np

from evenly.costs.base import ShuffleGrouping
from evenly.kernels.types import F64
from evenly.lab.papers.publication import RunsBench
from evenly.lab.rivals.shuffle.full_knowledge import FullKnowledge
from evenly.lab.rivals.shuffle.least_work import LeastWork
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.rivals.shuffle.virtual_finish import VirtualFinish
from evenly.lab.simulation.catalogue import SHUFFLE, Wanted
from evenly.lab.simulation.keys import run_seed
from evenly.lab.simulation.queueing import Outcome, Stage, run
from evenly.report.figures import Curve

ROUND_ROBIN = RoundRobin.name
EVENLY = VirtualFinish.name
READINGS = ("posg-a", "posg-b", "posg-c", "posg-cp")
NEAREST = "posg-cp"
"""The reading that all verdicts on POSG and OSG are on, whatever the figure: the text leaves four, and this one reproduces
more of the paper than any other (`table-readings` of `evenly paper posg`). What the others give stands beside it.
"""
LATE = "full-knowledge-late"
"""Exact costs, but round-robin as long as reading C: no estimate with that warm-up can do better."""
Result = TypeVar("Result")
WITHIN_PCT = 20.0
"""How far a mean gain may be from the published one, as a share of the gain. The standard error of a mean over the paper's 100
streams is about 5 % of a gain of 0.2, there as here, and printing to whole per cents adds up to 8 % of a gain of 0.06.
"""
SERIES = (ROUND_ROBIN, *READINGS, EVENLY, LATE, FullKnowledge.name, LeastWork.name)


class StreamSetting(Protocol):
    """A stream with its instances, at one point of a figure. Settings are compared by value."""

    @property
    def stream(self) -> str:
        """How people call the stream."""

    @property
    def instances(self) -> int:
        """How many there are."""

    @property
    def columns(self) -> int:
        """Of the matrices."""

    @property
    def most_runs(self) -> int:
        """More runs than these show nothing new."""

    def stage(self, seed: int) -> Stage:
        """One stream; the same seed gives the same."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured at a setting, of each series in each run: mean and 99 % completion time, messages.

    `left` is how many tuples had been read when a reading of POSG left round-robin (0 if never).
    """

    completion_ms: dict[str, F64]
    p99_ms: dict[str, F64]
    messages: dict[str, F64]
    left: dict[str, F64]

    def speedup(self, series: str) -> F64:
        """S_L in every run."""
        return self.completion_ms[ROUND_ROBIN] / self.completion_ms[series]

    def gain(self, series: str) -> float:
        """Mean S_L over the runs."""
        return float(self.speedup(series).mean())

    def error(self, series: str) -> float:
        """The standard error of `gain`."""
        values = self.speedup(series)
        return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0

    def row(self, series: str) -> dict[str, object]:
        """A series as a flat object."""
        completion_ms, speedup = self.completion_ms[series], self.speedup(series)
        return {
            "series": series,
            "grouping": series,
            "completion_ms_mean": float(completion_ms.mean()),
            "completion_ms_min": float(completion_ms.min()),
            "completion_ms_max": float(completion_ms.max()),
            "completion_ms_p99": float(self.p99_ms[series].mean()),
            "speedup_mean": self.gain(series),
            "speedup_se": self.error(series),
            "speedup_min": float(speedup.min()),
            "speedup_max": float(speedup.max()),
            "messages": float(self.messages[series].mean()),
        }


def made(series: str, setting: StreamSetting, seed: int, late: int = 0) -> ShuffleGrouping:
    """The grouping of a series; `late` is the number of tuples that reading C sent round-robin."""
    if series == LATE:
        return LeastWork(setting.instances, cost_ms=np.asarray, warm_up=late)
    return SHUFFLE[series](Wanted(setting.instances, seed, columns=setting.columns))


@dataclass(eq=False)
class Bench(RunsBench):
    """Runs settings and keeps their results. `progress` hears of every run that is done."""

    _done: dict[tuple[StreamSetting, Sequence[str]], Measured] = field(default_factory=dict)
    kept: dict[str, object] = field(default_factory=dict)
    """What figures have made of runs of their own and share, by a name."""

    def count(self, setting: StreamSetting) -> int:
        """How many runs a setting gets."""
        return min(self.runs, setting.most_runs)

    def measure(self, setting: StreamSetting, series: tuple[str, ...] = SERIES) -> Measured:
        """The runs of a setting, made now or before."""
        if (setting, series) not in self._done:
            found = np.array(self.each(setting, lambda stage, seed: _measure(stage, setting, series, seed)))
            columns = ({name: found[:, row, at] for row, name in enumerate(series)} for at in range(4))
            self._done[setting, series] = Measured(*columns)
        return self._done[setting, series]

    def each(self, setting: StreamSetting, of: Callable[[Stage, int], Result]) -> list[Result]:
        """What `of` gives for every stream and its seed, in the order of runs, whatever the number of workers."""

        def one(number: int) -> Result:
            seed = run_seed(self.seed, number)
            return of(setting.stage(seed), seed)

        results = []
        with ThreadPoolExecutor(self.workers or os.cpu_count() or 1) as pool:
            try:
                for result in pool.map(one, range(self.count(setting))):
                    results.append(result)
                    self.advance()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return results

    def points(self, x: float | str, setting: StreamSetting, series: tuple[str, ...] = SERIES) -> list[dict[str, object]]:
        """Every series at one setting, as flat objects."""
        found = self.measure(setting, series)
        return [
            {
                "x": x,
                "stream": setting.stream,
                "instances": setting.instances,
                "runs": self.count(setting),
                **found.row(name),
                "memory_bytes": made(name, setting, 0).memory_bytes,
            }
            for name in series
        ]

    def completion_curves(
        self, x: Sequence[float], settings: Sequence[StreamSetting], series: Sequence[str] = SERIES
    ) -> list[Curve]:
        """Mean completion time over the settings, and the worst run's of the series that the paper shows, and of ours."""
        found = [self.measure(setting) for setting in settings]
        return [
            Curve(name, x, [float(getattr(one.completion_ms[name], of)()) for one in found], worst=of == "max")
            for name in series
            for of in (("mean", "max") if name in {ROUND_ROBIN, NEAREST, EVENLY} else ("mean",))
        ]

    def gain_curves(
        self, x: Sequence[float], settings: Sequence[StreamSetting], series: Sequence[str] = SERIES[1:]
    ) -> list[Curve]:
        """Mean S_L over the settings, and the least run's of the paper's and of ours."""
        found = [self.measure(setting) for setting in settings]
        return [
            Curve(name, x, [float(getattr(one.speedup(name), of)()) for one in found], worst=of == "min")
            for name in series
            for of in (("mean", "min") if name in {NEAREST, EVENLY} else ("mean",))
        ]


def _measure(stage: Stage, setting: StreamSetting, series: tuple[str, ...], seed: int) -> F64:
    out = np.zeros((len(series), 4))
    late = 0
    for row, name in enumerate(series):
        outcome: Outcome = run(stage, made(name, setting, seed, late if name == LATE else 0))
        if name == "posg-c":
            late = outcome.left_round_robin or stage.keys.size
        out[row] = outcome.completion_ms_mean, outcome.completion_ms_p99, outcome.messages, outcome.left_round_robin
    return out


def mean_gain(found: Sequence[Measured], series: str) -> tuple[float, float]:
    """S_L averaged over settings that have the same runs, and its standard error."""
    every = np.mean([one.speedup(series) for one in found], axis=0)
    return float(every.mean()), float(every.std(ddof=1) / np.sqrt(every.size)) if every.size > 1 else 0.0


def gain_ratio(above: Measured, below: Measured, series: str) -> tuple[float, float]:
    """A mean S_L over another one of the same runs, and the standard error of this ratio (by its differential)."""
    top, bottom = above.speedup(series), below.speedup(series)
    ratio = float(top.mean() / bottom.mean())
    left = (top - ratio * bottom) / bottom.mean()
    return ratio, float(left.std(ddof=1) / np.sqrt(left.size)) if left.size > 1 else 0.0


class Held(TypedDict):
    """Whether a sentence holds, and whether two standard errors would have it the other way."""

    holds: bool
    unsure: bool


def all_above(found: Sequence[Measured], series: str, border: float = 1.0) -> Held:
    """Whether S_L is above a border in every setting, as `holds` and `unsure` of a sentence."""
    gains = np.array([one.gain(series) for one in found])
    unsure = 2.0 * np.array([one.error(series) for one in found])
    surely, surely_not = bool((gains - unsure > border).all()), bool((gains + unsure < border).any())
    return Held(holds=bool((gains > border).all()), unsure=not (surely or surely_not) and bool(unsure.any()))


def others(found: Measured, series: Sequence[str] = SERIES[1:]) -> str:
    """All series beside each other, for a verdict's reason."""
    return ", ".join(f"{name} {found.gain(name):.2f}" for name in series)
