"""What a dataflow costs beside the same operators written by hand: whole jobs in turn, in one run.

python benchmarks/dataflow.py [--rows 400000] [--rounds 7] [--json]

Three operators that do nothing to Arrow batches, as a dataflow and as three calls of `mapInArrow`; and three that do nothing to
rows, as a dataflow and as three calls of `mapInArrow` that each make rows of a batch and a batch of rows. All from the same
cached table to Spark's sink that writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json, say
from evenly.lab.trials.paired import paired_ratio
from evenly.spark.session import local_session

SCHEMA = "id long, v double, s string"
BAR = 1.10


def same_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as it is."""
    return batch


def same_row(row: tuple[object, ...]) -> tuple[object, ...]:
    """A row as it is."""
    return row


def by_hand_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a user would write for batches."""
    for batch in batches:
        yield same_batch(batch)


def by_hand_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a user would write for rows."""
    for batch in batches:
        rows = [same_row(tuple(row.values())) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], schema=batch.schema)


def seconds(job: Callable[[], None]) -> float:
    """How long a job takes."""
    begun = time.perf_counter()
    job()
    return time.perf_counter() - begun


def flow(rows: DataFrame, kind: str) -> Callable[[], None]:
    """Three operators that do nothing, as a dataflow."""
    made = evenly.Flow(kind)
    stream = made.source("rows", function=lambda _: rows)
    for at in range(3):
        stream = (
            stream.row(same_row, schema=SCHEMA, name=f"row {at}")
            if kind == "rows"
            else stream.batch(same_batch, schema=SCHEMA, name=f"batch {at}")
        )
    stream.sink("nowhere", format="noop", options={"mode": "overwrite"})

    def job() -> None:
        evenly.run(made, spark=rows.sparkSession)

    return job


def by_hand(rows: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> Callable[[], None]:
    """The same by hand."""

    def job() -> None:
        df = rows
        for _ in range(3):
            df = df.mapInArrow(function, SCHEMA)
        df.write.format("noop").mode("overwrite").save()

    return job


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    spark = local_session("what a dataflow costs", slots=2)
    rows = spark.range(options.rows).selectExpr("id", "id * 0.5D AS v", "concat('row ', id) AS s").cache()
    rows.count()

    told = []
    for kind, function in (("batches", by_hand_batches), ("rows", by_hand_rows)):
        ways = {"dataflow": flow(rows, kind), "by hand": by_hand(rows, function)}
        for job in ways.values():
            job()
        took = [{name: seconds(job) for name, job in ways.items()} for _ in range(options.rounds)]
        ratio = paired_ratio([one["dataflow"] for one in took], [one["by hand"] for one in took])
        least = {name: min(one[name] for one in took) for name in ways}
        told.append({"series": kind, "seconds": least["dataflow"], "baseline": "by hand", "ratio": ratio.median})
        if not options.json:
            say(
                f"{kind}: {least['dataflow']:.2f} s as a dataflow, {least['by hand']:.2f} s by hand; ratio {ratio.median:.2f} "
                f"({ratio.low:.2f} to {ratio.high:.2f}), at most {BAR:g}: {ratio.at_most(BAR)}"
            )
    if options.json:
        print_json("dataflow", {"rows": options.rows, "rounds": options.rounds}, told)
    spark.stop()


if __name__ == "__main__":
    main()
