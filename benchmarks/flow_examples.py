"""Three dataflows end to end with Evenly's groupings, beside the same with Spark's defaults: whole queries in turn, in one run.

python benchmarks/flow_examples.py [FOLDER] [--rounds 5] [--batches 4] [--scale 1.0] [--slots 8] [--json]

- words: sentences, dealt out evenly and split; words by key to an operator that counts them, which takes 0.5 ms for each; sent
  to a collector through queues paced by LBF, in both ways.
- tweets: by cost to a service that takes 25, 5 or 1 ms; by key to an operator that updates a profile, 0.3 ms for each row;
  Parquet.
- reach: by cost to a search in the dependency graph of 0 to 70 ms; Parquet.

Spark's defaults are the same operators with `repartition(n)` in place of cost and `repartition(n, key)` in place of key. Rows
are recorded where FOLDER (or EVENLY_DATA) has them, else generated. Each file is a micro-batch, and one batch follows the
other, so rows/s are those at the peak. All rows of a batch arrive when it begins: the completion time of a row is from there
to when the last operator has done it (words: to when the collector has it). The first two batches of each query are not
counted: in them costs are not known yet. Operators wait, so 8 slots can share few cores.
"""

from __future__ import annotations

import os
import shutil
import socketserver
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json, print_table, say
from evenly.dataflow.builder import Stream
from evenly.kernels.types import F64
from evenly.lab.papers.applications.calls import LookUp
from evenly.lab.papers.applications.catalogue import StreamApplication, reach_application, tweet_application
from evenly.lab.papers.recorded_data import DATA_VARIABLE, find_recorded
from evenly.lab.trials.paired import paired_ratio
from evenly.spark.session import local_session
from evenly.streams import zipf

EVENLY, DEFAULTS = "evenly", "spark"
NOT_COUNTED = 2
WORD_MS, PROFILE_MS = 0.5, 0.3
SENTENCES, TWEETS, SEARCHES = 1_000, 4_000, 2_000
"""Rows of a batch."""
SENTENCES_FILE = "wiki_sent_1.parquet"


@dataclass(frozen=True)
class Counting:
    """Words of a batch with how often they came so far in it; each takes its time."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        time.sleep(batch.num_rows * WORD_MS * 1e-3)
        return batch


@dataclass(frozen=True)
class Enriching:
    """A tweet with what the service says."""

    def __call__(self, row: Any) -> tuple[int, str]:
        return row.entity, *LookUp()(row)


@dataclass(frozen=True)
class Profiling:
    """Profiles of entities, which must be on one instance each; done when all rows of a piece are."""

    def __call__(self, batch: pa.RecordBatch) -> pa.Table:
        time.sleep(batch.num_rows * PROFILE_MS * 1e-3)
        return pa.table({"entity": batch["entity"], "told": batch["told"], "done_s": [time.time()] * batch.num_rows})


@dataclass(frozen=True, eq=False)
class Searching:
    """A search, and when it was done."""

    search: Callable[[Any], tuple[Any, ...]]

    def __call__(self, row: Any) -> tuple[Any, ...]:
        return row.node, *self.search(row), time.time()


def split(row: Any) -> Iterator[tuple[str]]:
    """The words of a sentence."""
    for word in row.text.split():
        yield (word,)


class Collector(socketserver.ThreadingTCPServer):
    """Takes lines as `TcpLines` sends them, and keeps when those of each batch came."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Lines)
        self.came_s: dict[int, list[float]] = defaultdict(list)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Lines(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        count, came_s = 0, self.server.came_s  # type: ignore[attr-defined] # of the class above
        for count, line in enumerate(self.rfile, 1):
            came_s[int(line.split(b"\t", 2)[1])].append(time.time())
            if count % 100 == 0:
                self.wfile.write(b"%d\n" % count)
        self.wfile.write(b"%d\n" % count)


@dataclass(frozen=True, eq=False)
class Example:
    """Rows and what is behind them; `build` adds that to a stream, for one of the two ways."""

    name: str
    data: str
    table: pa.Table
    build: Callable[[Stream, str, int, str, int], None]
    sends: bool = False


def by_key(stream: Stream, way: str, column: str, instances: int) -> Stream:
    """To the instance of a key: by a mapping, or as Spark hashes."""
    if way == EVENLY:
        return stream.by_key(column, instances=instances)

    def hashed(rows: DataFrame) -> DataFrame:
        return rows.repartition(instances, column)

    return stream.frame(hashed, name=f"hash of {column}")


def by_cost(stream: Stream, way: str, column: str, instances: int) -> Stream:
    """By what rows cost, or in turn."""
    return stream.by_cost(column, instances=instances) if way == EVENLY else stream.shuffle(instances=instances)


def words(rows: int) -> Example:
    """Word count."""

    def build(stream: Stream, way: str, instances: int, _: str, port: int) -> None:
        apart = stream.shuffle(instances=instances).row(split, schema="word string")
        counted = by_key(apart, way, "word", instances).batch(Counting(), schema="word string", name="count")
        to = {"host": "127.0.0.1", "port": port, "link": f"examples-{port}", "policy": "lbf"}
        counted.sink("collector", format="tcp", options=to)

    path = find_recorded(SENTENCES_FILE)
    if path is not None:
        texts = next(pq.ParquetFile(path).iter_batches(rows, columns=["text"])).column(0).to_pylist()
    else:
        lengths = np.random.default_rng(0).integers(1, 33, rows)
        drawn = iter(zipf(1.0).draw(int(lengths.sum()), seed=0).tolist())
        texts = [" ".join(f"w{next(drawn)}" for _ in range(length)) for length in lengths]
    return Example("words", "generated" if path is None else path.stem, pa.table({"text": texts}), build, sends=True)


def tweets(rows: int) -> Example:
    """Tweets, enriched."""

    def build(stream: Stream, way: str, instances: int, path: str, _: int) -> None:
        dealt = by_cost(stream, way, "entity", instances)
        told = dealt.row(Enriching(), schema="entity long, told string", name="enrich")
        profiles = by_key(told, way, "entity", instances)
        done = profiles.batch(Profiling(), schema="entity long, told string, done_s double", name="profile")
        done.sink("kept", format="parquet", path=path)

    return _application("tweets", tweet_application(rows), build)


def reach(rows: int) -> Example:
    """Searches."""
    found = reach_application(rows)

    def build(stream: Stream, way: str, instances: int, path: str, _: int) -> None:
        dealt = by_cost(stream, way, "node", instances)
        done = dealt.row(Searching(found.function), schema=f"node long, {found.schema}, done_s double", name="reach")
        done.sink("kept", format="parquet", path=path)

    return _application("reach", found, build)


def _application(name: str, found: StreamApplication, build: Callable[[Stream, str, int, str, int], None]) -> Example:
    return Example(name, found.stream, found.table, build)


@dataclass(frozen=True)
class Measured:
    """Batches that count: their rows and seconds, and how long each row took."""

    rows: int
    seconds: float
    batch_s: tuple[float, ...]
    completion_s: F64

    @property
    def rate(self) -> float:
        """Rows/s that entered."""
        return self.rows / self.seconds


def written(example: Example, folder: Path, batches: int) -> str:
    """The rows of an example as files, one for a batch."""
    each = len(example.table) // batches
    path = folder / example.name
    path.mkdir()
    for number in range(batches):
        pq.write_table(example.table.slice(number * each, each), path / f"{number:03}.parquet")
        os.utime(path / f"{number:03}.parquet", (number + 1, number + 1))  # Spark reads the oldest first
    return str(path)


def measured(spark: SparkSession, example: Example, way: str, rows: str, folder: Path, instances: int) -> Measured:
    """One query over all batches."""
    with Collector() if example.sends else nullcontext() as collector:
        flow, kept = evenly.Flow(f"{example.name} {way}"), str(folder / "kept")
        schema = spark.read.parquet(rows).schema.simpleString()[len("struct<") : -1]
        fields = ", ".join(it.replace(":", " ", 1) for it in schema.split(","))
        source = flow.source("rows", format="parquet", path=rows, schema=fields, options={"maxFilesPerTrigger": 1})
        port = collector.server_address[1] if collector is not None else 0
        example.build(source, way, instances, kept, port)
        query = evenly.run(flow, spark=spark, checkpoint=folder / "checkpoint", trigger={"availableNow": True})
        if query is None:
            raise RuntimeError("a query was to be started")
        query.awaitTermination()
        progress = {one.batchId: one for one in query.recentProgress if one.numInputRows}
        if collector is not None:
            collector.shutdown()
            done_s = {number: np.array(came) for number, came in collector.came_s.items()}
        else:
            found = spark.read.parquet(kept).select("batch", "done_s").toArrow()
            batch, stamps = np.asarray(found["batch"]), np.asarray(found["done_s"])
            done_s = {number: stamps[batch == number] for number in np.unique(batch).tolist()}
    counted = [number for number in sorted(progress) if number >= NOT_COUNTED]
    begun_s = {number: datetime.fromisoformat(progress[number].timestamp).timestamp() for number in counted}
    batch_s = tuple(progress[number].durationMs["triggerExecution"] / 1e3 for number in counted)
    completion_s = np.concatenate([done_s[number] - begun_s[number] for number in counted])
    return Measured(sum(int(progress[number].numInputRows) for number in counted), sum(batch_s), batch_s, completion_s)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("folder", nargs="?", help=f"recorded streams; else those of {DATA_VARIABLE}, else generated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=4, help="of a query; the first two are not counted")
    parser.add_argument("--scale", type=float, default=1.0, help="of the rows in a batch")
    parser.add_argument("--slots", type=int, default=8)
    options = parser.parse_args()
    if options.batches <= NOT_COUNTED:
        parser.error(f"--batches must be above {NOT_COUNTED}: the first {NOT_COUNTED} are not counted")
    if options.folder:
        os.environ[DATA_VARIABLE] = options.folder
    each = [max(1, round(options.scale * rows)) * options.batches for rows in (SENTENCES, TWEETS, SEARCHES)]
    spark = local_session("examples, end to end", slots=options.slots)
    told, lines = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for example in (words(each[0]), tweets(each[1]), reach(each[2])):
            rows = written(example, Path(scratch), options.batches)
            found: dict[str, list[Measured]] = {EVENLY: [], DEFAULTS: []}
            for turn in range(options.rounds):
                for way in (EVENLY, DEFAULTS) if turn % 2 else (DEFAULTS, EVENLY):
                    folder = Path(scratch) / f"{example.name} {way} {turn}"
                    found[way].append(measured(spark, example, way, rows, folder, options.slots))
                    shutil.rmtree(folder)
            told += results(example, found)
            lines += [line(one) for one in told[-2:]]
            if not options.json:
                say(f"{example.name} of {example.data}: {told[-2]['ratio']:.2f} times the rows/s of {DEFAULTS}")
    if options.json:
        print_json("flow_examples", {"rounds": options.rounds, "batches": options.batches, "slots": options.slots}, told)
    else:
        print_table(("dataflow", "way", "rows/s", "ratio", "batch s", "mean s", "p99 s"), lines, left=(0, 1))
    spark.stop()


def results(example: Example, found: dict[str, list[Measured]]) -> list[dict[str, Any]]:
    """Both ways: medians over the rounds, and rows/s as a ratio to Spark's defaults, round by round."""
    ratio = paired_ratio([one.rate for one in found[EVENLY]], [one.rate for one in found[DEFAULTS]])
    return [
        {
            "dataflow": example.name,
            "stream": example.data,
            "series": way,
            "baseline": DEFAULTS,
            "rows_per_s": float(np.median([one.rate for one in runs])),
            "ratio": ratio.median if way == EVENLY else 1.0,
            "ratio_low": ratio.low if way == EVENLY else 1.0,
            "ratio_high": ratio.high if way == EVENLY else 1.0,
            "batch_s": float(np.median([seconds for one in runs for seconds in one.batch_s])),
            "completion_ms_mean": 1e3 * float(np.median([one.completion_s.mean() for one in runs])),
            "completion_ms_p99": 1e3 * float(np.median([np.quantile(one.completion_s, 0.99) for one in runs])),
        }
        for way, runs in found.items()
    ]


def line(one: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table."""
    sure = f" ({one['ratio_low']:.2f} to {one['ratio_high']:.2f})" if one["series"] == EVENLY else ""
    return (
        str(one["dataflow"]),
        str(one["series"]),
        f"{one['rows_per_s']:,.0f}",
        f"{one['ratio']:.2f}{sure}",
        f"{one['batch_s']:.2f}",
        f"{one['completion_ms_mean'] / 1e3:.2f}",
        f"{one['completion_ms_p99'] / 1e3:.2f}",
    )


if __name__ == "__main__":
    main()
