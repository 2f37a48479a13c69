"""The runs behind the figures of the Hone paper: the same arrivals through every rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from evenly.emission.policies.base import Emission
from evenly.emission.policies.first_come import FCFS
from evenly.emission.policies.largest_backlog import LBF
from evenly.emission.policies.longest_waiting import LongestWaiting
from evenly.emission.policies.round_robin import RRB
from evenly.emission.policies.skipping_round_robin import SkippingRoundRobin
from evenly.kernels.types import F64
from evenly.lab.papers.publication import RunsBench
from evenly.lab.simulation.emission import SLOTS, Arrivals, Outcome, run
from evenly.report.figures import Curve
from evenly.sketches.hashing import derive

SAMPLED = tuple(range(1_000, SLOTS, 1_000))
"""The nine slots at which figure 7 looks."""


@dataclass(frozen=True)
class EmissionRule:
    """A policy, and whether it sees the tuples of the slot that it decides on."""

    make: Callable[[], Emission]
    count_arrivals: bool = True


RULES: dict[str, EmissionRule] = {
    "rrb": EmissionRule(RRB),
    "lbf": EmissionRule(LBF, count_arrivals=False),
    "lbf-a": EmissionRule(LBF),
    "skipping-rr": EmissionRule(SkippingRoundRobin),
    "fcfs": EmissionRule(FCFS),
    "longest-waiting": EmissionRule(LongestWaiting),
}
"""`lbf` is algorithm 1 to the letter: the largest backlog before this slot's arrivals. `lbf-a` counts them too."""


def reduction_pct(before: F64, after: F64) -> F64:
    """By how much `after` is below `before`, in %; not a number where both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(100.0 * (1.0 - after / before))


def mean_of_known(found: F64) -> float:
    """The mean of those that are numbers: 0/0 says nothing for either rule, and counts nowhere."""
    known = found[~np.isnan(found)]
    return float(known.mean()) if known.size else float("nan")


@dataclass(frozen=True)
class Link:
    """N queues that each receive so many tuples per second."""

    queues: int
    rate: int


@dataclass(frozen=True, eq=False)
class RuleMeasures:
    """One rule on one link, one value for each run; `jain` has a column for each sampled slot."""

    max_backlog: F64
    delay_ms: F64
    delay_ms_p99: F64
    delay_ms_max: F64
    backlogs: F64

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> RuleMeasures:
        return cls(
            *(
                np.array([getattr(outcome, name) for outcome in outcomes], np.float64)
                for name in ("max_backlog", "delay_ms_mean", "delay_ms_p99", "delay_ms_max", "backlogs")
            )
        )


@dataclass(eq=False)
class Bench(RunsBench):
    """Runs links and keeps their results. `progress` hears of every run that is done."""

    _done: dict[Link, dict[str, RuleMeasures]] = field(default_factory=dict)

    def measure(self, link: Link) -> dict[str, RuleMeasures]:
        """Every rule on a link, made now or before."""
        if link not in self._done:
            outcomes: dict[str, list[Outcome]] = {name: [] for name in RULES}
            for number in range(self.runs):
                seed = derive(self.seed, f"hone {link.queues} {link.rate} {number}", 2**63)
                arrivals = Arrivals.poisson(link.queues, link.rate, seed=seed)
                for name, rule in RULES.items():
                    outcomes[name].append(run(arrivals, rule.make(), count_arrivals=rule.count_arrivals, sampled=SAMPLED))
                self.advance()
            self._done[link] = {name: RuleMeasures.of(found) for name, found in outcomes.items()}
        return self._done[link]

    def means(self, links: Sequence[Link], rule: str, measure: str) -> F64:
        """The mean of a measure over the runs, for each of the links."""
        return np.array([getattr(self.measure(link)[rule], measure).mean() for link in links])

    def reductions_pct(self, links: Sequence[Link], measure: str, rule: str, baseline: str) -> F64:
        """By how much a measure is below that of the baseline in the same run, in %: the mean over the runs, for each link.

        Runs in which nothing waits under either rule (0/0) are left out.
        """
        return np.array([mean_of_known(self.every_reduction_pct(link, measure, rule, baseline)) for link in links])

    def every_reduction_pct(self, link: Link, measure: str, rule: str, baseline: str) -> F64:
        """By how much a measure is below that of the baseline in the same run, in %, for every run."""
        before, after = (getattr(self.measure(link)[name], measure) for name in (baseline, rule))
        return reduction_pct(before, after)

    def point(self, rule: str, x: float, link: Link) -> dict[str, object]:
        """One measured point of a figure as a flat object."""
        found = self.measure(link)[rule]
        fair = _jain_mean(found.backlogs)
        return {
            "series": rule,
            "x": x,
            "emission": rule,
            "queues": link.queues,
            "rate": link.rate,
            "runs": self.runs,
            "max_backlog_mean": float(found.max_backlog.mean()),
            "delay_ms_mean": float(found.delay_ms.mean()),
            "delay_ms_p99": float(found.delay_ms_p99.mean()),
            "delay_ms_max": float(found.delay_ms_max.mean()),
            "jain_mean": fair,
        }

    def curves(self, links: Sequence[Link], x: Sequence[float], measure: str) -> list[Curve]:
        """The mean of a measure by rule."""
        return [Curve(rule, x, self.means(links, rule, measure).tolist()) for rule in RULES]


def _jain_mean(backlogs: F64) -> float | None:
    """Over all runs and sampled slots in which something waits; None if nothing ever does."""
    rows = backlogs.reshape(-1, backlogs.shape[-1])
    some = rows[rows.sum(axis=1) > 0.0]
    return float((some.sum(axis=1) ** 2 / (some.shape[1] * (some**2).sum(axis=1))).mean()) if some.size else None
