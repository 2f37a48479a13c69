"""Figures 10 and 11 of the POSG paper: instances that change their speed, tuple by tuple."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenly.kernels.types import F64, I64
from evenly.lab.papers.posg.bench import EVENLY, READINGS, ROUND_ROBIN, Bench, made
from evenly.lab.papers.posg.published import MOMENTS
from evenly.lab.papers.posg.settings import SHIFT, SHIFTING_TUPLES, Shifting
from evenly.lab.papers.verdicts import Verdict, number
from evenly.lab.simulation.queueing import Stage, run
from evenly.report.figures import Curve, Curves, PaperFigure

SHIFTING = Shifting()
SERIES = (ROUND_ROBIN, *READINGS, EVENLY, "least-work")
WINDOW = 2_000
"""The paper's points are means over as many tuples."""
WITHIN_PCT = 5.0


@dataclass(frozen=True, eq=False)
class ShiftMoments:
    """In every run: how many tuples had been read when round-robin was left, and when all new matrices had come."""

    left: F64
    renewed: F64


def moments(bench: Bench, reading: str) -> ShiftMoments:
    """The moments of one reading over all runs."""

    def both(stage: Stage, seed: int) -> tuple[int, int]:
        outcome = run(stage, made(reading, SHIFTING, seed))
        return outcome.left_round_robin, renewed_at(outcome.matrices, SHIFTING.instances, SHIFT)

    found = np.array(bench.each(SHIFTING, both), np.float64)
    return ShiftMoments(found[:, 0], found[:, 1])


def renewed_at(matrices: I64, instances: int, changed: int) -> int:
    """The tuples read when every instance has sent matrices after the change; 0 if one never does.

    `matrices` has (instance, tuples read) of all that came, in the order of coming.
    """
    first = {int(i): int(read) for i, read in matrices[::-1] if read > changed}
    return max(first.values()) if len(first) == instances else 0


def figure_10(bench: Bench) -> PaperFigure:
    """The simulated time series."""
    early = moments(bench, "posg-c")
    return _figure(bench, "10", "Completion time as the stream unfolds", "posg-c", early, left=10_690.0, renewed=84_912.0)


def figure_11(bench: Bench) -> PaperFigure:
    """The prototype's time series, simulated."""
    late = moments(bench, "posg-a")
    title = "Completion time as the stream unfolds: the prototype's figures beside a simulation"
    return _figure(bench, "11", title, "posg-a", late, left=20_978.0, renewed=82_311.0)


def _figure(
    bench: Bench, name: str, title: str, reading: str, found: ShiftMoments, *, left: float, renewed: float
) -> PaperFigure:
    gains = bench.measure(SHIFTING, SERIES)
    said = ", ".join(f"{series} {gains.gain(series):.1f}" for series in SERIES[1:])
    compared = [
        _moment(reading, "leaves round-robin at", left, found.left, ""),
        _moment(reading, "has all new matrices at", renewed, found.renewed, f"S_L over the whole stream: {said}"),
    ]
    verdicts = [verdict.row() for verdict in compared]
    points = bench.points("whole stream", SHIFTING, SERIES)
    panel = Curves(
        "One stream: mean completion time over 2,000 tuples",
        "tuples read",
        "completion time, ms",
        _series(bench, (ROUND_ROBIN, reading, "posg-cp", EVENLY, "least-work")),
        log_y=True,
        marks=MOMENTS[name],
    )
    return PaperFigure(name, title, [panel], points, verdicts, columns=1)


def _moment(reading: str, x: str, published: float, runs: F64, more: str) -> Verdict:
    """A moment of one stream in the paper, beside the mean here and its range."""
    reached = runs[runs > 0.0]
    mean = float(reached.mean()) if reached.size else 0.0
    why = f"from {reached.min():,.0f} to {reached.max():,.0f} over the runs" if reached.size else "never in these runs"
    return number(
        reading,
        x,
        published=published,
        measured=mean,
        within_pct=WITHIN_PCT,
        why="; ".join(
            part for part in (why, f"not at all in {runs.size - reached.size} runs" * (reached.size < runs.size), more) if part
        ),
    )


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
