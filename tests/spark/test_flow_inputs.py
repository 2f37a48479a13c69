"""Inputs that nobody thinks of: the rows are those that plain Python gives."""

from __future__ import annotations

import os
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenly
from evenly.errors import FunctionFailed, InvalidDataflow

NOW = {"availableNow": True}


def same(row):
    return row


async def later(row):
    return row


def into(found, name):
    def sink(rows, _number):
        found.setdefault(name, Counter()).update(map(tuple, rows.collect()))

    return sink


def test_nulls_no_columns_columns_called_alike_and_no_rows(spark):
    nulls = [(1, "a"), (None, "b"), (3, None), (None, None)]
    flow, found = evenly.Flow("odd"), {}
    made = {
        "nulls": spark.createDataFrame(nulls, "id long, s string"),
        "bare": spark.range(5).select(),
        "alike": spark.range(3).selectExpr("id", "-id as id"),
        "none": spark.range(0),
    }
    sources = {name: flow.source(name, function=lambda _, rows=rows: rows) for name, rows in made.items()}
    schema = "id long, s string"
    streams = {
        "by key": sources["nulls"].by_key("id", instances=2).row(same, schema=schema, name="id"),  # as a column is
        "by cost": sources["nulls"].by_cost("s", instances=2).row(later, schema=schema, name="s", threads=2),
        "commented": sources["nulls"].where("id > 1 or id is null -- or").where("s is null").row(same, schema=schema, name="c"),
        "bare rows": sources["bare"].where("1 = 1").shuffle(2).row(lambda row: (len(row),), schema="n long", name="b"),
        "alike rows": sources["alike"].row(lambda row: (row[0], row[1]), schema="a long, b long", name="al"),
        "none by key": sources["none"].by_key("id", instances=2).row(same, schema="id long", name="n"),
    }
    for name, stream in streams.items():
        stream.sink(f"to {name}", function=into(found, name))
    evenly.run(flow, spark=spark)
    assert found == {
        "by key": Counter(nulls),
        "by cost": Counter(nulls),
        "commented": Counter([(3, None), (None, None)]),
        "bare rows": Counter({(0,): 5}),
        "alike rows": Counter((number, -number) for number in range(3)),
        "none by key": Counter(),
    }


def test_batches_without_rows_and_nulls_in_a_stream(spark, tmp_path):
    (tmp_path / "in").mkdir()
    for at, ids in enumerate(([0, 1, None], [], [4, 4])):
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), tmp_path / "in" / f"{at}.parquet")
        os.utime(tmp_path / "in" / f"{at}.parquet", (1.7e9 + at, 1.7e9 + at))
    flow, found = evenly.Flow("stream"), {}
    read = flow.source("id", format="parquet", path=str(tmp_path / "in"), options={"maxFilesPerTrigger": 1})
    placed = read.by_key("id", instances=2).row(same, schema="id long", name="a").by_cost("id", instances=2)
    placed.row(later, schema="id long", name="b").sink("out", function=into(found, "out"))
    evenly.run(flow, spark=spark, checkpoint=tmp_path / "cp", trigger=NOW).awaitTermination()
    assert found["out"] == Counter([(0,), (1,), (None,), (4,), (4,)])


def test_what_ends_a_worker_or_is_of_pandas_is_told(spark):
    def ends(row):
        raise SystemExit(row.id)

    flow = evenly.Flow("ends")
    flow.source("rows", function=lambda session: session.range(1)).row(ends, schema="id long").sink("out", format="noop")
    with pytest.raises(FunctionFailed, match=r"the operator 'ends' raised SystemExit: 0; on"):
        evenly.run(flow, spark=spark)
    flow = evenly.Flow("pandas")
    read = flow.source("rows", function=lambda session: session.range(1))
    read.frame(lambda rows: rows.toPandas(), name="frame").sink("out", format="noop")
    with pytest.raises(InvalidDataflow, match=r"'frame' returned pandas\.DataFrame: return a DataFrame of Spark"):
        evenly.run(flow, spark=spark)
