"""What records cost, and what watching does: the same keyed streaming query with and without them, in alternating rounds.

    python benchmarks/facts.py [--rounds N] [--batches N] [--json]

Each round runs a counting query over the same files, one a batch, in one session: with records to a file and to Prometheus;
watched, by `query.watch()` with a reader in a process of its own; and with neither. Two measures of the same cost:

- *share*: the cpu time of exactly what is added, as a share of the cpu time of the whole job (the driver's Python, Spark's
  Java, its workers). Added are the threads that write records and serve the page, each by what the kernel counted for it, and
  the making of records, by the clock of the thread that makes them. It resolves far less than 1 %, and no other work on
  the machine changes it.
- *ratio*: cpu time and wall clock of the whole job, with over without, of each round; their median. It has all in it, and much
  noise: it resolves 1 % on an idle machine and with many rounds only.

Beside them: what making and encoding one record takes, at 16 to 10,000 instances, without Spark.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.facts.emitting import Teller
from evenly.facts.of_keys import keyed_batch
from evenly.facts.records import Fact
from evenly.keys.dkg import DKG, KeyCounts
from evenly.lab.trials.paired import paired_ratio

INSTANCES, ROWS = 8, 20_000
WAYS = ("neither", "records", "watched")
ADDED = ("evenly facts", "evenly watch")
"""How the threads are called that write records and serve the page."""
READER = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1] + "events") as events:
    print("reads", flush=True)
    for line in events:
        pass
"""


class Making:
    """The cpu time that threads of the job spend on making records and handing them over."""

    def __init__(self) -> None:
        self.seconds = 0.0
        told, making = Teller.tell, self

        def tell(teller: Teller, *args: Any, **options: Any) -> None:
            begun = time.thread_time()
            told(teller, *args, **options)
            making.seconds += time.thread_time() - begun

        Teller.tell = tell  # type: ignore[method-assign,assignment]


def threads_s() -> float:
    """The cpu time of the threads that are there because of records or a page."""
    found = (it for it in threading.enumerate() if it.name.startswith(ADDED))
    stats = (Path(f"/proc/self/task/{it.native_id}/schedstat") for it in found)
    return sum(int(it.read_text().split()[0]) for it in stats) / 1e9


def cpu_s() -> float:
    """Of this process and of all that it has started, Spark's Java among them."""
    own = psutil.Process()
    found = [own, *own.children(recursive=True)]
    return float(sum(sum(it.cpu_times()[:2]) for it in found if it.is_running()))


def counted(placed: DataFrame) -> DataStreamWriter:
    """A query whose state is by key."""
    return placed.groupBy("user", "slot").count().writeStream.format("noop").outputMode("update")


def run(spark: SparkSession, folder: Path, number: int, making: Making, way: str) -> dict[str, float]:
    """Cpu and wall-clock seconds of one run of the query over all files, and of them those that are added."""
    rows = spark.readStream.schema("user long").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    gc.collect()
    begun, cpu, made = time.perf_counter(), cpu_s(), making.seconds
    emitting = [evenly.emit_to(folder / "facts.jsonl"), evenly.emit_to(evenly.Prometheus())] if way == "records" else []
    query = evenly.stream_by_key(
        rows,
        counted,
        key="user",
        instances=INSTANCES,
        checkpoint=folder / f"checkpoint-{number}",
        mapping=DKG.automatic(INSTANCES, ids="xxhash64").mapping(columns=("user",)),
        trigger={"availableNow": True},
    )
    page, reader = None, None
    if way == "watched":
        page = query.watch()
        reader = subprocess.Popen([sys.executable, "-c", READER, page.url], stdout=subprocess.PIPE, text=True)
    query.awaitTermination()
    for it in emitting:
        it.flush()
    told = {"cpu_s": cpu_s(), "seconds": time.perf_counter() - begun, "added_s": threads_s() + making.seconds - made}
    if reader is not None and page is not None:
        told["cpu_s"] -= sum(psutil.Process(reader.pid).cpu_times()[:2])  # the reader is a browser, elsewhere
        reader.kill()
        reader.communicate()
        page.close()
    for it in emitting:
        if it.dropped:
            sys.exit(f"{it.dropped} records were left out")
        it.close()
    return told | {"cpu_s": told["cpu_s"] - cpu}


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
        Fact(time=1.0, run="a", kind="keyed", event="batch", batch=batch).fitted().to_json()
    return 1e6 * (time.process_time() - begun) / rounds


def main() -> None:
    """Run it."""
    parser = benchmark_parser(__doc__ or "")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--batches", type=int, default=20)
    given = parser.parse_args()
    spark = evenly.local_session("facts", slots=2, settings={"spark.sql.shuffle.partitions": str(INSTANCES)})
    spark.sparkContext.setLogLevel("ERROR")
    making = Making()
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at in range(given.batches):
            new = spark.range(at * ROWS, (at + 1) * ROWS, 1, 1).selectExpr("cast(pow(5000, rand(3)) as long) as user")
            new.write.mode("append").parquet(str(folder / "in"))
        for at, way in enumerate(WAYS):
            run(spark, folder, at, making, way)  # warm
        for number in range(given.rounds):
            for at in range(len(WAYS)):
                way = WAYS[(at + number) % len(WAYS)]
                found[way].append(run(spark, folder, len(WAYS) * (1 + number) + at, making, way))
                told = found[way][-1]
                print(
                    f"round {number + 1}, {way}: {told['cpu_s']:.2f} s cpu, {1e3 * told['added_s']:.1f} ms added",
                    file=sys.stderr,
                )
    spark.stop()
    results: list[dict[str, object]] = []
    for way in WAYS:
        middle = {name: statistics.median(one[name] for one in found[way]) for name in ("cpu_s", "seconds", "added_s")}
        share_pct = [100.0 * one["added_s"] / one["cpu_s"] for one in found[way]]
        line: dict[str, object] = {
            "series": way,
            **middle,
            "share_pct": statistics.median(share_pct),
            "share_pct_most": max(share_pct),
        }
        for name in ("cpu_s", "seconds"):
            if way != WAYS[0]:
                ratio = paired_ratio([one[name] for one in found[way]], [one[name] for one in found[WAYS[0]]])
                line |= {f"ratio_{name}": ratio.median, f"ratio_{name}_low": ratio.low, f"ratio_{name}_high": ratio.high}
        results.append(line)
    results += [{"series": "one record", "instances": it, "cpu_us": record_us(it)} for it in (16, 1_000, 10_000)]
    if given.json:
        print_json("facts", {"rounds": given.rounds, "batches": given.batches}, results)
    else:
        for one in results:
            print("  ".join(f"{name} {value:.3f}" if isinstance(value, float) else f"{value}" for name, value in one.items()))


if __name__ == "__main__":
    main()
