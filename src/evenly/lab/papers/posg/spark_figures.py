"""What the figures on Spark share: their drawing, and what is said of every one of them."""

from __future__ import annotations

from collections.abc import Sequence

from evenly.lab.papers.posg.spark_bench import SparkBench
from evenly.lab.papers.verdicts import Verdict
from evenly.report.figures import Curves, PaperFigure

EACH = "micro-batches a point"
FOOTNOTE = (
    "Measured on Spark on this machine. round-robin is Spark's repartition(k); evenly is evenly.apply_by_cost with the "
    "objective completion: rows of equal work to each instance, shortest first. All rows of a micro-batch arrive at once, "
    "when its job is submitted, and a row's completion time ends when its function does, so Spark's own work to start a job "
    "counts. Both ways have the same rows. Costs are waits (the papers' prototype was busy that long), so that few cores carry "
    "ten instances; the search for reach is done, and what it does not take of a time proportional to the edges it scanned is "
    "waited. S_L is round-robin's mean completion time over that of evenly. Dashed: the worst run. A value of the papers is "
    "reproduced if it is reached: the method is ours, not theirs."
)


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
    points = [point for k in instances for point in bench.points(application, k)]
    return PaperFigure(figure, title, panels, points, [verdict.row() for verdict in verdicts], columns=1)


def rows_run(bench: SparkBench, application: str) -> str:
    """Which rows were run, for a verdict's reason."""
    stream = bench.stream(application)
    return (
        f"{stream.stream}: micro-batches of {bench.batch_rows(application):,} rows (mean {stream.costs_ms.mean():.1f} ms), "
        f"costs learnt from the {bench.taught_rows(application):,} rows before them"
    )
