"""The settings of the POSG paper's simulations (section V-A), and of its figure 10."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from evenly.lab.simulation.queueing import Stage, constant_arrivals, gap_for
from evenly.sketches.hashing import derive
from evenly.streams.costs import spread_costs
from evenly.streams.synthetic import KeyStream, uniform, zipf

TUPLES, KEYS = 32_768, 4_096
SHIFTING_TUPLES, SHIFT = 150_000, 75_000
MULTIPLIERS = ((1.05, 1.025, 1.0, 0.975, 0.95), (0.90, 0.95, 1.0, 1.05, 1.10))


@cache
def stream_of(alpha: float) -> KeyStream:
    """Zipf over the paper's 4,096 keys; 0 is the uniform stream."""
    return zipf(alpha, KEYS) if alpha else uniform(KEYS)


def matrix_columns(epsilon: float) -> int:
    """Columns for a precision: e / epsilon, rounded down (54 at 0.05), and 1 at 1.0 as the paper says."""
    return 1 if epsilon >= 1.0 else int(math.e / epsilon)


@dataclass(frozen=True)
class Synthetic:
    """A stream of the default setting, but for what is said. `values` is the paper's w_n, `most_ms` its w_max.

    `control_latency_ms` is how long a message from an instance needs, `far_ms` how long a tuple needs to reach the last
    instance (0 for the others); `schedulers`, how many there are, each tuple arriving at one of them at random.
    """

    alpha: float = 1.0
    instances: int = 5
    provisioned_pct: float = 100.0
    values: int = 64
    most_ms: float = 64.0
    columns: int = 54
    control_latency_ms: float = 0.0
    far_ms: float = 0.0
    schedulers: int = 1
    most_runs: int = 10_000

    @property
    def stream(self) -> str:
        return stream_of(self.alpha).name

    @property
    def latency_ms(self) -> list[float]:
        """How long a tuple needs to reach each instance."""
        return [0.0] * (self.instances - 1) + [self.far_ms]

    def stage(self, seed: int) -> Stage:
        """Tuples, which keys cost what, and who gets which tuple depend on the seed."""
        rng = np.random.default_rng(seed)
        ranks = stream_of(self.alpha).draw_ranks(TUPLES, rng)
        costs = spread_costs(KEYS, values=self.values, most_ms=self.most_ms, seed=derive(seed, "costs", 2**63))[ranks]
        gap_ms = gap_for(costs, self.instances, provisioned_pct=self.provisioned_pct)
        return Stage.of(
            ranks,
            costs,
            constant_arrivals(TUPLES, gap_ms),
            instances=self.instances,
            tuple_latency_ms=self.latency_ms,
            control_latency_ms=self.control_latency_ms,
            sources=drawn_sources(TUPLES, self.schedulers, rng),
        )


def drawn_sources(tuples: int, schedulers: int, rng: np.random.Generator) -> np.ndarray | None:
    """The scheduler of each tuple, drawn at random; None where there is one. Each has a tuple at least."""
    if schedulers == 1:
        return None
    sources = rng.integers(0, schedulers, tuples)
    sources[:schedulers] = np.arange(schedulers)
    return sources


@dataclass(frozen=True)
class Shifting:
    """Figure 10: five instances that run at other speeds from tuple 75,000 on."""

    instances: int = 5
    columns: int = 54
    most_runs: int = 10_000

    @property
    def stream(self) -> str:
        return stream_of(1.0).name

    def stage(self, seed: int) -> Stage:
        """150,000 tuples."""
        ranks = stream_of(1.0).draw_ranks(SHIFTING_TUPLES, np.random.default_rng(seed))
        costs = spread_costs(KEYS, seed=derive(seed, "costs", 2**63))[ranks]
        arrivals_ms = constant_arrivals(SHIFTING_TUPLES, gap_for(costs, self.instances))
        return Stage.of(ranks, costs, arrivals_ms, instances=self.instances, multipliers=MULTIPLIERS, period_starts=[0, SHIFT])
