"""Bad input, and functions that misbehave: they raise, block, fork or print."""

import json
import multiprocessing
import os
import re
import sys
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PythonException
from pyspark.sql import Row

import evenly
from evenly.costs import CostModel
from evenly.errors import (
    ColumnConflict,
    DamagedData,
    FunctionFailed,
    InvalidKeys,
    InvalidParameter,
    MissingFile,
    NewerFormat,
    StreamingMismatch,
    UnknownColumn,
    UnreadableFile,
    UnwritableFile,
)
from evenly.spark.costs.saved_costs import load_costs, save_costs
from evenly.spark.worker_errors import own_error
from evenly.worker.letters import failure
from evenly.worker.results import Shape

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

EVEN = CostModel("id")
FOREVER_S = 3_600.0


def same(row):
    return row.id


@pytest.fixture(scope="module")
def df(spark):
    return spark.range(0, 60, 1, 2).selectExpr("id", "concat('r', id) as name", "map(1, id) as m")


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"cost_key": "nme"}, UnknownColumn, "'nme'.*id, name, m"),
        ({"cost_key": "lower(name"}, InvalidParameter, "'lower\\(name'"),
        ({"cost_key": []}, InvalidParameter, "no column"),
        ({"cost_key": 7}, InvalidParameter, "cost_key must be a name or a list of names, as texts, got 7"),
        ({"watch": True}, InvalidParameter, "watch must be a CostWatch, got True"),
        ({"cost_key": "m"}, InvalidKeys, "map"),
        ({"cost_key": "sum(id)"}, InvalidParameter, "sum"),
        ({"instances": 0}, InvalidParameter, "instances must be a whole number from 1 .*got 0"),
        ({"instances": 2.5}, InvalidParameter, "got 2.5"),
        ({"objective": "speed"}, InvalidParameter, "'batch-time', 'completion', 'arrival', got 'speed'"),
        ({"call": {"threads": 8}}, InvalidParameter, r"evenly\.CallOptions\(threads=8\), got {'threads': 8}"),
        ({"routers": 0}, InvalidParameter, "routers .*got 0"),
        ({"costs": 3}, InvalidParameter, "got 3"),
        ({"costs": EVEN, "cost_key": "name"}, InvalidParameter, "of the key id, not of name"),
        ({"function": 5}, InvalidParameter, "got 5"),
        ({"schema": "n long, error string", "call": evenly.CallOptions(on_error="skip")}, ColumnConflict, "'error'"),
        ({"schema": "__evenly_report binary"}, ColumnConflict, "__evenly_report"),
    ],
)
def test_bad_input_is_named(df, options, kind, told):
    given = {"function": same, "schema": "id long", "instances": 2, **options}
    if "costs" not in given:
        given.setdefault("cost_key", "id")
    with pytest.raises(kind, match=told):
        evenly.apply_by_cost(df, **given)


def test_more_bad_input(spark, df, tmp_path):
    with pytest.raises(InvalidParameter, match="__evenly_id"):
        evenly.apply_by_cost(df.withColumnRenamed("id", "__evenly_id"), same, "id long", instances=2, cost_key="name")
    (tmp_path / "costs.json").write_text("{}")
    with pytest.raises(DamagedData, match=r"costs\.json"):
        evenly.apply_by_cost(df, same, "id long", instances=2, costs=tmp_path / "costs.json")
    with pytest.raises(UnknownColumn, match="on_error='skip'"):
        evenly.good_rows(df)
    streaming = spark.readStream.format("rate").load()
    with pytest.raises(StreamingMismatch, match="stream_apply_by_cost"):
        evenly.apply_by_cost(streaming, same, "id long", instances=2, cost_key="value")
    with pytest.raises(StreamingMismatch, match="batch"):
        evenly.recommend_cost_key(streaming, same, "id long")
    given = {"instances": 2, "sink": print, "checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(StreamingMismatch, match="apply_by_cost"):
        evenly.stream_apply_by_cost(df, same, "id long", cost_key="id", **given)
    with pytest.raises(InvalidParameter, match="recommend_cost_key"):
        evenly.stream_apply_by_cost(streaming, same, "id long", **given)
    with pytest.raises(InvalidParameter, match="sink"):
        evenly.stream_apply_by_cost(streaming, same, "id long", cost_key="value", **{**given, "sink": "parquet"})
    with pytest.raises(InvalidParameter, match="on_error='skip'"):
        evenly.stream_apply_by_cost(streaming, same, "id long", cost_key="value", dead_letters=print, **given)
    assert not (tmp_path / "checkpoint").exists()


def test_costs_are_read_from_any_path_that_spark_reads(spark, df, tmp_path):
    model = CostModel("name")
    odd = tmp_path / "costs [1].json"
    model.save(odd)
    for path in (odd, str(odd), f"file:{odd}", f"file://{odd}"):
        with pytest.raises(InvalidParameter, match="of the key name, not of id"):  # so they were read
            evenly.apply_by_cost(df, same, "id long", cost_key="id", instances=2, costs=path)
    save_costs(spark, model, f"file:{tmp_path}/saved.json")
    assert load_costs(spark, f"file:{tmp_path}/saved.json") == model
    assert load_costs(spark, tmp_path / "saved.json") == model
    (tmp_path / "newer.json").write_text('{"format": "evenly-costs", "format_version": 99}')
    (tmp_path / "other.json").write_bytes(b"\xff\x00")
    for place in ("", "file:"):
        for name, kind, told in [
            ("none.json", MissingFile, "there is no file .*none.json"),
            ("", UnreadableFile, "is a folder"),
            ("newer.json", NewerFormat, "version 99"),
            ("other.json", DamagedData, "not a saved cost model"),
        ]:
            with pytest.raises(kind, match=told):
                evenly.apply_by_cost(df, same, "id long", instances=2, costs=f"{place}{tmp_path}/{name}")
    with pytest.raises(UnreadableFile, match=r"nowhere://b/costs.json cannot be read by Spark: .*nowhere"):
        evenly.apply_by_cost(df, same, "id long", instances=2, costs="nowhere://b/costs.json")
    with pytest.raises(UnwritableFile, match=r"cannot be written to nowhere://b/costs.json: .*nowhere"):
        save_costs(spark, model, "nowhere://b/costs.json")


async def later(row):
    return row.id


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (lambda: 2**70, "1180591620717411303424 .int. for field 'x', which is of type int64"),
        (lambda: "5", "'5'.*not a whole number"),
        (lambda: True, "True .bool."),
        (lambda: (x for x in [1]), "it is a generator; return one result"),
        (lambda: later(None), "it is a coroutine; give the async function itself"),
    ],
)
def test_what_does_not_fit_is_told_in_one_sentence(returned, told):
    for fields in (["x"], ["x", "y"]):
        value = returned() if len(fields) == 1 or "it is a" in told else (returned(), 1)
        _, wrong = Shape(pa.schema([(field, pa.int64()) for field in fields])).columns([value])
        assert re.search(told, str(wrong[0]))
        assert "\n" not in str(wrong[0])


def test_names_that_evenly_uses_are_refused_in_any_case(df):
    with pytest.raises(InvalidParameter, match="__EVENLY_ID"):
        evenly.apply_by_cost(df.withColumnRenamed("id", "__EVENLY_ID"), same, "id long", instances=2, cost_key="name")
    with pytest.raises(ColumnConflict, match="__Evenly_Report"):
        evenly.apply_by_cost(df, same, "__Evenly_Report binary", instances=2, cost_key="name")


def test_errors_of_workers_are_raised_as_their_class(spark, df, tmp_path):
    """Where we run the job, always; where the user does, inside worker_errors."""

    def fails(row):
        raise KeyError(row.name)

    told = r"the function raised KeyError: 'r\d+'.*on_error="
    result = evenly.apply_by_cost(df, fails, "id long", instances=2, costs=EVEN)
    with pytest.raises(FunctionFailed, match=told) as caught, evenly.worker_errors():
        result.write.parquet(str(tmp_path / "result"))
    assert isinstance(caught.value.__cause__, Exception)
    assert "in fails" in str(caught.value)
    with pytest.raises(FunctionFailed, match=told):
        evenly.recommend_cost_key(df, fails, "id long", rows=100)
    df.write.parquet(str(tmp_path / "in"))
    query = evenly.stream_apply_by_cost(
        spark.readStream.schema(df.schema).parquet(str(tmp_path / "in")),
        fails,
        "id long",
        cost_key="id",
        instances=2,
        sink=lambda *_: None,
        checkpoint=tmp_path / "checkpoint",
        trigger={"availableNow": True},
    )
    with pytest.raises(FunctionFailed, match=told):
        query.awaitTermination()
    assert isinstance(own_error(query.query.exception()), FunctionFailed)
    assert own_error(None) is None
    with pytest.raises(KeyError, match=r"evenly\.errors"), evenly.worker_errors():
        raise KeyError("evenly.errors.FunctionFailed: of somebody else")


def test_a_row_that_ends_its_worker_is_set_aside_on_a_master_that_tries_once(df):
    def deadly(row):
        if row.id in {5, 40}:
            os._exit(1)
        return row.id

    result = evenly.apply_by_cost(
        df, deadly, "id long", instances=2, costs=EVEN, call=evenly.CallOptions(on_error="skip")
    ).persist()
    assert sorted(row.id for row in evenly.good_rows(result).collect()) == [at for at in range(60) if at not in {5, 40}]
    failed = evenly.failed_rows(result).collect()
    result.unpersist()
    assert {row.type for row in failed} == {"WorkerDied"}
    assert sorted(json.loads(row.row)["name"] for row in failed) == ["r40", "r5"]


def picky(row):
    if row.id % 20 == 7:
        raise ValueError(f"not {row.name}")
    return {"id": row.id, "text": row.name} if row.id % 20 != 9 else {"id": "nine", "text": None}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_row_that_fails_ends_the_job_and_is_named(df, threads):
    told = r'(?s)FunctionFailed: the function raised ValueError: not r\d*7.*"name": "r\d*7".*on_error=.*in picky'
    with pytest.raises(PythonException, match=told):
        evenly.apply_by_cost(
            df.where("id % 20 != 9"),
            picky,
            "id long, text string",
            instances=1,
            costs=EVEN,
            call=evenly.CallOptions(threads=threads),
        ).count()


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_that_fail_are_set_aside_with_row_and_error(df, threads):
    result = evenly.apply_by_cost(
        df,
        picky,
        "id long, text string",
        instances=2,
        cost_key="id % 3",
        call=evenly.CallOptions(on_error="skip", retries=1, threads=threads),
    )
    assert result.columns == ["id", "text", "error"]
    assert result.count() == 60
    good = evenly.good_rows(result)
    assert good.columns == ["id", "text"]
    assert sorted(row.id for row in good.collect()) == [at for at in range(60) if at % 20 not in {7, 9}]
    failed = sorted(evenly.failed_rows(result).collect(), key=lambda row: json.loads(row.row)["id"])
    assert [json.loads(row.row) for row in failed] == [
        {"id": at, "name": f"r{at}", "m": {"1": at}} for at in (7, 9, 27, 29, 47, 49)
    ]
    assert [row.type for row in failed] == ["ValueError", "InvalidResult"] * 3
    assert failed[0].message == "not r7"
    assert "'nine'" in failed[1].message


def test_a_batch_that_fails_gives_a_letter_for_each_of_its_rows(df):
    def whole(batch):
        if 13 in batch.column("id").to_pylist():
            raise RuntimeError("unlucky")
        return batch.select(["id"])

    result = evenly.apply_by_cost(
        df, whole, "id long", instances=1, cost_key="id", call=evenly.CallOptions(on_error="skip", batch_rows=5)
    ).persist()
    good = [row.id for row in evenly.good_rows(result).collect()]
    failed = [json.loads(row.row)["id"] for row in evenly.failed_rows(result).collect()]
    result.unpersist()
    assert sorted(good + failed) == list(range(60))
    assert 13 in failed
    assert len(failed) <= 5


def block(row):
    if row.id == 5:
        while True:
            pass
    if row.id == 6:
        time.sleep(FOREVER_S)
    return row.id


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_that_blocks_for_ever_is_an_error_of_its_row(df, threads):
    limited = evenly.CallOptions(time_limit_s=1.0, threads=threads)
    skipping = replace(limited, on_error="skip")
    result = evenly.apply_by_cost(df, block, "id long", instances=1, costs=EVEN, call=skipping).collect()
    assert sorted(row.id for row in result if row.error is None) == [at for at in range(60) if at not in {5, 6}]
    assert {json.loads(row.error.row)["id"] for row in result if row.error is not None} == {5, 6}
    assert {row.error.type for row in result if row.error is not None} == {"RowTooSlow"}
    if threads == 1:
        with pytest.raises(PythonException, match=r'RowTooSlow: .*time_limit_s=1.*"id": 5'):
            evenly.apply_by_cost(df.where("id = 5"), block, "id long", instances=1, costs=EVEN, call=limited).collect()


def fork(row):
    if row.id == 11:
        child = os.fork()
        if child == 0:
            if row.name == "r11":
                return "child"
            raise SystemExit
        return f"child ended with {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"
    if row.id == 12:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return str(sum(pool.map(abs, [-1, -2])))
    return row.name


@pytest.mark.parametrize("threads", [1, 2])
def test_a_function_that_forks_does_not_disturb_spark(df, threads):
    result = evenly.apply_by_cost(
        df, fork, "name string", instances=2, costs=EVEN, call=evenly.CallOptions(threads=threads)
    ).collect()
    expected = {f"r{at}" for at in range(60) if at not in {11, 12}} | {"child ended with 70", "3"}
    assert len(result) == 60
    assert {row.name for row in result} == expected


def test_a_function_that_prints_does_not_disturb_spark(df):
    def chatty(row):
        print("x" * 1_000, flush=True)  # noqa: T201
        sys.stderr.write("y" * 100 + "\n")
        os.write(1, b"straight to standard output\n")
        return row.id

    rows = evenly.apply_by_cost(df, chatty, "id long", instances=2, costs=EVEN).collect()
    assert sorted(row.id for row in rows) == list(range(60))


def test_async_functions_with_errors_and_a_limit(df):
    async def fetch(row):
        import asyncio

        if row.id == 3:
            await asyncio.sleep(FOREVER_S)
        if row.id == 4:
            raise ConnectionError("refused")
        await asyncio.sleep(0.001)
        return row.id

    result = evenly.apply_by_cost(
        df, fetch, "id long", instances=2, costs=EVEN, call=evenly.CallOptions(threads=20, time_limit_s=1.0, on_error="skip")
    ).collect()
    assert sorted(row.id for row in result if row.error is None) == [at for at in range(60) if at not in {3, 4}]
    assert {row.error.type for row in result if row.error is not None} == {"RowTooSlow", "ConnectionError"}


def test_an_error_of_several_lines_reaches_the_driver_with_its_row():
    """As Spark carries it: the text of the traceback, and then its own."""
    error = failure(Row(id=7), ValueError("first\n  second\r\n\nthird" + "x" * 10_000))
    carried = PythonException(f"Traceback:\nevenly.errors.FunctionFailed: {error}\n\n\tat org.apache.spark.Task")
    told = str(own_error(carried))
    assert told == str(error)
    assert re.match(r'the function raised ValueError: first second thirdx+…; on {"id": 7}. CallOptions\(on_error', told)
    assert len(told) < 3_000
