"""Where largest-backlog-first helps and where it does not: simulated links whose tasks and tuples differ.

python benchmarks/emission_rules.py [--runs 30] [--json]

Ten tasks share a link. `slowest task` is the mean delay of the task that waits longest, which is what a stage waits for.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.emission.policies.base import Emission
from evenly.emission.policies.first_come import FCFS
from evenly.emission.policies.largest_backlog import LBF
from evenly.emission.policies.skipping_round_robin import SkippingRoundRobin
from evenly.emission.policies.weighted_backlog import WeightedLBF
from evenly.kernels.types import F64, I64
from evenly.lab.simulation.emission import Arrivals, run

SLOTS, SLOT_MS = 20_000, 0.1
POLICIES: tuple[type[Emission], ...] = (LBF, WeightedLBF, SkippingRoundRobin, FCFS)
EQUAL, ONE_BUSY = np.ones(10), np.array([3.0, *[1.0] * 9])


@dataclass(frozen=True, eq=False)
class Case:
    """What each task sends relative to the others, the sizes of its tuples in slots, and how full the link is."""

    name: str
    shares: F64
    sizes: I64
    load: float

    def arrivals(self, seed: int) -> Arrivals:
        rng = np.random.default_rng(seed)
        rates = self.shares / self.shares.sum() * self.load / self.sizes.mean()
        counts = rng.poisson(rates, (SLOTS, rates.size))
        return Arrivals.counted(counts, sizes=rng.choice(self.sizes, counts.sum()), slot_ms=SLOT_MS)


CASES = (
    Case("equal tasks", EQUAL, np.ones(1, np.int64), 0.95),
    Case("one task sends 3 times as much", ONE_BUSY, np.ones(1, np.int64), 0.95),
    Case("that, and tuples of 1 to 32 slots", ONE_BUSY, np.arange(1, 33), 0.95),
    Case("one task sends 3 times as much, overload", ONE_BUSY, np.ones(1, np.int64), 1.2),
)


def measured(case: Case, runs: int) -> list[dict[str, object]]:
    """Every policy on the same arrivals, means over the runs."""
    found: dict[str, list[tuple[float, ...]]] = {policy.name: [] for policy in POLICIES}
    for seed in range(runs):
        arrivals = case.arrivals(seed)
        starts = arrivals.traffic.starts
        for policy in POLICIES:
            outcome = run(arrivals, policy())
            by_task = [outcome.delays_ms[first:last].mean() for first, last in pairwise(starts)]
            found[policy.name].append((outcome.max_backlog, outcome.delay_ms_mean, max(by_task), outcome.delay_ms_p99))
    names = ("max_backlog_mean", "delay_ms_mean", "delay_ms_slowest_task", "delay_ms_p99")
    return [
        {"stream": case.name, "emission": policy, **dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))}
        for policy, rows in found.items()
    ]


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    rows = [row for case in CASES for row in measured(case, options.runs)]
    if options.json:
        print_json("emission-rules", vars(options), rows)
        return
    table = Table("", "rule", "largest backlog", "mean delay ms", "slowest task ms", "p99 ms")
    for row in rows:
        values = [f"{float(str(value)):.1f}" for name, value in row.items() if name.endswith(("_mean", "_task", "_p99"))]
        table.add_row(str(row["stream"]) if row["emission"] == "lbf" else "", str(row["emission"]), *values)
    Console().print(table)


if __name__ == "__main__":
    main()
