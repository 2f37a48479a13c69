"""A Python state for each of many keys of a stream: `stream_apply_by_key` beside Spark's own ways by the key, in one run.

python benchmarks/stream_state.py [--keys 10000 100000] [--rows 2] [--batches 3] [--json]

Each batch has so many keys, drawn from twice as many, and `--rows` rows of each. A state is a count and a sum. Rows/s are those
of the batches after the first, from a file's arrival until its batch is done; `ratio` is how many times those of
`transformWithState`. `cpu_s` is the cpu time of the same batches, of Java and all Pythons together, which other work on the
machine changes less; its ratio is how many times as much that way takes. The first file is there before a query starts, so
that ours learns its mapping from it. The state is what RocksDB holds after a last batch that makes it compact its files;
its ratio is to the same of that way.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
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
        many = spark.range(0, keys if batch < batches else 10, 1, 1).select(user.alias("user"))
        many = many.crossJoin(spark.range(rows).select(F.col("id").alias("amount"))).coalesce(1)
        many.write.parquet(str(folder / f"{batch:03d}"))


def measure(spark: SparkSession, keys: int, rows: int, batches: int, chosen: list[str]) -> list[dict[str, Any]]:
    """All ways in turn over the same files."""
    folder = Path(tempfile.mkdtemp(prefix="evenly-state-"))
    try:
        make_rows(spark, folder / "staged", keys, rows, batches)
        results = [{"operator": name, "keys": keys, **_measured(spark, folder, name, rows * keys, batches)} for name in chosen]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    base = next((it for it in results if it["operator"] == BASELINE), results[0])
    for result in results:
        result["ratio"] = result["rows_per_s"] / base["rows_per_s"]
        result["cpu_ratio"] = base["cpu_s"] / result["cpu_s"]
        result["state_ratio"] = result["state_bytes"] / base["state_bytes"]
    return results


def _measured(spark: SparkSession, folder: Path, name: str, rows: int, batches: int) -> dict[str, Any]:
    place, start = folder / name, ways()[name]
    (place / "in").mkdir(parents=True)

    def arrives(batch: int) -> None:
        shutil.copytree(folder / "staged" / f"{batch:03d}", place / "arriving")
        (place / "arriving").rename(place / "in" / str(batch))  # whole, or not there

    reader = spark.readStream.schema("user long, amount long").option("recursiveFileLookup", "true")
    stream = reader.option("maxFilesPerTrigger", 1).parquet(str(place / "in"))
    arrives(0)
    query = start(stream, str(place / "checkpoint"))
    query.processAllAvailable()
    cpu, begun = cpu_s(), time.perf_counter()
    for batch in range(1, batches):
        arrives(batch)
        query.processAllAvailable()
    took_s, cpu = time.perf_counter() - begun, cpu_s() - cpu
    query.stop()
    written = sum(path.stat().st_size for path in (place / "checkpoint").rglob("*") if path.is_file() and "state" in path.parts)
    spark.conf.set(_COMPACT, "true")
    try:
        query = start(stream, str(place / "checkpoint"))
        arrives(batches)
        query.processAllAvailable()
        state = query.lastProgress["stateOperators"][0]["customMetrics"]["rocksdbSstFileSize"]
        query.stop()
    finally:
        spark.conf.unset(_COMPACT)
    speed = rows * (batches - 1) / took_s
    return {"rows_per_s": speed, "seconds": took_s, "cpu_s": cpu, "state_bytes": state, "written_bytes": written}


def cpu_s() -> float:
    """Of this process and of all that it has started; of workers that have ended what their parents know of them."""
    own = psutil.Process()
    found = [own, *own.children(recursive=True)]
    return float(sum(sum(it.cpu_times()[:4]) for it in found if it.is_running()))


def show(results: list[dict[str, Any]]) -> None:
    table = Table("keys a batch", "way", "rows/s", "ratio", "cpu, s", "ratio", "state, kB", "ratio", "written, kB")
    for it in results:
        speed = (f"{it['rows_per_s']:,.0f}", f"{it['ratio']:.1f}", f"{it['cpu_s']:.1f}", f"{it['cpu_ratio']:.1f}")
        told = (*speed, f"{it['state_bytes'] / 1e3:,.0f}", f"{it['state_ratio']:.2f}")
        table.add_row(f"{it['keys']:,}", it["operator"], *told, f"{it['written_bytes'] / 1e3:,.0f}")
    Console().print(table)


def main() -> int:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--ways", nargs="+", default=list(ways()))
    given = parser.parse_args()
    spark = local_session("stream_state", slots=SLOTS, settings=_SETTINGS)
    results = [row for keys in given.keys for row in measure(spark, keys, given.rows, given.batches, given.ways)]
    spark.stop()
    if given.json:
        print_json("stream_state", {"rows": given.rows, "batches": given.batches, "instances": INSTANCES}, results)
    else:
        show(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
