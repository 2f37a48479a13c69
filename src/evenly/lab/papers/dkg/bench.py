"""The runs behind a paper's figures: each sample is drawn once, whatever number of figures show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from evenly.kernels.types import F64
from evenly.lab.papers.publication import RunsBench
from evenly.lab.simulation.keys import Runs, Setting, Summary, memory_bytes, simulate
from evenly.report.figures import Curve
from evenly.streams.synthetic import KeyStream, uniform, zipf

PAPER_RUNS = 10_000


@dataclass(frozen=True)
class Sample:
    """A Zipf stream of the given alpha (0 is uniform), and the settings to put it through."""

    alpha: float
    settings: tuple[Setting, ...]

    @property
    def stream(self) -> KeyStream:
        return _zipf(self.alpha)


@cache
def _zipf(alpha: float) -> KeyStream:
    return zipf(alpha) if alpha else uniform()


@dataclass(eq=False)
class Bench(RunsBench):
    """Runs samples and keeps their results."""

    _done: dict[Sample, Runs] = field(default_factory=dict)

    def measure(self, sample: Sample) -> Runs:
        """The runs of a sample, made now or before."""
        if sample not in self._done:
            self._done[sample] = simulate(
                sample.stream, sample.settings, runs=self.runs, seed=self.seed, workers=self.workers, progress=self.progress
            )
        return self._done[sample]

    @property
    def worst_of(self) -> str:
        """The caveat of every worst case."""
        return f"the worst of {self.runs:,} runs here, of {PAPER_RUNS:,} in the paper, and it grows with their number"

    @property
    def fewer(self) -> bool:
        """Whether the paper made more runs: a worst case that is not bad enough yet is then undecided."""
        return self.runs < PAPER_RUNS

    def imbalance_pct(self, sample: Sample, setting: Setting) -> Summary:
        """λ of a setting over the runs."""
        return Summary.of(self.measure(sample).at(setting)[0])

    def sigma(self, sample: Sample, setting: Setting) -> Summary:
        """Sigma of a setting over the runs."""
        return Summary.of(self.measure(sample).at(setting)[1])

    def every_imbalance_pct(self, sample: Sample, settings: Iterable[Setting]) -> list[F64]:
        """λ in every run, for each of the settings."""
        return [self.measure(sample).at(setting)[0] for setting in settings]

    def point(self, series: str, x: float, sample: Sample, setting: Setting) -> dict[str, object]:
        """One measured point of a figure as a flat object."""
        imbalance, sigma = self.imbalance_pct(sample, setting), self.sigma(sample, setting)
        learner, mapping = _memory(setting, sample.alpha)
        return {
            "series": series,
            "x": x,
            "stream": sample.stream.name,
            "grouping": setting.name,
            "instances": setting.instances,
            "theta": setting.theta,
            "mu": setting.mu,
            "learnt": setting.learnt,
            "cost_power": setting.power,
            "runs": self.runs,
            **spread_row(imbalance, sigma),
            "memory_bytes": learner,
            "mapping_bytes": mapping,
        }

    def curves(
        self, name: str, x: Sequence[float], of: Callable[[Sample, Setting], Summary], points: Sequence[tuple[Sample, Setting]]
    ) -> list[Curve]:
        """Mean and worst of a measure (`self.imbalance_pct` or `self.sigma`) over the points."""
        found = [of(sample, setting) for sample, setting in points]
        return [Curve(name, x, [one.mean for one in found]), Curve(name, x, [one.worst for one in found], worst=True)]


@cache
def _memory(setting: Setting, alpha: float) -> tuple[int, int]:
    return memory_bytes(setting, _zipf(alpha))


def spread_row(imbalance_pct: Summary, sigma: Summary) -> dict[str, object]:
    """λ and sigma over the runs, as fields of a flat object."""
    return {
        "imbalance_pct_mean": imbalance_pct.mean,
        "imbalance_pct_worst": imbalance_pct.worst,
        "imbalance_pct_p999": imbalance_pct.p999,
        "sigma_mean": sigma.mean,
        "sigma_worst": sigma.worst,
        "sigma_p999": sigma.p999,
    }
