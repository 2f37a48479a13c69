"""Figures 10 and 11 of the POSG paper: instances that change their speed, tuple by tuple."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from evenly.kernels.types import F64, I64
from evenly.lab.papers.posg.bench import EVENLY, NEAREST, READINGS, ROUND_ROBIN, Bench, made
from evenly.lab.papers.posg.published import MOMENTS
from evenly.lab.papers.posg.settings import SHIFT, SHIFTING_TUPLES, Shifting
from evenly.lab.papers.verdicts import Verdict, number, sentence
from evenly.lab.simulation.queueing import Outcome, Stage, run
from evenly.report.figures import Curve, Curves, PaperFigure

SHIFTING = Shifting()
SERIES = (ROUND_ROBIN, *READINGS, EVENLY, "least-work")
WINDOW = 2_000
"""The paper's points are means over as many tuples."""
WITHIN_PCT = 5.0
"""How far a moment may be from the published one: half a window of N = 1,024 tuples on each of 5 instances, of 50,000."""
TIMES_PCT = 20.0
LIMIT_MS = 30_000.0
"""After so long Storm takes a tuple for lost, unless it is told otherwise; the paper does not say its limit."""
BEFORE = 10_000


@dataclass(frozen=True, eq=False)
class ShiftRuns:
    """What a reading did in every run.

    `left` and `renewed`: how many tuples had been read when round-robin was left, and when all new matrices had come (0 if
    never). `same`: whether all tuples until then ended as with round-robin. `mean` and `deviation`: of completion times from
    there to the change, over those of round-robin. `before`, `during`, `after`: mean completion time in ms of the 10,000 tuples
    before the change, from the change to the new matrices, and of the last 10,000. `late` and `round_robin_late`: tuples that
    took more than 30 s.
    """

    left: F64
    renewed: F64
    same: F64
    mean: F64
    deviation: F64
    before: F64
    during: F64
    after: F64
    late: F64
    round_robin_late: F64


def shift_runs(bench: Bench) -> dict[str, ShiftRuns]:
    """Every reading in every run, made once."""
    if "shift" not in bench.kept:

        def each(stage: Stage, seed: int) -> list[tuple[float, ...]]:
            plain = run(stage, made(ROUND_ROBIN, SHIFTING, seed)).completion_ms
            return [_told(run(stage, made(reading, SHIFTING, seed)), plain) for reading in READINGS]

        found = np.array(bench.each(SHIFTING, each), np.float64)
        bench.kept["shift"] = {reading: ShiftRuns(*found[:, place].T) for place, reading in enumerate(READINGS)}
    return cast("dict[str, ShiftRuns]", bench.kept["shift"])


def _told(outcome: Outcome, plain: F64) -> tuple[float, ...]:
    ours, left = outcome.completion_ms, outcome.left_round_robin
    renewed = renewed_at(outcome.matrices, SHIFTING.instances, SHIFT)
    run_part = slice(left or SHIFT - 1, SHIFT)
    return (
        left,
        renewed,
        float(np.array_equal(ours[: left - 1], plain[: left - 1])) if left else 1.0,
        float(ours[run_part].mean() / plain[run_part].mean()),
        float(ours[run_part].std() / plain[run_part].std()) if left else 1.0,
        float(ours[SHIFT - BEFORE : SHIFT].mean()),
        float(ours[SHIFT : renewed or None].mean()),
        float(ours[-BEFORE:].mean()),
        float((ours > LIMIT_MS).sum()),
        float((plain > LIMIT_MS).sum()),
    )


def renewed_at(matrices: I64, instances: int, changed: int) -> int:
    """The tuples read when every instance has sent matrices after the change; 0 if one never does.

    `matrices` has (instance, tuples read) of all that came, in the order of coming.
    """
    first = {int(i): int(read) for i, read in matrices[::-1] if read > changed}
    return max(first.values()) if len(first) == instances else 0


def stated_10(bench: Bench, reading: str) -> list[Verdict]:
    """On the simulated time series."""
    found = shift_runs(bench)
    one = found[reading]
    same = float(one.same.mean())
    return [
        _moment(bench, reading, "leaves round-robin at", 10_690.0, "left"),
        sentence(
            reading,
            published="until then it has the same exact results as round-robin",
            measured=f"in {100.0 * same:.0f} % of the runs",
            holds=same == 1.0,
            why="the completion time of every tuple before",
        ),
        *_behaviour(reading, one),
        _moment(bench, reading, "has all new matrices at", 84_912.0, "renewed"),
    ]


def stated_11(bench: Bench, reading: str) -> list[Verdict]:
    """On the prototype's time series."""
    one = shift_runs(bench)[reading]
    lost = one.round_robin_late
    return [
        _moment(bench, reading, "leaves round-robin at", 20_978.0, "left"),
        *_behaviour(reading, one),
        _moment(bench, reading, "has all new matrices at", 82_311.0, "renewed"),
        number(
            ROUND_ROBIN,
            "tuples timed out",
            published=1_600.0,
            measured=float(lost.mean()),
            within_pct=TIMES_PCT,
            standard_error=_error(lost),
            why=f"those that take more than {LIMIT_MS / 1e3:g} s, Storm's own limit; the paper's is not said, and there "
            f"a tuple that timed out was not executed; {reading}: {one.late.mean():,.0f}",
        ),
    ]


def _behaviour(reading: str, one: ShiftRuns) -> list[Verdict]:
    mean, deviation = float(one.mean.mean()), float(one.deviation.mean())
    before, during, after = (float(values.mean()) for values in (one.before, one.during, one.after))
    left = bool((one.left > 0.0).any())
    return [
        sentence(
            reading,
            published="from there on completion time and its variance decrease",
            measured=f"mean {mean:.2f}, deviation {deviation:.2f} times round-robin's until the change",
            holds=left and mean < 0.95 and deviation < 0.95,
            why="means over the runs of both must be 5 % lower than round-robin's",
        ),
        sentence(
            reading,
            published="at 75,000 tuples it degrades, and recovers with the new matrices",
            measured=f"{before:,.0f} ms before, {during:,.0f} until the new matrices, {after:,.0f} at the end",
            holds=left and during > 1.05 * before and after < 0.95 * during,
            why="mean completion time: 5 % higher after the change than in the 10,000 tuples before, and in the last 10,000 "
            "5 % lower than that",
        ),
    ]


def _moment(bench: Bench, reading: str, x: str, published: float, moment: str) -> Verdict:
    """A moment of one stream in the paper, beside the mean here, its range, and the other readings."""
    runs: F64 = getattr(shift_runs(bench)[reading], moment)
    reached = runs[runs > 0.0]
    why = f"from {reached.min():,.0f} to {reached.max():,.0f} over the runs" if reached.size else "never in these runs"
    never = f"not at all in {runs.size - reached.size} runs" if reached.size < runs.size else ""
    beside = ", ".join(f"{name} {_mean(getattr(one, moment)):,.0f}" for name, one in shift_runs(bench).items())
    return number(
        reading,
        x,
        published=published,
        measured=_mean(runs),
        within_pct=WITHIN_PCT,
        standard_error=_error(reached),
        why="; ".join(part for part in (why, never, beside) if part),
    )


def _mean(runs: F64) -> float:
    reached = runs[runs > 0.0]
    return float(reached.mean()) if reached.size else 0.0


def _error(runs: F64) -> float:
    return float(runs.std(ddof=1) / np.sqrt(runs.size)) if runs.size > 1 else 0.0


def figure_10(bench: Bench) -> PaperFigure:
    """The simulated time series."""
    return _figure(bench, "10", "Completion time as the stream unfolds", stated_10(bench, NEAREST))


def figure_11(bench: Bench) -> PaperFigure:
    """The prototype's time series, simulated."""
    title = "Completion time as the stream unfolds: the prototype's figures beside a simulation"
    return _figure(bench, "11", title, stated_11(bench, NEAREST))


def _figure(bench: Bench, name: str, title: str, verdicts: list[Verdict]) -> PaperFigure:
    points = bench.points("whole stream", SHIFTING, SERIES)
    panel = Curves(
        "One stream: mean completion time over 2,000 tuples",
        "tuples read",
        "completion time, ms",
        _series(bench, (ROUND_ROBIN, "posg-a", NEAREST, EVENLY, "least-work")),
        log_y=True,
        marks=MOMENTS[name],
    )
    return PaperFigure(name, title, [panel], points, [verdict.row() for verdict in verdicts], columns=1)


def _series(bench: Bench, series: tuple[str, ...]) -> list[Curve]:
    """Windows of one stream, the first that the bench draws."""
    one = Bench(1, bench.seed, workers=1)
    ends = np.arange(WINDOW, SHIFTING_TUPLES + 1, WINDOW)

    def drawn(stage: Stage, seed: int) -> list[Curve]:
        curves = []
        for name in series:
            completion_ms = run(stage, made(name, SHIFTING, seed)).completion_ms
            curves.append(Curve(name, ends.tolist(), completion_ms.reshape(-1, WINDOW).mean(axis=1).tolist()))
        return curves

    return one.each(SHIFTING, drawn)[0]
