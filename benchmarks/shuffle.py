"""What shuffle grouping must show: readings of POSG beside an independent reproduction, and our default beside its bars.

    python benchmarks/shuffle.py [runs]

Every line is a mean over `runs` streams (100) of the POSG paper's setting, or a rate on one core in CPU time, so that other
work on the machine disturbs it little. Printed as one Markdown table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter, thread_time

import numpy as np

from evenly.lab.papers.osg import paper as osg
from evenly.lab.papers.posg import paper as posg
from evenly.lab.papers.posg.bench import EVENLY, LATE, READINGS, SERIES, Bench, Measured
from evenly.lab.papers.posg.figures import BY_ALPHA, BY_LOAD, BY_MOST, BY_VALUES
from evenly.lab.papers.posg.scaling import BY_EPSILON, BY_INSTANCES
from evenly.lab.papers.posg.settings import Synthetic
from evenly.lab.papers.posg.shift import SHIFTING, shift_runs
from evenly.lab.papers.posg.tables import taught
from evenly.lab.rivals.shuffle.posg import POSG
from evenly.lab.rivals.shuffle.virtual_finish import VirtualFinish
from evenly.lab.simulation.queueing import run

FOUND = ("posg-a", "posg-b", "posg-c", "posg-cp", LATE, "full-knowledge", "least-work")
REPRODUCTION: dict[Synthetic, tuple[float | None, ...]] = {
    Synthetic(alpha=0.0): (0.93, 1.00, 0.99, 1.10, 1.34, 2.47, 2.48),
    Synthetic(alpha=0.5): (0.94, 1.00, 0.99, 1.09, 1.34, 2.50, 2.51),
    Synthetic(alpha=1.0): (0.99, 1.04, 1.08, 1.17, 1.32, 2.42, 2.42),
    Synthetic(alpha=1.5): (1.01, 1.02, 1.20, 1.26, 1.29, 2.42, 2.42),
    Synthetic(alpha=2.0): (1.05, 1.08, 1.30, 1.31, 1.33, 2.47, 2.48),
    Synthetic(alpha=2.5): (1.19, 1.26, 1.28, 1.28, 1.29, 2.29, 2.30),
    Synthetic(alpha=3.0): (1.23, 1.31, 1.31, 1.32, 1.32, 2.25, 2.26),
    Synthetic(provisioned_pct=102.0): (0.84, 1.13, 1.18, 1.30, 2.00, 3.39, 3.43),
    Synthetic(provisioned_pct=105.0): (0.81, 1.12, 1.19, 1.23, 1.73, 2.52, 2.56),
    Synthetic(provisioned_pct=115.0): (0.84, 1.07, 1.12, 1.13, 1.35, 1.59, 1.62),
    Synthetic(instances=2): (1.02, 1.10, 1.09, 1.22, 1.38, 1.54, 1.54),
    Synthetic(instances=3): (1.00, 1.08, 1.11, 1.22, 1.45, 1.90, 1.90),
    Synthetic(instances=10): (1.00, 1.00, 1.04, 1.05, 1.06, 3.22, 3.22),
}
"""Mean S_L over 100 streams in an independent reproduction, for the series of `FOUND`."""

SETTINGS = {setting for part in (BY_ALPHA, BY_LOAD, BY_MOST, BY_VALUES, BY_INSTANCES, BY_EPSILON) for setting in part}
Row = tuple[str, str, str, bool | None]


def named(setting: Synthetic) -> str:
    """What differs from the default setting."""
    return f"{setting.stream}, {setting.provisioned_pct:g} %, k = {setting.instances}"


def reproduced(bench: Bench) -> list[Row]:
    """Readings, full knowledge and least work within 3 standard errors of the reproduction (two means differ: root 2)."""
    rows: list[Row] = []
    for setting, expected in REPRODUCTION.items():
        found = bench.measure(setting)
        measured, wanted, far = [], [], 0.0
        for series, value in zip(FOUND, expected, strict=True):
            if value is None:
                continue
            allowed = 3.0 * np.sqrt(2.0) * found.error(series) + 0.005  # the reproduction's means are rounded
            far = max(far, abs(found.gain(series) - value) / allowed)
            measured.append(f"{found.gain(series):.2f}")
            wanted.append(f"{value:.2f}")
        rows.append((f"A, B, C, Cp, late, FK, LWL: {named(setting)}", " ".join(wanted), " ".join(measured), far <= 1.0))
    early = shift_runs(bench)["posg-c"]
    for what, values, wanted_at in (
        ("leaves round-robin", early.left, 10_777.0),
        ("has all new matrices", early.renewed, 83_829.0),
    ):
        off = abs(values.mean() - wanted_at) / (3.0 * np.sqrt(2.0) * values.std(ddof=1) / np.sqrt(values.size))
        rows.append((f"figure 10, C {what}", f"{wanted_at:,.0f}", f"{values.mean():,.0f}", bool(off <= 1.0)))
    return rows


def bars(bench: Bench) -> list[Row]:
    """The default scheduler's."""
    zipf, tight, roomy = (Synthetic(provisioned_pct=load) for load in (100.0, 102.0, 105.0))
    late = replace(zipf, control_latency_ms=100.0)
    found = {setting: bench.measure(setting) for setting in (zipf, tight, roomy, Synthetic(alpha=0.0))}
    rows = [
        _at_least("evenly, zipf-1.0 at 100 %", found[zipf], 2.0),
        _at_least("evenly, zipf-1.0 at 102 %", found[tight], 2.2),
        _at_least("evenly, zipf-1.0 at 105 %", found[roomy], 1.7),
        _at_least("evenly, uniform at 100 %", found[Synthetic(alpha=0.0)], 1.9),
    ]
    messages = float(found[zipf].messages[EVENLY].mean())
    rows.append(("evenly, messages on 32,768 tuples, zipf-1.0", "≤ 300", f"{messages:.0f}", messages <= 300.0))
    delayed = bench.measure(late, ("round-robin", EVENLY)).gain(EVENLY) / found[zipf].gain(EVENLY)
    rows.append(("evenly, messages 100 ms late: S_L beside without", "≥ 0.95", f"{delayed:.3f}", delayed >= 0.95))
    least = min((bench.measure(setting).gain(EVENLY), setting) for setting in sorted(SETTINGS, key=repr))
    worst = min(float(bench.measure(setting).speedup(EVENLY).min()) for setting in SETTINGS)
    said = f"{least[0]:.3f} at {named(least[1])}"
    rows.append((f"evenly, least mean S_L of the paper's {len(SETTINGS)} settings", "≥ 1.0", said, least[0] >= 1.0 - 1e-9))
    rows.append(("evenly, least S_L of any one of their streams", "(told)", f"{worst:.3f}", None))
    alone = bench.measure(Synthetic(instances=1))
    spread = max(abs(float(alone.speedup(series).max()) - 1.0) for series in SERIES)
    rows.append(("k = 1: S_L of every series", "1", f"{1.0 + spread:.9g}", spread < 1e-12))
    rows.append(_at_least("evenly, k = 10", bench.measure(Synthetic(instances=10)), 1.0))
    changing = bench.measure(SHIFTING, ("round-robin", "posg-c", EVENLY, "least-work"))
    gains = changing.gain("posg-c"), changing.gain(EVENLY), changing.gain("least-work")
    rows.append(
        ("figure 10, S_L of C, evenly, LWL", "6.1, 18.8, 22.2", ", ".join(f"{g:.1f}" for g in gains), gains[1] > gains[0])
    )
    return rows


def _at_least(name: str, found: Measured, bar: float) -> Row:
    gain = found.gain(EVENLY)
    return name, f"≥ {bar:g}", f"{gain:.2f} ± {found.error(EVENLY):.2f}", gain >= bar


def rates() -> list[Row]:
    """Tuples a second on one core, the best of 20 tries in CPU time; k = 5, 4 x 54."""
    rows: list[Row] = []
    stage = Synthetic().stage(0)
    keys, costs = np.resize(stage.keys, 262_144), np.resize(stage.work.costs_ms[:, 0], 262_144)
    ends, tickets = np.cumsum(costs), np.tile([np.nan, 0.0, 0.0], (262_144, 1))
    for grouping in (POSG(5), VirtualFinish(5)):
        taught(grouping, stage)
        beside = grouping.instance(0)
        extra = (tickets,) if isinstance(grouping, VirtualFinish) else ()
        rows += [
            _rate(f"{grouping.name}, decisions", 10e6, keys.size, lambda g=grouping: g.route(keys, 0.0)),  # type: ignore[misc]
            _rate(
                f"{grouping.name}, an instance's updates",
                20e6,
                keys.size,
                lambda b=beside, e=extra: b.execute(keys, costs, ends, *e),  # type: ignore[misc]
            ),
            _rate(
                f"{grouping.name}, whole simulation",
                5e6,
                stage.keys.size,
                lambda g=grouping: run(stage, g),  # type: ignore[misc]
            ),
        ]
    return rows


def _rate(name: str, bar: float, tuples: int, work: Callable[[], object]) -> Row:
    work()
    best = np.inf
    for _ in range(20):
        started = thread_time()
        work()
        best = min(best, thread_time() - started)
    return name, f"≥ {bar / 1e6:g} M/s", f"{tuples / best / 1e6:.1f} M/s", tuples / best >= bar


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    measured_rates = rates()
    started = perf_counter()
    bench = Bench(runs)
    for name in posg.PAPER.figures:
        posg.PAPER.figures[name].make(bench)
    for name in osg.PAPER.figures:
        osg.PAPER.figures[name].make(bench)
    seconds = perf_counter() - started
    rows = reproduced(bench) + bars(bench) + measured_rates
    rows.append((f"all figures of both papers, {runs} streams, this machine", "≤ 600 s", f"{seconds:.0f} s", seconds <= 600.0))
    print(f"| {len(READINGS)} readings, our default and bounds; {runs} streams | wanted | measured | |\n|---|---|---|---|")
    for name, wanted, measured, holds in rows:
        print(f"| {name} | {wanted} | {measured} | {'' if holds is None else 'yes' if holds else '**no**'} |")


if __name__ == "__main__":
    main()
