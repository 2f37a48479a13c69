"""A stream and the instances that execute it, and what came of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import MAX_INSTANCES, checked_instances, checked_queues
from evenly.errors import EmptyStream, InvalidCost, InvalidParameter
from evenly.kernels import queueing as kernels
from evenly.kernels.types import F64, I32, I64, U64
from evenly.measures.completion import mean_completion_ms, p99_completion_ms
from evenly.sketches.hashing import WRITABLE, Keys, key_ids


def constant_arrivals(tuples: int, gap_ms: float) -> F64:
    """One tuple every `gap_ms`, the first at 0."""
    return np.arange(_checked_count(tuples), dtype=np.float64) * np.float64(_checked_gap(gap_ms))


def poisson_arrivals(tuples: int, gap_ms: float, *, seed: int) -> F64:
    """Tuples at random, `gap_ms` apart on average."""
    gaps_ms = np.random.default_rng(seed).exponential(_checked_gap(gap_ms), _checked_count(tuples))
    return np.asarray(np.cumsum(gaps_ms))


def gap_for(costs_ms: ArrayLike, instances: int, *, provisioned_pct: float = 100.0) -> float:
    """The gap between arrivals at which `instances` have just the capacity needed, times the over-provisioning.

    At 100 % all instances are busy all the time if the work is spread evenly; at 105 % there is 5 % to spare.
    """
    if not 0.0 < provisioned_pct < np.inf:
        raise InvalidParameter(f"provisioned_pct must be above 0 and finite, got {provisioned_pct}")
    return mean_completion_ms(costs_ms) / checked_instances(instances) * provisioned_pct / 100.0


@dataclass(frozen=True, eq=False)
class Stage:
    """A stream and the instances that execute it. Made by `Stage.of`, which checks everything."""

    keys: U64
    instances: int
    work: kernels.Workload
    sources: I32
    schedulers: int

    @classmethod
    def of(
        cls,
        keys: Keys,
        costs_ms: ArrayLike,
        arrivals_ms: ArrayLike,
        *,
        instances: int,
        multipliers: ArrayLike | None = None,
        period_starts: ArrayLike | None = None,
        tuple_latency_ms: ArrayLike = 0.0,
        control_latency_ms: ArrayLike = 0.0,
        sources: ArrayLike | None = None,
    ) -> Stage:
        """`costs_ms`: one per tuple, or tuples x instances. `arrivals_ms`: not descending; recorded, or made by
        `constant_arrivals` or `poisson_arrivals`. `multipliers`: one per instance, or periods x instances, where period p
        begins at tuple `period_starts[p]`, the first at 0. Latencies: one for all instances, or one each. `sources`: where
        the stream arrives in parts at several schedulers, the scheduler (0, 1, …) of each tuple.
        """
        ids = key_ids(keys)
        k = checked_instances(instances)
        if ids.size == 0:
            raise EmptyStream("a stage without tuples has no completion times: give at least one")
        factors = np.ones((1, k)) if multipliers is None else np.atleast_2d(_finite(multipliers, "multipliers"))
        starts = np.zeros(1, np.int64) if period_starts is None else np.array(period_starts, np.int64)
        if factors.shape != (starts.size, k):
            raise InvalidParameter(f"multipliers of shape {factors.shape} do not fit {starts.size} periods of {k} instances")
        if starts[0] != 0 or (np.diff(starts) <= 0).any():
            raise InvalidParameter(f"period_starts must ascend from 0, got {starts.tolist()}")
        costs = _finite(costs_ms, "costs_ms")
        costs = costs[:, None] if costs.ndim == 1 else costs
        if costs.shape not in ((ids.size, 1), (ids.size, k)):
            raise InvalidCost(f"{ids.size} tuples came with costs of shape {costs.shape}: one each, or one for each instance")
        arrivals = _finite(arrivals_ms, "arrivals_ms")
        if arrivals.shape != (ids.size,) or (np.diff(arrivals) < 0.0).any():
            raise InvalidParameter(f"arrivals_ms must be {ids.size} times, none before the one in front of it")
        latencies = [
            checked_queues(np.broadcast_to(np.asarray(value, np.float64), (k,)) if np.ndim(value) == 0 else value, k, name)
            for value, name in ((tuple_latency_ms, "tuple_latency_ms"), (control_latency_ms, "control_latency_ms"))
        ]
        work = kernels.Workload(
            arrivals, np.require(costs, requirements=WRITABLE), np.require(factors, requirements=WRITABLE), starts, *latencies
        )
        at = np.zeros(ids.size, np.int32) if sources is None else _checked_sources(sources, ids.size)
        return cls(ids, k, work, at, int(at.max()) + 1)


@dataclass(frozen=True, eq=False)
class Outcome:
    """One grouping on one stage: the instance and the completion time of every tuple, and what it said for it.

    `messages` are those of instances to the scheduler that had arrived before the last tuple. For POSG, `left_round_robin`
    and `first_run` are how many tuples had been read when it first left the one state and reached the other (0 if
    never), and `matrices` has (instance, tuples read) of all that came.
    """

    grouping: str
    assigned: I32
    completion_ms: F64
    messages: int = 0
    left_round_robin: int = 0
    first_run: int = 0
    matrices: I64 = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    @property
    def completion_ms_mean(self) -> float:
        return mean_completion_ms(self.completion_ms)

    @property
    def completion_ms_p99(self) -> float:
        return p99_completion_ms(self.completion_ms)


def _checked_sources(sources: ArrayLike, tuples: int) -> I32:
    at = np.asarray(sources)
    if at.shape != (tuples,) or at.dtype.kind not in "iu" or not 0 <= at.min() <= at.max() < MAX_INSTANCES:
        raise InvalidParameter(f"sources must be {tuples} whole numbers from 0 on, the scheduler of each tuple")
    return np.require(at, np.int32, WRITABLE)


def _finite(values: ArrayLike, name: str) -> F64:
    try:
        array: F64 = np.require(np.array(values, np.float64), requirements=WRITABLE)
    except (TypeError, ValueError) as error:
        raise InvalidCost(f"{name} must be numbers: {error}") from error
    bad = ~(np.isfinite(array) & (array >= 0.0))
    if bad.any():
        at = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise InvalidCost(f"{name}{[int(place) for place in at]} is {array[at]}: it must be finite and at least 0")
    return array


def _checked_count(tuples: int) -> int:
    if tuples < 1:
        raise InvalidParameter(f"tuples must be at least 1, got {tuples}")
    return tuples


def _checked_gap(gap_ms: float) -> float:
    if not 0.0 <= gap_ms < np.inf:
        raise InvalidParameter(f"gap_ms must be at least 0 and finite, got {gap_ms}")
    return gap_ms
