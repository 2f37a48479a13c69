"""A Python state for each of many keys of a stream: `stream_apply_by_key` beside Spark's own ways by the key, in one run.

python benchmarks/stream_state.py [--keys 10000 30000 100000] [--rows 2] [--rounds 2] [--batches 4] [--warm 20] [--json]

Each batch has so many keys, drawn from twice as many, and `--rows` rows of each. A state is a count and a sum. First come
batches of ten rows: what a batch costs whatever is in it (`empty_s`, `empty_cpu_s`). Of these every way takes `--warm` before
any counts, so that Java has compiled what all of them run. Then, for each number of keys and of rows, every way begins a
query; and in each round each of them goes on with its own for `--batches` batches after a small one that does not count, in
one order and in the next round in the other.

`batch_s` is the median time from a file's arrival until its batch is done, `rows_per_s` the rows of a batch over that, and
`ratio` the median over rounds of the time of `transformWithState` over that of the way, with the least and the greatest of any
round. `cpu_s` is the cpu time of a batch, of Java and all Pythons together, which other work on the machine changes less, and
`cpu_ratio` likewise. The state is what RocksDB holds after a last batch that makes it compact its files; its ratio is to the
same of that way.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import psutil
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from rich.console import Console
from rich.table import Table

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.spark.session import local_session

INSTANCES, SLOTS = 4, 2
SCHEMA, STATE = "user long, n long, total long", "n long, total long"
_STAGED, _EMPTY_KEYS = 4, 10
BASELINE, OURS = "transformWithState", "stream_apply_by_key"
_COMPACT = "spark.sql.streaming.stateStore.rocksdb.compactOnCommit"
_SETTINGS = {
    "spark.sql.shuffle.partitions": str(INSTANCES),
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


class ByRows(StatefulProcessor):
    """Counts and sums, by Spark with rows."""

    def init(self, handle: Any) -> None:
        self.kept = handle.getValueState("kept", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803 - Spark's
        n, total = self.kept.get() if self.kept.exists() else (0, 0)
        for row in rows:
            n, total = n + 1, total + row.amount
        self.kept.update((n, total))
        yield Row(user=key[0], n=n, total=total)

    def close(self) -> None:
        pass


class ByFrames(ByRows):
    """The same with pandas."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803 - Spark's
        n, total = self.kept.get() if self.kept.exists() else (0, 0)
        for frame in rows:
            n, total = n + len(frame), total + int(frame["amount"].sum())
        self.kept.update((n, total))
        yield pd.DataFrame({"user": [key[0]], "n": [n], "total": [total]})


def by_group_state(key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The same with `applyInPandasWithState`."""
    n, total = state.get if state.exists else (0, 0)
    for frame in frames:
        n, total = n + len(frame), total + int(frame["amount"].sum())
    state.update((n, total))
    yield pd.DataFrame({"user": [key[0]], "n": [n], "total": [total]})


def counted(key: tuple[int], rows: list[Row], state: Row | None) -> tuple[list[Any], tuple[int, int]]:
    """The same with us."""
    n, total = state or (0, 0)
    kept = n + len(rows), total + sum(row.amount for row in rows)
    return [(*key, *kept)], kept


def ways() -> dict[str, Callable[[DataFrame, str], Any]]:
    """How each way starts a query over rows, with a checkpoint."""

    def by_spark(results: Callable[[Any], DataFrame], mode: str = "append") -> Callable[[DataFrame, str], Any]:
        def start(rows: DataFrame, checkpoint: str) -> Any:
            writer = results(rows.groupBy("user")).writeStream.format("noop").outputMode(mode)
            return writer.option("checkpointLocation", checkpoint).start()

        return start

    def ours(rows: DataFrame, checkpoint: str) -> Any:
        return evenly.stream_apply_by_key(
            rows,
            counted,
            SCHEMA,
            key="user",
            state=STATE,
            instances=INSTANCES,
            checkpoint=checkpoint,
            write=lambda results: results.writeStream.format("noop"),
        )

    by_group = GroupStateTimeout.NoTimeout
    return {
        BASELINE: by_spark(lambda by: by.transformWithState(ByRows(), SCHEMA, "Append", "None")),
        "transformWithStateInPandas": by_spark(lambda by: by.transformWithStateInPandas(ByFrames(), SCHEMA, "Append", "None")),
        "applyInPandasWithState": by_spark(
            lambda by: by.applyInPandasWithState(by_group_state, SCHEMA, STATE, "append", by_group)
        ),
        OURS: ours,
    }


def make_rows(spark: SparkSession, folder: Path, keys: int, rows: int, batches: int) -> None:
    """A file for each batch, and a small one more."""
    for batch in range(batches + 1):
        user = F.pmod(F.col("id") * 2 + F.xxhash64(F.col("id"), F.lit(batch)) % 2, F.lit(2 * keys))
        many = spark.range(0, keys if batch < batches else min(keys, 10), 1, 1).select(user.alias("user"))
        many = many.crossJoin(spark.range(rows).select(F.col("id").alias("amount"))).coalesce(1)
        many.write.parquet(str(folder / f"{batch:03d}"))


class Pipeline:
    """One way over files that arrive one by one, each as a batch, in a query that may stop and go on."""

    def __init__(self, spark: SparkSession, folder: Path, name: str) -> None:
        self._place, self._staged, self._start, self._arrived = folder / name, folder / "staged", ways()[name], 0
        (self._place / "in").mkdir(parents=True)
        reader = spark.readStream.schema("user long, amount long").option("recursiveFileLookup", "true")
        self._stream = reader.option("maxFilesPerTrigger", 1).parquet(str(self._place / "in"))
        self._query: Any = None

    def go_on(self) -> None:
        self._query = self._start(self._stream, str(self._place / "checkpoint"))

    def stop(self) -> None:
        self._query.stop()

    def arrives(self, batch: int) -> None:
        shutil.copytree(self._staged / f"{batch:03d}", self._place / "arriving")
        (self._place / "arriving").rename(self._place / "in" / str(self._arrived))  # whole, or not there
        self._arrived += 1

    def take(self, batch: int) -> float:
        """Seconds until it is done."""
        begun = time.perf_counter()
        self.arrives(batch)
        self._query.processAllAvailable()
        return time.perf_counter() - begun

    def round(self, batches: int) -> tuple[list[float], float]:
        """Seconds of each batch, and cpu seconds of one, after one that does not count."""
        self.go_on()
        try:
            self.take(_STAGED)  # a small one
            cpu = cpu_s()
            took = [self.take(batch % _STAGED) for batch in range(batches)]
            return took, (cpu_s() - cpu) / batches
        finally:
            self.stop()

    def written_bytes(self) -> int:
        files = (path for path in (self._place / "checkpoint").rglob("*") if path.is_file() and "state" in path.parts)
        return sum(path.stat().st_size for path in files)

    def state_bytes(self, spark: SparkSession) -> int:
        """What the store holds when a last batch has made it compact its files."""
        spark.conf.set(_COMPACT, "true")
        try:
            self.go_on()
            self.take(_STAGED)
            return int(self._query.lastProgress["stateOperators"][0]["customMetrics"]["rocksdbSstFileSize"])
        finally:
            self.stop()
            spark.conf.unset(_COMPACT)


@contextmanager
def begun(spark: SparkSession, keys: int, rows: int, names: list[str], batches: int) -> Iterator[dict[str, Pipeline]]:
    """Pipelines of all ways that have taken so many batches, with their states, and are stopped."""
    folder = Path(tempfile.mkdtemp(prefix="evenly-state-"))
    try:
        make_rows(spark, folder / "staged", keys, rows, _STAGED)
        pipelines = {name: Pipeline(spark, folder, name) for name in names}
        for pipeline in pipelines.values():
            pipeline.arrives(0)  # before the query starts, so that ours learns its mapping from it
            pipeline.go_on()
            for batch in range(1, batches):
                pipeline.take(batch % _STAGED)
            pipeline.stop()
        yield pipelines
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(spark: SparkSession, keys: int, rows: int, given: Any, before: int = _STAGED) -> list[dict[str, Any]]:
    """All ways in turn over the same files; each has taken so many `before` anything counts, so that its states are there."""
    with begun(spark, keys, rows, given.ways, before) as pipelines:
        rounds: dict[str, list[tuple[list[float], float]]] = {name: [] for name in given.ways}
        for turn in range(given.rounds):
            for name in given.ways if turn % 2 == 0 else reversed(given.ways):
                rounds[name].append(pipelines[name].round(given.batches))
        return [_told(spark, keys, rows, name, pipelines[name], rounds) for name in given.ways]


def _told(spark: SparkSession, keys: int, rows: int, name: str, pipeline: Pipeline, rounds: dict[str, Any]) -> dict[str, Any]:
    walls = [median(took) for took, _ in rounds[name]]
    base = rounds[BASELINE if BASELINE in rounds else name]
    ratios = [median(took) / wall for (took, _), wall in zip(base, walls, strict=True)]
    batch_s = median([one for took, _ in rounds[name] for one in took])
    return {
        "operator": name,
        "keys": keys,
        "rows": rows,
        "rows_per_s": rows * keys / batch_s,
        "batch_s": batch_s,
        "ratio": median(ratios),
        "least_ratio": min(ratios),
        "greatest_ratio": max(ratios),
        "cpu_s": median([cpu for _, cpu in rounds[name]]),
        "cpu_ratio": median([of_base / cpu for (_, of_base), (_, cpu) in zip(base, rounds[name], strict=True)]),
        "written_bytes": pipeline.written_bytes(),
        "state_bytes": pipeline.state_bytes(spark),
    }


def with_empty(results: list[dict[str, Any]], empty: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What an empty batch costs beside each, and sizes of states as ratios."""
    of_empty = {it["operator"]: it for it in empty}
    for result in results:
        alike = [it for it in results if (it["keys"], it["rows"]) == (result["keys"], result["rows"])]
        base = next((it for it in alike if it["operator"] == BASELINE), alike[0])
        nothing = of_empty[result["operator"]]
        result["state_ratio"] = result["state_bytes"] / base["state_bytes"]
        result["empty_s"], result["empty_cpu_s"] = nothing["batch_s"], nothing["cpu_s"]
    return results


def cpu_s() -> float:
    """Of this process and of all that it has started; of workers that have ended what their parents know of them."""
    own = psutil.Process()
    found = [own, *own.children(recursive=True)]
    return float(sum(sum(it.cpu_times()[:4]) for it in found if it.is_running()))


def show(results: list[dict[str, Any]]) -> None:
    headings = (
        "keys",
        "rows each",
        "way",
        "rows/s",
        "ratio",
        "batch, s",
        "empty",
        "cpu, s",
        "empty",
        "ratio",
        "state, kB",
        "ratio",
    )
    table = Table(*headings, "written, kB")
    for it in results:
        ratio = f"{it['ratio']:.1f} ({it['least_ratio']:.1f} to {it['greatest_ratio']:.1f})"
        seconds = (f"{it['batch_s']:.2f}", f"{it['empty_s']:.2f}", f"{it['cpu_s']:.2f}", f"{it['empty_cpu_s']:.2f}")
        sizes = (f"{it['state_bytes'] / 1e3:,.0f}", f"{it['state_ratio']:.2f}", f"{it['written_bytes'] / 1e3:,.0f}")
        speed = (f"{it['rows_per_s']:,.0f}", ratio)
        table.add_row(f"{it['keys']:,}", f"{it['rows']}", it["operator"], *speed, *seconds, f"{it['cpu_ratio']:.1f}", *sizes)
    Console().print(table)


def main() -> int:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 30_000, 100_000])
    parser.add_argument("--rows", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--ways", nargs="+", choices=list(ways()), default=list(ways()))
    given = parser.parse_args()
    spark = local_session("stream_state", slots=SLOTS, settings=_SETTINGS)
    empty = measure(spark, _EMPTY_KEYS, 1, given, before=max(_STAGED, given.warm))
    results = [row for keys in given.keys for rows in given.rows for row in measure(spark, keys, rows, given)]
    results = with_empty(results, empty)
    spark.stop()
    if given.json:
        print_json("stream_state", {"batches": given.batches, "rounds": given.rounds, "instances": INSTANCES}, results)
    else:
        show(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
