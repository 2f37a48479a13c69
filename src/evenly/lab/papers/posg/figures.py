"""Figures 4 to 9 of the POSG paper: completion time and S_L over distribution, load, costs, instances and precision."""

from __future__ import annotations

import numpy as np

from evenly.kernels.types import F64
from evenly.lab.papers.posg.bench import EVENLY, LATE, NEAREST, READINGS, ROUND_ROBIN, Bench, Measured, StreamSetting, others
from evenly.lab.papers.posg.published import gains_panel
from evenly.lab.papers.posg.settings import Synthetic, matrix_columns
from evenly.lab.papers.verdicts import Verdict, number, sentence
from evenly.report.figures import Curves, PaperFigure

WITHIN_PCT = 5.0
"""How far from a published S_L a mean may be."""

ALPHAS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
LOADS = (95.0, 98.0, 100.0, 102.0, 105.0, 107.0, 109.0, 112.0, 115.0)
MOST_MS = (16.0, 32.0, 64.0, 128.0, 256.0)
VALUES = (2, 4, 8, 16, 32, 64)
INSTANCES = tuple(range(1, 11))
EPSILONS = (1.0, 0.5, 0.2, 0.1, 0.09, 0.05, 0.02, 0.01, 0.001)

BY_ALPHA = tuple(Synthetic(alpha=alpha) for alpha in ALPHAS)
BY_LOAD = tuple(Synthetic(provisioned_pct=load) for load in LOADS)
BY_MOST = tuple(Synthetic(most_ms=most) for most in MOST_MS)
BY_VALUES = tuple(Synthetic(values=values) for values in VALUES)
BY_INSTANCES = tuple(Synthetic(instances=k) for k in INSTANCES)
BY_EPSILON = tuple(Synthetic(columns=matrix_columns(epsilon)) for epsilon in EPSILONS)


def _points(bench: Bench, x: tuple[float, ...], settings: tuple[StreamSetting, ...]) -> list[dict[str, object]]:
    return [point for at, setting in zip(x, settings, strict=True) for point in bench.points(at, setting)]


def _gains(found: list[Measured], series: str) -> F64:
    return np.array([one.gain(series) for one in found])


def _figure(
    bench: Bench,
    name: str,
    title: str,
    x: tuple[float, ...],
    settings: tuple[StreamSetting, ...],
    verdicts: list[Verdict],
    *,
    x_label: str,
    log_x: bool = False,
) -> PaperFigure:
    """Both what the paper draws (L or S_L) and the other one."""
    panels = [
        Curves("Completion time", x_label, "mean completion time, ms", bench.completion_curves(x, settings), log_x=log_x),
        gains_panel(name, x_label, bench.gain_curves(x, settings), log_x=log_x),
    ]
    return PaperFigure(name, title, panels, _points(bench, x, settings), [verdict.row() for verdict in verdicts], columns=1)


def figure_4(bench: Bench) -> PaperFigure:
    """Completion time over the distribution of keys; 0 is the uniform one."""
    found = [bench.measure(setting) for setting in BY_ALPHA]
    by = dict(zip(ALPHAS, found, strict=True))
    gain, full = _gains(found, NEAREST), _gains(found, "full-knowledge")
    even = by[0.0], by[0.5]
    slight = float(np.mean([one.gain(NEAREST) for one in even]))
    apart = by[1.5].completion_ms[NEAREST].max() / by[1.5].completion_ms[ROUND_ROBIN].min()
    ideal = by[1.5].completion_ms["full-knowledge"].max() / by[1.5].completion_ms[ROUND_ROBIN].min()
    matches = by[2.5].completion_ms[NEAREST].mean() / by[2.5].completion_ms["full-knowledge"].mean()
    verdicts = [
        number(
            NEAREST,
            "uniform and zipf-0.5",
            published=1.06,
            measured=slight,
            within_pct=WITHIN_PCT,
            standard_error=max(one.error(NEAREST) for one in even),
            why=f"uniform: {others(even[0])}",
        ),
        number(
            NEAREST,
            "zipf-1.0",
            published=1.25,
            measured=by[1.0].gain(NEAREST),
            within_pct=WITHIN_PCT,
            standard_error=by[1.0].error(NEAREST),
            why=f"{others(by[1.0])}; the first 10,000 of 32,768 tuples go round-robin, and what queued up then is worked "
            f"off long after: even exact costs from that moment on ({LATE}) gain {by[1.0].gain(LATE):.2f} only",
        ),
        sentence(
            NEAREST,
            published="POSG always does better than round-robin",
            measured=f"mean S_L from {gain.min():.2f} to {gain.max():.2f}; reading A, the text, from "
            f"{_gains(found, 'posg-a').min():.2f}",
            holds=bool((gain > 1.0).all()),
            why="the mean S_L must be above 1 with every distribution",
        ),
        sentence(
            "full-knowledge",
            published="full knowledge always does better than POSG",
            measured=f"mean S_L from {full.min():.2f} to {full.max():.2f}",
            holds=bool((full > gain).all()),
            why="the mean S_L must be above that of POSG with every distribution",
        ),
        sentence(
            NEAREST,
            x="zipf-1.5",
            published="POSG's largest mean completion time is below round-robin's smallest",
            measured=f"{apart:.1f} times round-robin's smallest (full knowledge: {ideal:.1f} times)",
            holds=bool(apart < 1.0),
            why="over the runs, the largest L of POSG must be below the smallest of round-robin: streams differ so much in "
            "their costs that not even full knowledge does it",
        ),
        sentence(
            NEAREST,
            x="zipf-2.5",
            published="from zipf-2.5 on POSG matches full knowledge",
            measured=f"completion time {matches:.2f} times that of full knowledge, "
            f"{by[2.5].completion_ms[NEAREST].mean() / by[2.5].completion_ms[LATE].mean():.2f} times that of {LATE}",
            holds=bool(matches <= 1.0 + WITHIN_PCT / 100.0),
            why=f"{WITHIN_PCT:g} % are allowed: it matches full knowledge that warms up as long, so the paper's may have done",
        ),
    ]
    return _figure(bench, "4", "Completion time with different distributions of keys", ALPHAS, BY_ALPHA, verdicts, x_label="α")


def figure_5(bench: Bench) -> PaperFigure:
    """S_L over the percentage of over-provisioning."""
    found = [bench.measure(setting) for setting in BY_LOAD]
    by = dict(zip(LOADS, found, strict=True))
    sized = {load: by[load].gain(NEAREST) for load in LOADS if 100.0 <= load <= 109.0}
    least = min(sized, key=lambda load: sized[load])
    peak = max(LOADS, key=lambda load: by[load].gain(NEAREST))
    short = max(by[load].gain(NEAREST) for load in (95.0, 98.0))
    verdicts = [
        number(
            NEAREST,
            102.0,
            published=1.26,
            measured=by[102.0].gain(NEAREST),
            within_pct=WITHIN_PCT,
            standard_error=by[102.0].error(NEAREST),
            why=others(by[102.0]),
        ),
        sentence(
            NEAREST,
            published="the peak is at 102 %",
            measured=f"at {peak:g} %: {by[peak].gain(NEAREST):.2f}",
            holds=peak == 102.0,
            why="of the loads that are run",
        ),
        sentence(
            NEAREST,
            x="100 to 109 %",
            published="S_L is at least 1.15",
            measured=f"least {sized[least]:.2f}, at {least:g} %; {EVENLY}: {min(by[load].gain(EVENLY) for load in sized):.2f}",
            holds=sized[least] >= 1.15 - 2.0 * by[least].error(NEAREST),
            why="at each load that is run, two standard errors allowed",
        ),
        number(
            NEAREST,
            115.0,
            published=1.07,
            measured=by[115.0].gain(NEAREST),
            within_pct=WITHIN_PCT,
            standard_error=by[115.0].error(NEAREST),
            why=others(by[115.0]),
        ),
        sentence(
            NEAREST,
            x="95 to 98 %",
            published="an undersized system gains little",
            measured=f"at most {short:.2f}",
            holds=short < sized[least],
            why="less than at any load from 100 to 109 %",
        ),
    ]
    title = "S_L over the percentage of over-provisioning"
    return _figure(bench, "5", title, LOADS, BY_LOAD, verdicts, x_label="capacity, % of the work that arrives")


def figure_6(bench: Bench) -> PaperFigure:
    """Completion time over the largest cost."""
    found = [bench.measure(setting) for setting in BY_MOST]
    gains = _gains(found, NEAREST)
    completion = [float(one.completion_ms[NEAREST].mean()) for one in found]
    verdicts = [
        number(
            NEAREST,
            "mean over w_max",
            published=1.19,
            measured=float(gains.mean()),
            within_pct=WITHIN_PCT,
            standard_error=max(one.error(NEAREST) for one in found),
            why=f"at 64 ms: {others(found[MOST_MS.index(64.0)])}",
        ),
        sentence(
            NEAREST,
            published="completion time grows with w_max",
            measured=", ".join(f"{value:,.0f}" for value in completion) + " ms",
            holds=bool((np.diff(completion) > 0.0).all()),
            why="the mean at each w_max must be above that before",
        ),
        sentence(
            NEAREST,
            published="the gain only slightly improves with w_max",
            measured=f"from {gains[0]:.3f} to {gains[-1]:.3f}",
            holds=abs(float(gains[-1] - gains[0])) <= 0.1,
            why="a change of at most 0.1 is slight: what counts is how costs are spread around their mean, and that stays",
        ),
    ]
    title = "Completion time over the largest cost w_max"
    return _figure(bench, "6", title, MOST_MS, BY_MOST, verdicts, x_label="w_max, ms", log_x=True)


def figure_7(bench: Bench) -> PaperFigure:
    """Completion time over the number of different costs."""
    found = [bench.measure(setting) for setting in BY_VALUES]
    gains = _gains(found, NEAREST)
    mean = np.array([one.completion_ms[ROUND_ROBIN].mean() for one in found])
    spread = np.array([one.completion_ms[ROUND_ROBIN].std() for one in found])
    many = mean[VALUES.index(16) :]
    verdicts = [
        number(
            NEAREST,
            "mean over w_n",
            published=1.19,
            measured=float(gains.mean()),
            within_pct=WITHIN_PCT,
            standard_error=max(one.error(NEAREST) for one in found),
            why=f"at 64 values: {others(found[-1])}",
        ),
        sentence(
            ROUND_ROBIN,
            published="completion time and its variance fall as w_n grows",
            measured=f"from {mean[0]:,.0f} ± {spread[0]:,.0f} to {mean[-1]:,.0f} ± {spread[-1]:,.0f} ms",
            holds=bool((np.diff(mean[:4]) < 0.0).all() and spread[-1] < spread[0]),
            why="the mean must fall from each w_n to the next up to 16, and the deviation from 2 to 64",
        ),
        sentence(
            ROUND_ROBIN,
            published="from 16 values on little changes",
            measured=f"{many.min():,.0f} to {many.max():,.0f} ms",
            holds=bool(many.max() / many.min() <= 1.1),
            why="the means may differ by 10 %",
        ),
        sentence(
            NEAREST,
            published="the gain is mostly unaffected by w_n",
            measured=f"from {gains.min():.2f} to {gains.max():.2f}",
            holds=bool(gains.max() - gains.min() <= 0.1),
            why="the mean S_L may differ by 0.1",
        ),
    ]
    title = "Completion time over the number of different costs w_n"
    return _figure(bench, "7", title, tuple(map(float, VALUES)), BY_VALUES, verdicts, x_label="w_n", log_x=True)


def figure_8(bench: Bench) -> PaperFigure:
    """S_L over the number of instances."""
    found = [bench.measure(setting) for setting in BY_INSTANCES]
    by = dict(zip(INSTANCES, found, strict=True))
    gains = _gains(found, NEAREST)
    why = (
        "the warm-up is 2 N k tuples, 20,480 of 32,768 at k = 10, so more instances leave less to gain for any estimate "
        f"({LATE}: {by[2].gain(LATE):.2f} at k = 2, {by[5].gain(LATE):.2f} at 5, {by[10].gain(LATE):.2f} at 10); "
        f"{EVENLY}, which does not wait, {by[2].gain(EVENLY):.2f}, {by[5].gain(EVENLY):.2f}, {by[10].gain(EVENLY):.2f}"
    )
    verdicts = [
        number(NEAREST, 1, published=1.0, measured=by[1].gain(NEAREST), within_pct=0.001, why="no choice, nothing lost"),
        number(EVENLY, 1, published=1.0, measured=by[1].gain(EVENLY), within_pct=0.001, why="no choice, nothing lost"),
        number(
            NEAREST,
            "k = 2 to 3",
            published=1.04,
            measured=by[3].gain(NEAREST) / by[2].gain(NEAREST),
            within_pct=WITHIN_PCT,
            why=why,
        ),
        number(
            NEAREST,
            "k = 9 to 10",
            published=1.01,
            measured=by[10].gain(NEAREST) / by[9].gain(NEAREST),
            within_pct=WITHIN_PCT,
            why=why,
        ),
        sentence(
            NEAREST,
            published="more instances slightly increase S_L",
            measured=", ".join(f"{gain:.2f}" for gain in gains) + " (k = 1 to 10)",
            holds=bool((np.diff(gains[:4]) > 0.0).all() and gains[-1] >= gains[1]),
            why=why,
        ),
    ]
    title = "S_L over the number of instances"
    return _figure(bench, "8", title, tuple(map(float, INSTANCES)), BY_INSTANCES, verdicts, x_label="instances k")


def figure_9(bench: Bench) -> PaperFigure:
    """S_L over the precision, and so over the memory."""
    found = [bench.measure(setting) for setting in BY_EPSILON]
    by = dict(zip(EPSILONS, found, strict=True))
    tenfold = [by[fine].gain(NEAREST) / by[coarse].gain(NEAREST) for coarse, fine in ((1.0, 0.1), (0.1, 0.01))]
    fine = {epsilon: float(by[epsilon].speedup(NEAREST).min()) for epsilon in EPSILONS if epsilon <= 0.09}
    least = min(fine, key=lambda epsilon: fine[epsilon])
    verdicts = [
        number(
            NEAREST,
            "ten times finer",
            published=1.30,
            measured=float(np.mean(tenfold)),
            within_pct=WITHIN_PCT,
            why=f"S_L is {by[1.0].gain(NEAREST):.2f} at ε = 1, {by[0.1].gain(NEAREST):.2f} at 0.1, "
            f"{by[0.01].gain(NEAREST):.2f} at 0.01: exact costs after the same warm-up gain {by[0.05].gain(LATE):.2f}, so "
            "there is no room for two such steps",
        ),
        sentence(
            NEAREST,
            published="a smaller ε does better",
            measured=", ".join(f"{one.gain(NEAREST):.2f}" for one in found) + f" (ε = {', '.join(f'{e:g}' for e in EPSILONS)})",
            holds=by[1.0].gain(NEAREST) < by[0.1].gain(NEAREST) < by[0.01].gain(NEAREST),
            why="the mean S_L must grow from 1.0 to 0.1 and to 0.01",
        ),
        sentence(
            NEAREST,
            published="from ε = 0.09 on the smallest S_L of all streams is above 1",
            measured=f"smallest {fine[least]:.2f}, at ε = {least:g}; {EVENLY}: "
            f"{min(float(by[epsilon].speedup(EVENLY).min()) for epsilon in fine):.2f}",
            holds=fine[least] > 1.0,
            why=f"the smallest of {bench.runs} runs must be above 1; "
            f"of the readings' means at 0.05: {others(by[0.05], READINGS)}",
        ),
    ]
    title = "S_L over the precision ε (e / ε columns)"
    return _figure(bench, "9", title, EPSILONS, BY_EPSILON, verdicts, x_label="ε", log_x=True)
