"""What the figures on Spark share: their drawing, and what is said of every one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evenly.errors import InvalidParameter
from evenly.lab.papers.posg.spark_bench import SparkBench
from evenly.lab.papers.verdicts import Verdict
from evenly.report.figures import Curves, PaperFigure

FOOTNOTE = (
    "Measured on Spark on this machine. round-robin is Spark's repartition(k); evenly is evenly.apply_by_cost with the "
    "objective completion: rows of equal work to each instance, shortest first. All rows of a micro-batch arrive at once, "
    "when its job is submitted, and a row's completion time ends when its function does, so Spark's own work to start a job "
    "counts. Both ways have the same rows. Costs are waits (the papers' prototype was busy that long), so that few cores carry "
    "ten instances; the search for reach is done, and what it does not take of a time proportional to the edges it scanned is "
    "waited. S_L is round-robin's mean completion time over that of evenly. Dashed: the worst run. A value of the papers is "
    "reproduced if it is reached: the method is ours, not theirs."
)


@dataclass(frozen=True)
class Experiment:
    """A figure's function, and how many steps of progress it makes."""

    make: Callable[[SparkBench], PaperFigure]
    steps: Callable[[SparkBench], int]


def by_instances(
    bench: SparkBench, figure: str, title: str, application: str, instances: Sequence[int], verdicts: Sequence[Verdict]
) -> PaperFigure:
    """Completion time and S_L of an application over the number of instances."""
    panels = [
        Curves(
            bench.stream(application).stream,
            "instances k",
            "mean completion time, ms",
            bench.completion_curves(application, instances),
            log_y=True,
        ),
        Curves("Against round-robin", "instances k", "S_L", bench.gain_curves(application, instances)),
    ]
    points = [point for k in instances for point in bench.points(figure, application, k)]
    return PaperFigure(figure, title, panels, points, [verdict.row() for verdict in verdicts], columns=1)


def described(bench: SparkBench, application: str) -> str:
    """Which rows were run, for a verdict's reason."""
    stream = bench.stream(application)
    return (
        f"{stream.stream}: micro-batches of {bench.batch_rows(application):,} rows (mean {stream.costs_ms.mean():.1f} ms), "
        f"costs learnt from the {bench.taught_rows(application):,} rows before them"
    )


def chosen_of(known: Mapping[str, Experiment]) -> Callable[[Sequence[str]], list[str]]:
    """How the figures of a paper that run on Spark are chosen: those named, all if none is."""

    def chosen(figures: Sequence[str]) -> list[str]:
        unknown = sorted(set(figures) - known.keys())
        if unknown:
            raise InvalidParameter(f"there is no figure {unknown[0]!r} to run on Spark: choose from {', '.join(known)}")
        return [name for name in known if name in figures or not figures]

    return chosen


def work_of(known: Mapping[str, Experiment]) -> Callable[[Sequence[str], SparkBench], int]:
    """How many steps of progress the figures make."""

    def work(figures: Sequence[str], bench: SparkBench) -> int:
        return sum(known[name].steps(bench) for name in figures)

    return work
