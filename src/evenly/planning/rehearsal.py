"""A plan rehearsed: every tuple of the dataflow through the threads of its placement, before anything is deployed.

Each thread serves one tuple at a time, first come first served; a bundle of n threads that carries I tuples/s by its
model takes n/I seconds per tuple, more or less by chance. Tuples reach threads as they are routed. The cores of a machine
are a second place where work may pile up: every tuple brings its core-seconds. What the models do not know (caches,
disturbance below full cores) is not in here either: this checks the plan and the prediction, not the models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels import dataflow_runs as kernels
from evenly.kernels.types import F64, I64
from evenly.measures.slope import slope
from evenly.planning.mapping.base import ThreadPlacement
from evenly.planning.models import Models
from evenly.planning.prediction import Assumptions, Prediction, Share, Usage, predict, shares_of

WARM_UP = 1.0 / 3.0
"""The part of a run that is not looked at."""


@dataclass(frozen=True)
class Rehearsal:
    """One run at one rate. `slopes` has how fast completion times of the worst bundle of each operator grew, in s/s."""

    rate: float
    stable: bool
    slopes: dict[str, float]
    core_slopes: tuple[float, ...]
    completion_ms: F64
    slot_usage: tuple[Usage, ...]

    @property
    def completion_ms_mean(self) -> float:
        """Mean time from source to sink after warm-up; not a number if no tuple came so far."""
        return float(self.completion_ms.mean()) if self.completion_ms.size else math.nan

    @property
    def completion_ms_p99(self) -> float:
        """The time from source to sink that one tuple in a hundred exceeds; not a number if none came so far."""
        return float(np.quantile(self.completion_ms, 0.99)) if self.completion_ms.size else math.nan


@dataclass(frozen=True)
class RehearsalOptions:
    """How a plan is rehearsed.

    `seconds` of arrivals at constant gaps; execution times vary by `cv` (standard deviation over mean, 0 to 0.5); a run
    is stable while no completion time grows by more than `slope` seconds per second.
    """

    seconds: float = 120.0
    cv: float = 0.1
    slope: float = 0.015
    seed: int = 0
    most_tuples: int = 400_000

    def __post_init__(self) -> None:
        if not 1.0 <= self.seconds <= 1e5 or not 0.0 <= self.cv <= 0.5 or not self.slope > 0.0:
            raise InvalidParameter(f"a rehearsal needs 1 to 100000 seconds, a cv of 0 to 0.5 and a slope above 0, got {self}")


def rehearse(
    placement: ThreadPlacement,
    models: Models,
    rate: float,
    *,
    assumptions: Assumptions | None = None,
    options: RehearsalOptions | None = None,
) -> Rehearsal:
    """Run the placement with `rate` tuples/s at every source. The same seed gives the same run."""
    assumed, how = assumptions or Assumptions(), options or RehearsalOptions()
    flow, cluster = placement.allocation.dataflow, placement.cluster
    shares = shares_of(placement, models, assumed)
    rng = np.random.default_rng(how.seed)
    seconds = min(how.seconds, how.most_tuples / max(flow.rates(rate).values()))
    sent: dict[str, tuple[F64, F64]] = {}
    slopes: dict[str, float] = {}
    done: list[tuple[F64, F64]] = []
    bursts: list[list[tuple[F64, F64]]] = [[] for _ in cluster.machines]
    busy = np.zeros((2, cluster.slots))
    for name in flow.order:
        arrivals_s, born_s = _arrivals(placement, name, rate, seconds, sent)
        if arrivals_s.size == 0:
            sent[name] = (arrivals_s, born_s)
            continue
        run = _Run(shares[name], arrivals_s, rng, how.cv)
        slopes[name] = run.worst_slope(seconds)
        for machine, times_s, work_s in run.bursts(cluster.machine_of):
            bursts[machine].append((times_s, work_s))
        run.add_usage(busy, seconds)
        order = np.argsort(run.ends_s, kind="stable")
        sent[name] = (run.ends_s[order], born_s[order])
        if flow.by_name[name].kind == "sink":
            done.append((born_s, run.ends_s - born_s))
    cores = tuple(
        _core_slope(found, left, seconds) if assumed.contention != "none" else 0.0
        for found, left in zip(bursts, _cores(placement, shares), strict=True)
    )
    late_ms = np.concatenate([np.empty(0), *(1e3 * took[born >= WARM_UP * seconds] for born, took in done)])
    stable = max(slopes.values(), default=0.0) <= how.slope and max(cores, default=0.0) <= how.slope
    usage = tuple(Usage(float(cpu), float(memory)) for cpu, memory in busy.T)
    return Rehearsal(rate, stable, slopes, cores, late_ms, usage)


def observed_rate(
    placement: ThreadPlacement,
    models: Models,
    *,
    assumptions: Assumptions | None = None,
    options: RehearsalOptions | None = None,
    precision: float = 0.004,
) -> tuple[float, Prediction]:
    """The highest rate at which the placement runs stably, found by bisection, and what was predicted."""
    predicted = predict(placement, models, assumptions)
    low, high = 0.0, predicted.rate if math.isfinite(predicted.rate) else placement.allocation.rate
    for step in (1.03, 1.1, 1.5, 3.0, 10.0):
        if not rehearse(placement, models, step * high, assumptions=assumptions, options=options).stable:
            high *= step
            break
        low = step * high
    else:
        return low, predicted
    while high - low > precision * high:
        middle = max((low + high) / 2.0, 0.95 * high) if low == 0.0 else (low + high) / 2.0
        if rehearse(placement, models, middle, assumptions=assumptions, options=options).stable:
            low = middle
        else:
            high = middle
    return low, predicted


class _Run:
    """One operator's tuples through its threads."""

    def __init__(self, shares: tuple[Share, ...], arrivals_s: F64, rng: np.random.Generator, cv: float) -> None:
        self.shares = shares
        self.arrivals_s = arrivals_s
        threads: I64 = np.array([one.placed.threads for one in shares], np.int64)
        first: I64 = np.concatenate(([0], np.cumsum(threads)[:-1])).astype(np.int64)
        parts = np.array([one.part for one in shares])
        thread = kernels.threads_in_turn(parts, first, threads, arrivals_s.size)
        self.bundle = np.searchsorted(first, thread, side="right") - 1
        service_s = np.array([0.0 if math.isinf(one.can.rate) else one.placed.threads / one.can.rate for one in shares])
        half = cv * math.sqrt(3.0)
        took_s = service_s[self.bundle] * rng.uniform(1.0 - half, 1.0 + half, arrivals_s.size)
        self.starts_s, self.ends_s = kernels.served(arrivals_s, thread, took_s)
        by_bundle = np.argsort(self.bundle, kind="stable")
        ends = np.cumsum(np.bincount(self.bundle, minlength=len(shares)))
        self.mine = np.split(by_bundle, ends[:-1])

    def worst_slope(self, seconds: float) -> float:
        """How fast completion times grow on the worst bundle, after warm-up."""
        worst = 0.0
        for share, every in zip(self.shares, self.mine, strict=True):
            mine = every[self.arrivals_s[every] >= WARM_UP * seconds]
            if math.isinf(share.can.rate) or mine.size < 4 * share.placed.threads:
                continue
            worst = max(worst, slope(self.arrivals_s[mine], self.ends_s[mine] - self.arrivals_s[mine]))
        return worst

    def bursts(self, machine_of: tuple[int, ...]) -> list[tuple[int, F64, F64]]:
        """(machine, when, core-seconds) of the tuples, for each bundle."""
        found = []
        for share, mine in zip(self.shares, self.mine, strict=True):
            if not math.isinf(share.can.rate):
                times_s = self.starts_s[mine]
                work_s = np.full(times_s.size, share.can.cpu_pct / 100.0 / share.can.rate)
                found.append((machine_of[share.placed.slot], times_s, work_s))
        return found

    def add_usage(self, busy: F64, seconds: float) -> None:
        """Cpu and memory that the tuples executed within the run needed of each slot, in percent."""
        for share, mine in zip(self.shares, self.mine, strict=True):
            rate = float((self.ends_s[mine] <= seconds).sum()) / seconds
            busy[:, share.placed.slot] += share.can.at_rate(rate)


def _arrivals(
    placement: ThreadPlacement, name: str, rate: float, seconds: float, sent: dict[str, tuple[F64, F64]]
) -> tuple[F64, F64]:
    """When tuples reach an operator, in order, and when they were born at a source."""
    flow = placement.allocation.dataflow
    if not flow.into[name]:
        times_s = np.arange(max(1, round(rate * seconds))) / rate
        return times_s, times_s
    times, born = [], []
    for edge in flow.into[name]:
        left_s, born_s = sent[edge.start]
        part = flow.part(edge)
        emitted = np.floor((np.arange(left_s.size) + 1) * part + 1e-9) - np.floor(np.arange(left_s.size) * part + 1e-9)
        copies = emitted.astype(np.int64)
        times.append(np.repeat(left_s, copies))
        born.append(np.repeat(born_s, copies))
    times_s, born_s = np.concatenate(times), np.concatenate(born)
    order = np.argsort(times_s, kind="stable")
    return times_s[order], born_s[order]


def _cores(placement: ThreadPlacement, shares: dict[str, tuple[Share, ...]]) -> list[float]:
    """The cores of each machine, without what its sources and sinks always use."""
    left = [float(one.slots) for one in placement.cluster.machines]
    for share in (one for found in shares.values() for one in found if math.isinf(one.can.rate)):
        left[placement.cluster.machine_of[share.placed.slot]] -= share.can.cpu_pct / 100.0
    return [max(one, 1e-3) for one in left]


def _core_slope(found: list[tuple[F64, F64]], cores: float, seconds: float) -> float:
    """How fast the unfinished work of a machine grows, in seconds of all its cores per second."""
    if not found:
        return 0.0
    times_s, work_s = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(times_s, kind="stable")
    times_s = times_s[order]
    left_s = kernels.unfinished(times_s, work_s[order], cores) / cores
    counted = (times_s >= WARM_UP * seconds) & (times_s <= seconds)
    return slope(times_s[counted], left_s[counted]) if counted.sum() > 10 else 0.0
