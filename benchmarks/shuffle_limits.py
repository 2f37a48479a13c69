"""Where the default shuffle grouping could lose: to round-robin, to itself without the latency, or in messages.

    python benchmarks/shuffle_limits.py [runs] [turns|latency|messages ...]

Every line is a mean over `runs` streams (40) of 32,768 tuples, beside its bar; with the standard error of the mean where
chance has a part. Printed as one Markdown table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from evenly.lab.papers.posg.recorded import Tweets
from evenly.lab.papers.posg.settings import KEYS, TUPLES, Synthetic, stream_of
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.rivals.shuffle.virtual_finish import VirtualFinish
from evenly.lab.simulation.queueing import Stage, constant_arrivals, gap_for, run

Row = tuple[str, str, str, bool]
LOADS = (80.0, 100.0, 115.0, 150.0)
MESSAGES_PER_1000 = 16


def of(keys: np.ndarray, costs: np.ndarray, k: int, provisioned_pct: float) -> Stage:
    arrivals_ms = constant_arrivals(keys.size, gap_for(costs, k, provisioned_pct=provisioned_pct))
    return Stage.of(keys, costs, arrivals_ms, instances=k)


def equal(seed: int, k: int, provisioned_pct: float) -> Stage:
    """All tuples cost 10 ms."""
    keys = stream_of(1.0).draw_ranks(TUPLES, np.random.default_rng(seed))
    return of(keys, np.full(TUPLES, 10.0), k, provisioned_pct)


def bursts(seed: int, length: int, provisioned_pct: float, *, fixed: bool = False) -> Stage:
    """Keys of 1 to 64 ms, each for `length` tuples one after the other, on average or always."""
    rng = np.random.default_rng(seed)
    count = 2 * TUPLES // length + 100
    keys = np.repeat(rng.integers(0, KEYS, count), length if fixed else rng.geometric(1.0 / length, count))[:TUPLES]
    return of(keys, rng.integers(1, 65, KEYS).astype(float)[keys], 5, provisioned_pct)


def bimodal(seed: int) -> Stage:
    """A tenth of the keys costs 100 ms, the others 1 ms."""
    keys = stream_of(1.0).draw_ranks(TUPLES, np.random.default_rng(seed))
    return of(keys, np.where(np.random.default_rng(seed).random(KEYS) < 0.1, 100.0, 1.0)[keys], 5, 100.0)


def turns(runs: int) -> Iterator[Row]:
    """Beside round-robin, where that is hard to beat."""
    cases: dict[str, Callable[[int], Stage]] = {}
    for k in (2, 5, 10):
        for load in (100.0, 101.0, 300.0):
            cases[f"equal costs, k = {k}, {load:g} %"] = lambda s, k=k, load=load: equal(s, k, load)  # type: ignore[misc]
    for load in (150.0, 300.0, 1000.0):
        cases[f"ample capacity, zipf-1.0, {load:g} %"] = lambda s, load=load: Synthetic(provisioned_pct=load).stage(s)  # type: ignore[misc]
    for length in (5, 20, 50, 200, 2000):
        for load in (100.0, 115.0, 150.0):
            cases[f"bursts of {length} on average, {load:g} %"] = lambda s, n=length, load=load: bursts(s, n, load)  # type: ignore[misc]
    for length in (5, 20, 200):
        cases[f"bursts of {length} always, k = 5, 100 %"] = lambda s, n=length: bursts(s, n, 100.0, fixed=True)  # type: ignore[misc]
    for name, make in cases.items():
        found = np.array([_against_turns(make(seed)) for seed in range(runs)])
        yield _row(f"S_L, {name}", found, 0.99)


def _against_turns(stage: Stage) -> float:
    k = stage.instances
    return run(stage, RoundRobin(k)).completion_ms_mean / run(stage, VirtualFinish(k)).completion_ms_mean


def latency(runs: int) -> Iterator[Row]:
    """S_L with `latency_ms` over S_L without, each a mean over the streams."""
    for k in (5, 10):
        for load in LOADS:
            for far in (10.0, 100.0, 400.0):
                ways = {"one": np.array([0.0] * (k - 1) + [far]), "graded": np.arange(k) / (k - 1) * far}
                for name, ways_ms in ways.items():
                    found = np.array([_with_latency(seed, k, load, ways_ms) for seed in range(runs)])
                    without, given = found.mean(axis=0)
                    error = float((found[:, 1] - found[:, 0]).std() / np.sqrt(runs) / without)
                    said = f"{without:.2f} to {given:.2f}, ratio {given / without:.3f} ± {error:.3f}"
                    yield f"latency, k = {k}, {load:g} %, {name} {far:g} ms", "≥ 0.99", said, given >= 0.99 * without


def _with_latency(seed: int, k: int, load: float, ways_ms: np.ndarray) -> tuple[float, float]:
    near = Synthetic(instances=k, provisioned_pct=load).stage(seed)
    stage = replace(near, work=near.work._replace(tuple_latency_ms=ways_ms))
    before = run(stage, RoundRobin(k)).completion_ms_mean
    first, second = (run(stage, one).completion_ms_mean for one in (VirtualFinish(k), VirtualFinish(k, latency_ms=ways_ms)))
    return before / first, before / second


def messages(runs: int) -> Iterator[Row]:
    """Messages per 1,000 tuples of a stream; instances may send so many of theirs."""
    cases: dict[str, tuple[int, Callable[[int], Stage]]] = {
        "zipf-1.0, 100 %": (runs, lambda s: Synthetic().stage(s)),
        "uniform, 100 %": (runs, lambda s: Synthetic(alpha=0.0).stage(s)),
        "bimodal, 100 %": (runs, bimodal),
        "k = 1": (1, lambda s: Synthetic(instances=1).stage(s)),
        **{f"500,000 tweets, k = {k}": (1, lambda s, k=k: Tweets(k).stage(s)) for k in (1, 5, 10)},  # type: ignore[misc]
    }
    for name, (count, make) in cases.items():
        stages = [make(seed) for seed in range(count)]
        sent = np.mean([run(stage, VirtualFinish(stage.instances)).messages for stage in stages])
        gained = np.mean([_against_turns(stage) for stage in stages])
        most = 0 if stages[0].instances == 1 else MESSAGES_PER_1000
        rate = sent * 1_000 / stages[0].keys.size
        yield f"messages, {name}", f"≤ {most} in 1,000", f"{sent:,.0f} ({rate:.1f}), S_L {gained:.2f}", bool(rate <= most)


def _row(name: str, found: np.ndarray, bar: float) -> Row:
    said = f"{found.mean():.3f} ± {found.std() / np.sqrt(found.size):.3f}"
    return name, f"≥ {bar:g}", said, bool(found.mean() >= bar)


PARTS = {"turns": turns, "latency": latency, "messages": messages}


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    print(f"| our default shuffle grouping; {runs} streams | wanted | measured | |\n|---|---|---|---|")
    for part in sys.argv[2:] or PARTS:
        for name, wanted, measured, holds in PARTS[part](runs):
            print(f"| {name} | {wanted} | {measured} | {'yes' if holds else '**no**'} |", flush=True)


if __name__ == "__main__":
    main()
