"""What records cost: the same keyed streaming query with and without them, in alternating rounds.

    python benchmarks/facts.py [--rounds N] [--batches N] [--json]

Each round runs a counting query over the same files, one a batch, in one session: with records to a file and to Prometheus, or
to nowhere. Compared is the cpu time of the driver's Python and of Spark's Java together, which other work on the machine
does not change; the wall clock is told beside it. Beside them: what making and encoding one record takes, at 16 and at 10,000
instances, without Spark.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.facts.of_keys import keyed_batch
from evenly.facts.records import Fact
from evenly.keys.dkg import DKG, KeyCounts

INSTANCES, ROWS = 8, 20_000


def cpu_s() -> float:
    """Of this process and of all that it has started, Spark's Java among them."""
    own = psutil.Process()
    found = [own, *own.children(recursive=True)]
    return float(sum(sum(it.cpu_times()[:2]) for it in found if it.is_running()))


def counted(placed: DataFrame) -> DataStreamWriter:
    """A query whose state is by key."""
    return placed.groupBy("user", "slot").count().writeStream.format("noop").outputMode("update")


def run(spark: SparkSession, folder: Path, number: int, *, told: bool) -> tuple[float, float]:
    """Cpu and wall-clock seconds of one run of the query over all files."""
    rows = spark.readStream.schema("user long").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    emitting = [evenly.emit_to(folder / "facts.jsonl"), evenly.emit_to(evenly.Prometheus())] if told else []
    begun, cpu = time.perf_counter(), cpu_s()
    query = evenly.stream_by_key(
        rows,
        counted,
        key="user",
        instances=INSTANCES,
        checkpoint=folder / f"checkpoint-{number}",
        mapping=DKG.automatic(INSTANCES, ids="xxhash64").mapping(columns=("user",)),
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    for it in emitting:
        it.flush()
    found = cpu_s() - cpu, time.perf_counter() - begun
    for it in emitting:
        if it.dropped:
            sys.exit(f"{it.dropped} records were left out")
        it.close()
    return found


def record_us(instances: int, rounds: int = 200) -> float:
    """Microseconds of cpu to make one record of a batch and to encode it as a line."""
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 10_000, instances).astype(np.float64)
    ids = rng.integers(0, 2**63, 400).astype(np.uint64)
    counts = KeyCounts(np.zeros(1), ids, rng.random(400))
    mapping = DKG.automatic(instances, ids="xxhash64").mapping()
    keyed_batch(0, rows, seconds=1.0, counts=counts, mapping=mapping, label=str)
    begun = time.process_time()
    for number in range(rounds):
        batch = keyed_batch(number, rows, seconds=1.0, counts=counts, mapping=mapping, label=str)
        Fact(time=1.0, run="a", kind="keyed", event="batch", batch=batch).to_json()
    return 1e6 * (time.process_time() - begun) / rounds


def main() -> None:
    """Run it."""
    parser = benchmark_parser(__doc__ or "")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--batches", type=int, default=20)
    given = parser.parse_args()
    spark = evenly.local_session("facts", slots=2, settings={"spark.sql.shuffle.partitions": str(INSTANCES)})
    spark.sparkContext.setLogLevel("ERROR")
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at in range(given.batches):
            new = spark.range(at * ROWS, (at + 1) * ROWS, 1, 1).selectExpr("cast(pow(5000, rand(3)) as long) as user")
            new.write.mode("append").parquet(str(folder / "in"))
        run(spark, folder, 0, told=True)  # warm
        for number in range(given.rounds):
            for told in (False, True) if number % 2 else (True, False):
                found[told].append(run(spark, folder, 1 + 2 * number + told, told=told))
                print(
                    f"round {number + 1}, {'with' if told else 'without'} records: {found[told][-1][0]:.2f} s cpu",
                    file=sys.stderr,
                )
    spark.stop()
    ratios = [with_[0] / without[0] for with_, without in zip(found[True], found[False], strict=True)]
    results: list[dict[str, object]] = [
        {
            "series": series,
            "cpu_s": statistics.median(cpu for cpu, _ in found[told]),
            "seconds": statistics.median(wall for _, wall in found[told]),
        }
        for told, series in ((False, "without records"), (True, "with records"))
    ]
    results.append({"series": "ratio", "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)})
    results += [{"series": "one record", "instances": it, "cpu_us": record_us(it)} for it in (16, 10_000)]
    if given.json:
        print_json("bench facts", {"rounds": given.rounds, "batches": given.batches}, results)
    else:
        for one in results:
            print("  ".join(f"{name} {value:.3f}" if isinstance(value, float) else f"{value}" for name, value in one.items()))


if __name__ == "__main__":
    main()
