"""Figures 11 and 12 of the POSG paper, its prototype, on Spark: round-robin is `repartition(k)`."""

from __future__ import annotations

import numpy as np

from evenly.lab.papers.posg import paper
from evenly.lab.papers.posg.bench import EVENLY, ROUND_ROBIN, WITHIN_PCT
from evenly.lab.papers.posg.settings import MULTIPLIERS, SHIFT, SHIFTING_TUPLES
from evenly.lab.papers.posg.spark_bench import SERIES, SparkBench
from evenly.lab.papers.posg.spark_figures import EACH, FOOTNOTE, by_instances, rows_run
from evenly.lab.papers.publication import Experiment, Publication
from evenly.lab.papers.verdicts import Basis, at_least, sentence
from evenly.report.figures import Curve, Curves, PaperFigure

INSTANCES = tuple(range(1, 11))
LEFT, RECOVERS = 20_978, 82_311


def figure_12(bench: SparkBench) -> PaperFigure:
    """Tweets: completion time over the number of instances."""
    found = [bench.measure("tweets", k) for k in INSTANCES]
    gains = np.array([one.gain(EVENLY) for one in found])
    completion = np.array([one.completion_ms[EVENLY].mean() for one in found])
    why = rows_run(bench, "tweets")
    verdicts = [
        at_least(
            EVENLY,
            "mean over k = 2 to 10",
            published=1.37,
            measured=float(gains[1:].mean()),
            within_pct=WITHIN_PCT,
            neutral=1.0,
            why=why,
            basis=Basis.OURS,
        ),
        at_least(
            EVENLY,
            "k = 10",
            published=1.16,
            measured=float(gains[-1]),
            within_pct=WITHIN_PCT,
            neutral=1.0,
            why=why,
            basis=Basis.OURS,
        ),
        sentence(
            EVENLY,
            basis=Basis.OURS,
            published="for all k but 1 POSG takes less time than round-robin",
            measured=f"S_L from {gains[1:].min():.2f} to {gains[1:].max():.2f}",
            holds=bool((gains[1:] > 1.0).all()),
            why="S_L must be above 1",
        ),
        sentence(
            EVENLY,
            basis=Basis.OURS,
            published="more instances decrease the gap",
            measured=", ".join(f"{gain:.2f}" for gain in gains[1:]) + " (k = 2 to 10)",
            holds=bool(gains[-1] < gains[1]),
            why="S_L at k = 10 must be below that at k = 2",
        ),
        sentence(
            EVENLY,
            basis=Basis.OURS,
            published="POSG's completion time always decreases with k",
            measured=", ".join(f"{value:,.0f}" for value in completion) + " ms (k = 1 to 10)",
            holds=bool((np.diff(completion) < 0.0).all()),
            why="the mean at each k + 1 must be below that at k",
        ),
    ]
    title = "Tweets by the class of who they mention, on Spark: completion time over the number of instances"
    return by_instances(bench, "12", title, "tweets", INSTANCES, verdicts)


def figure_11(bench: SparkBench) -> PaperFigure:
    """Instances that change their speed in the middle of the stream."""
    found = bench.series(MULTIPLIERS, len(MULTIPLIERS[0]))
    rows, batches = bench.scale.shift_rows, bench.scale.shift_batches
    half = batches // 2
    mean = {way: np.array([batch.completion_ms_mean for batch in found[way]]) for way in SERIES}
    spread = {way: np.array([batch.ended_s.std() * 1e3 for batch in found[way]]) for way in SERIES}
    gains = mean[ROUND_ROBIN] / mean[EVENLY]
    share = rows * batches / SHIFTING_TUPLES
    stream = (
        f"{batches} micro-batches of {rows:,} tuples, costs {bench.scale.shift_scale:g} of the paper's, "
        f"the multipliers change after {half * rows:,}"
    )
    verdicts = [
        sentence(
            EVENLY,
            basis=Basis.OURS,
            published=f"diverges from round-robin at {LEFT:,} tuples",
            measured=f"scheduled from tuple {_left(gains) * rows:,} on" if _left(gains) < batches else "never",
            holds=_left(gains) * rows <= LEFT * share,
            why=f"the first micro-batch whose S_L is above 1, and not later than in the paper; {stream}",
        ),
        sentence(
            EVENLY,
            basis=Basis.OURS,
            published="decreases the completion time as well as its variance",
            measured=f"S_L {gains[1:].mean():.2f} after the first batch; standard deviation "
            f"{spread[EVENLY][1:].mean():,.0f} ms against {spread[ROUND_ROBIN][1:].mean():,.0f} ms",
            holds=bool(gains[1:].mean() > 1.0 and spread[EVENLY][1:].mean() < spread[ROUND_ROBIN][1:].mean()),
            why="means over the micro-batches after the first; rows that go first end sooner and those that go last not "
            "later, so with shortest first the spread need not fall",
        ),
        sentence(
            EVENLY,
            basis=Basis.OURS,
            published=f"degrades at {SHIFT:,} tuples, and recovers from {RECOVERS:,} on",
            measured=f"S_L {gains[half - 1]:.2f} before the change, {gains[half]:.2f} after, {gains[-1]:.2f} at the end",
            holds=bool(gains[-1] > 1.0 and gains[-1] >= 0.95 * gains[half - 1]),
            why="the last micro-batch must have 95 % of the S_L before the change",
        ),
    ]
    ends = [float((number + 1) * rows) for number in range(batches)]
    panels = [
        Curves(
            "Mean completion time of a micro-batch",
            "tuples read",
            "completion time, ms",
            [Curve(way, ends, mean[way].tolist()) for way in SERIES],
        ),
        Curves("Against round-robin", "tuples read", "S_L", [Curve(EVENLY, ends, gains.tolist())]),
    ]
    points: list[dict[str, object]] = [
        {
            "series": way,
            "x": ends[number],
            "stream": "zipf-1.0",
            "grouping": way,
            "instances": len(MULTIPLIERS[0]),
            "runs": 1,
            "completion_ms_mean": float(mean[way][number]),
            "completion_ms_p99": found[way][number].completion_ms_p99,
            "speedup_mean": float(mean[ROUND_ROBIN][number] / mean[way][number]),
        }
        for way in SERIES
        for number in range(batches)
    ]
    title = "Completion time as the stream unfolds, on Spark, with instances that change their speed"
    return PaperFigure("11", title, panels, points, [verdict.row() for verdict in verdicts], columns=1)


def _left(gains: np.ndarray) -> int:
    """The first batch that was better than round-robin; all of them if none was."""
    better = np.flatnonzero(gains > 1.0)
    return int(better[0]) if better.size else gains.size


PAPER = Publication[SparkBench](
    name="posg",
    title=paper.PAPER.title,
    citation=paper.PAPER.citation,
    each=EACH,
    footnote=FOOTNOTE,
    figures={
        "11": Experiment(figure_11, own=lambda bench: bench.scale.shift_batches),
        "12": Experiment(figure_12, own=lambda bench: 1 + len(INSTANCES) * bench.runs),
    },
    on_spark=True,
)
