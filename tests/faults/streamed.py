"""Operations on streams: files come one by one, a batch each, with what happens between them. All of it can be begun again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import evenly
from evenly.errors import ImmovableState
from faults import costed, flowed, sent
from faults.inputs import differing, key_names, quoted
from faults.schedule import FILES
from faults.work import Restart, Rows, Work, listed

PIECES = 4
"""Files of a batch: other numbers of cores put them into partitions otherwise."""
Start = Callable[[Work, DataFrame], Any]
TICKS_S = 3.0
"""Longer than two intervals of state maintenance, see driver.py."""


def stage(work: Work) -> None:
    """The files that are to come, a folder for each batch."""
    if (work.folder / "staged").exists():
        return
    (work.folder / "in").mkdir()
    table, rows = work.plain().toArrow(), work.schedule.shape.rows
    partial = work.folder / "staging"
    parts = FILES * PIECES
    cuts = [rows * place // parts for place in range(parts + 1)]
    for number in range(parts):
        path = partial / str(number // PIECES) / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(cuts[number], cuts[number + 1] - cuts[number]), path)
    partial.rename(work.folder / "staged")


def run(work: Work, start: Start) -> None:
    """Every file that has not come yet, then the end. A disk that is full may end the query: it is started again."""
    stage(work)
    rows = work.spark.readStream.schema(work.plain().schema).option("maxFilesPerTrigger", PIECES)
    rows = rows.option("recursiveFileLookup", "true")
    source = work.counting(differing(rows.parquet(str(work.folder / "in")), work.schedule.shape.twice), "input")
    query = start(work, source)
    query.processAllAvailable()
    for number in range(FILES):
        came = work.folder / "in" / str(number)
        if came.exists():
            continue
        query = _between(work, query, number, lambda: start(work, source))
        full = _due(work, "disk", number)
        if full:
            _fill(work)
        (work.folder / "staged" / came.name).rename(came)
        if full:
            try:
                query.processAllAvailable()
            except Exception as error:  # noqa: BLE001 - whatever Spark makes of it
                work.keep("disk.json", [(str(error)[:300],)])
            _free(work)
            query.stop()
            query = start(work, source)
        query.processAllAvailable()
    query.stop()


def _between(work: Work, query: Any, number: int, start: Callable[[], Any]) -> Any:
    options = work.schedule.options
    if options.change_at == number and number and not (work.folder / "changed").exists():
        _change(work, query)
        (work.folder / "changed").touch()
    if options.restart_at == number and number:
        query.stop()
        query = start()
        query.processAllAvailable()
    if _due(work, "tick", number):
        time.sleep(TICKS_S)
    if cores := _due(work, "cores", number):
        query.stop()
        raise Restart(cores)
    return query


def _due(work: Work, kind: str, number: int) -> int:
    """The cores of a fault before this batch that has not happened yet; 0 if there is none."""
    for place, fault in enumerate(work.schedule.faults):
        if fault.kind == kind and fault.at == number and work.moments.claim(place, kind):
            return fault.cores
    return 0


def _change(work: Work, query: Any) -> None:
    """Every key on another instance."""
    old, instances = query.mapping, work.instances
    turned = replace(
        old,
        buckets=((old.buckets + 1) % instances).astype(np.int32),
        heavy_instances=((old.heavy_instances + 1) % instances).astype(np.int32),
    )
    try:
        query.change_mapping(turned)
    except ImmovableState:
        if work.schedule.settings.store != "hdfs":
            raise


def _fill(work: Work) -> None:
    with (work.folder / "checkpoint" / "full").open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue


def _free(work: Work) -> None:
    (work.folder / "checkpoint" / "full").unlink()


def written(work: Work) -> list[list[Any]]:
    """What the sink has got, in the order of batches; a batch that came twice counts once."""
    return [row for path in sorted(work.folder.glob("out-*.json")) for row in json.loads(path.read_text())]


def _writer(work: Work, frame: DataFrame, mode: str) -> Any:
    def sink(batch: DataFrame, number: int) -> None:
        work.keep(f"out-{number:05d}.json", listed(work.counting(batch, "work")))

    return frame.writeStream.outputMode(mode).foreachBatch(sink)


def _by_key(work: Work, rows: Any, build: Callable[..., Any], **more: Any) -> Any:
    options = work.schedule.options
    return evenly.stream_by_key(
        rows,
        build,
        key=work.key,
        instances=work.instances,
        checkpoint=work.folder / "checkpoint",
        controller=options.controller,
        look=options.look,
        **more,
    )


def _totals(placed: DataFrame, *by: Any) -> DataFrame:
    return placed.groupBy(*by).agg(
        F.max("g").alias("g"), F.min("row").alias("first"), F.count("*").alias("n"), F.sum("v").alias("total")
    )


def start_count(work: Work, rows: DataFrame) -> Any:
    def build(placed: DataFrame) -> Any:
        return _writer(work, _totals(placed, *work.cols, "slot").select("g", "first", "n", "total"), "update")

    return _by_key(work, rows, build)


def count(work: Work) -> Rows:
    run(work, start_count)
    return [tuple(row) for row in {row[0]: row[1:] for row in written(work)}.values()]


def start_apply(work: Work, rows: DataFrame) -> Any:
    moments, options = work.moments, work.schedule.options

    def totals(_key: tuple[Any, ...], rows: list[Any], state: Any) -> tuple[list[Any], Any]:
        moments.call("work")
        first, n, total = state or (rows[0].row, 0, 0)
        kept = min(first, *(row.row for row in rows)), n + len(rows), total + sum(row.v for row in rows)
        return [(max(row.g for row in rows), *kept)], kept

    def write(results: DataFrame) -> Any:
        return results.writeStream.foreachBatch(lambda batch, number: work.keep(f"out-{number:05d}.json", listed(batch)))

    return evenly.stream_apply_by_key(
        rows,
        totals,
        "g int, first long, n long, total long",
        key=work.key,
        state="first long, n long, total long",
        instances=work.instances,
        checkpoint=work.folder / "checkpoint",
        write=write,
        controller=options.controller,
        look=options.look,
    )


def apply(work: Work) -> Rows:
    run(work, start_apply)
    return [tuple(row) for row in {row[0]: row[1:] for row in written(work)}.values()]


def start_dedup(work: Work, rows: DataFrame) -> Any:
    def build(placed: DataFrame) -> Any:
        return _writer(work, placed.dropDuplicates([*key_names(work.schedule.shape), "slot"]).select("g"), "append")

    return _by_key(work, rows, build)


def distinct(work: Work) -> Rows:
    return listed(work.plain().select("g").distinct())


def dedup(work: Work) -> Rows:
    run(work, start_dedup)
    return [tuple(row) for row in written(work)]


def _windowed(rows: DataFrame) -> DataFrame:
    return rows.withColumn("window", F.window("ts", "10 minutes"))


def _shown(totals: DataFrame) -> DataFrame:
    return totals.select(F.unix_micros("window.start").alias("start"), "g", "first", "n", "total")


def start_window(work: Work, rows: DataFrame) -> Any:
    def build(placed: DataFrame) -> Any:
        return _writer(work, _shown(_totals(placed, "window", *work.cols, "slot")), "update")

    return _by_key(work, _windowed(rows.withWatermark("ts", "1 hour")), build, window="window")


def windows(work: Work) -> Rows:
    return listed(_shown(_totals(_windowed(work.plain()), "window", *work.cols)))


def window(work: Work) -> Rows:
    run(work, start_window)
    return [tuple(row) for row in {(row[0], row[1]): row for row in written(work)}.values()]


def _right(work: Work, rows: DataFrame) -> DataFrame:
    right = rows.where("row % 5 = 0").select(*work.cols, F.col("row").alias("other"))
    if work.schedule.options.other_type and work.schedule.shape.key == "int":
        name = work.schedule.shape.name
        right = right.withColumn(name, F.col(quoted(name)).cast("long"))
    return right


def _met(left: DataFrame, right: DataFrame, names: list[str]) -> DataFrame:
    return left.join(right, names).select("row", "other")


def start_join(work: Work, rows: DataFrame) -> Any:
    def build(left: DataFrame, right: DataFrame) -> Any:
        return _writer(work, _met(left, right, [*key_names(work.schedule.shape), "slot"]), "append")

    return _by_key(work, [rows, _right(work, rows)], build)


def meetings(work: Work) -> Rows:
    return listed(_met(work.plain(), _right(work, work.plain()), list(key_names(work.schedule.shape))))


def join(work: Work) -> Rows:
    run(work, start_join)
    return [tuple(row) for row in written(work)]


def cost(work: Work) -> Rows:
    run(work, costed.start_stream)
    return [tuple(row) for row in written(work)]


def send(work: Work) -> Rows:
    run(work, sent.start_stream)
    return []


def flow(work: Work) -> Rows:
    run(work, flowed.start_stream)
    return flowed.written(work)
