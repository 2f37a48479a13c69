"""The likeliest mistakes of a caller: each is one error of ours that names the value and what is wanted, or it works."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import (
    ColumnConflict,
    InvalidParameter,
    MissingFile,
    StreamingMismatch,
    UnknownColumn,
    UnreadableFile,
    UnwritableFile,
)

BY_KEY = {"key": "user", "instances": 4}
BY_COST = {"cost_key": "user", "instances": 2}
NOW = {"availableNow": True}


def same(group):
    return group


def one(row):
    return 1 if row else 0


def counts(placed):
    return placed.groupBy("user", "slot").count().writeStream.format("noop").outputMode("update")


def ignore(*_):
    return None


@pytest.fixture(scope="module")
def df(spark):
    return spark.range(60).select((F.col("id") % 7).cast("string").alias("user"), F.col("id").alias("n")).persist()


@pytest.fixture(scope="module")
def source(df, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("stream") / "in")
    df.coalesce(1).write.parquet(path)
    return path


@pytest.fixture
def rows(spark, df, source):
    return spark.readStream.schema(df.schema).parquet(source)


CALLS = {
    "by_key": lambda df: evenly.by_key(df, **BY_KEY),
    "learn_mapping": lambda df: evenly.learn_mapping(df, **BY_KEY),
    "apply_by_key": lambda df: evenly.apply_by_key(df, same, "user string", **BY_KEY),
    "split_by_key": lambda df: evenly.split_by_key(df, **BY_KEY),
    "aggregate_by_key": lambda df: evenly.aggregate_by_key(df, F.count("*"), **BY_KEY),
    "apply_by_cost": lambda df: evenly.apply_by_cost(df, one, "x long", **BY_COST),
    "recommend_cost_key": lambda df: evenly.recommend_cost_key(df, one, "x long"),
    "good_rows": evenly.good_rows,
    "failed_rows": evenly.failed_rows,
    "send": lambda df: evenly.send(df, to=ignore),
    "stream_by_key": lambda df: evenly.stream_by_key(df, counts, **BY_KEY, checkpoint="never"),
    "stream_apply_by_cost": lambda df: evenly.stream_apply_by_cost(
        df, one, "x long", **BY_COST, sink=ignore, checkpoint="never"
    ),
    "stream_send": lambda df: evenly.stream_send(df, to=ignore, checkpoint="never"),
    "check_placement": evenly.check_placement,
    "placed_rows": lambda df: evenly.placed_rows(df, instances=4),
    "diagnose_keys": lambda df: evenly.diagnose_keys(df, key="user", instances=4),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_not_a_dataframe_is_named(df, call):
    for given in (None, "df", pd.DataFrame({"user": ["a"]}), df.groupBy("user"), df.write):
        with pytest.raises(InvalidParameter, match=r"^(df|rows|result) must be a DataFrame of Spark, got "):
            CALLS[call](given)


def test_what_is_often_given_for_a_dataframe_has_its_remedy(df):
    with pytest.raises(InvalidParameter, match=r"createDataFrame\(\.\.\.\) makes one of it$"):
        evenly.by_key(pd.DataFrame({"user": ["a"]}), **BY_KEY)
    with pytest.raises(InvalidParameter, match=r"give what was grouped, and its columns as the key$"):
        evenly.by_key(df.groupBy("user"), **BY_KEY)


@pytest.mark.parametrize("key", [F.col, lambda name: [F.col(name)]])
def test_a_key_can_be_a_column_that_is_named(df, key):
    df.count()  # so that it is in memory both times
    mapping = evenly.learn_mapping(df, key="user", instances=4)
    assert evenly.learn_mapping(df, key=key("user"), instances=4) == mapping
    placed = evenly.by_key(df, key=df.user, instances=4, mapping=mapping)
    assert placed.columns == evenly.by_key(df, key="user", instances=4, mapping=mapping).columns


@pytest.mark.parametrize("made", [lambda: F.upper("user"), lambda: F.col("user").alias("who"), lambda: F.col("n") + 1])
def test_a_key_that_is_computed_is_to_be_added_first(df, made):
    with pytest.raises(InvalidParameter, match=r"^key must be a column of df.*: add what is computed by withColumn"):
        evenly.by_key(df, key=made(), instances=4)
    with pytest.raises(InvalidParameter, match=r"^cost_key must be a column of df"):
        evenly.apply_by_cost(df, one, "x long", cost_key=made(), instances=2)


@pytest.mark.parametrize("name", ["", 5, None, True])
def test_a_column_to_add_needs_a_name(df, rows, name):
    wrong = InvalidParameter, f"must be the name of a column to add, got {name!r}"
    if name is not None:  # no slot
        with pytest.raises(wrong[0], match=wrong[1]):
            evenly.by_key(df, **BY_KEY, slot=name)
    with pytest.raises(wrong[0], match=wrong[1]):
        evenly.split_by_key(df, **BY_KEY, part=name)
    with pytest.raises(wrong[0], match=wrong[1]):
        evenly.stream_by_key(rows, counts, **BY_KEY, slot=name, checkpoint="never")
    with pytest.raises(ColumnConflict, match=r"there is a column 'N' already: choose another name, such as part='N_'"):
        evenly.split_by_key(df, **BY_KEY, part="N")


@pytest.mark.parametrize("schema", [None, 5, [("user", "string")], "nonsense", "", "user nothing"])
def test_a_schema_that_is_none_is_named(df, schema):
    for call in (
        lambda: evenly.apply_by_key(df, same, schema, **BY_KEY),
        lambda: evenly.apply_by_cost(df, one, schema, **BY_COST),
        lambda: evenly.aggregate_by_key(df, evenly.Merging(same, None, schema), **BY_KEY),
    ):
        with pytest.raises(InvalidParameter, match=r"^schema .*such as"):
            call()


@pytest.mark.parametrize("function", [None, "user string", 5])
def test_a_function_that_is_none_is_named(df, function):
    with pytest.raises(InvalidParameter, match=f"function must be a function of a group.*got {function!r}"):
        evenly.apply_by_key(df, function, "user string", **BY_KEY)
    with pytest.raises(InvalidParameter, match=f"function must be a function of a row, got {function!r}"):
        evenly.apply_by_cost(df, function, "x long", **BY_COST)


class Uncalled:
    """A class whose objects cannot be made of a row."""


def test_a_class_or_function_that_takes_no_row_is_named_before_a_job(df):
    for given in (Uncalled, lambda: 1, lambda row, more: (row, more)):
        with pytest.raises(InvalidParameter, match=r"^function must take one argument, a row, and .* does not$"):
            evenly.apply_by_cost(df, given, "x long", **BY_COST)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tolerance_pct": "2"}, "tolerance_pct must be above 0 .*got '2'"),
        ({"tolerance_pct": True}, "tolerance_pct must be above 0 .*got True"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"instances": np.float64(4)}, "instances must be a whole number from 1 to 10000"),
    ],
)
def test_numbers_that_are_none_are_named(df, given, told):
    with pytest.raises(InvalidParameter, match=told):
        evenly.learn_mapping(df, **{**BY_KEY, **given})


@pytest.mark.parametrize("instances", [np.int64(3), np.array([3, 3])])
def test_diagnosed_numbers_may_be_of_numpy(df, instances):
    assert [at.instances for at in evenly.diagnose_keys(df, key="user", instances=instances).at] == [3]


@pytest.mark.parametrize("given", [{"instances": "4"}, {"instances": None}, {"instances": []}, {"heaviest": "10"}])
def test_what_cannot_be_diagnosed_is_named(df, given):
    with pytest.raises(InvalidParameter, match=f"{next(iter(given))} "):
        evenly.diagnose_keys(df, key="user", **{"instances": 2, **given})


@pytest.mark.parametrize("column", [0, ["n"], True])
def test_a_column_to_send_is_a_name(df, column):
    with pytest.raises(InvalidParameter, match="column must be the name of a column, or None, got"):
        evenly.send(df, to=ignore, column=column)
    with pytest.raises(InvalidParameter, match="column must be the name of a column, or None, got Column"):
        evenly.send(df, to=ignore, column=F.col("n"))


FOLDERS = [None, 5, True, "", b"folder"]


@pytest.mark.parametrize("checkpoint", FOLDERS)
def test_a_checkpoint_is_a_path(spark, df, rows, tmp_path, monkeypatch, checkpoint):
    monkeypatch.chdir(tmp_path)
    calls = [
        lambda: evenly.stream_by_key(rows, counts, **BY_KEY, checkpoint=checkpoint),
        lambda: evenly.stream_send(rows, to=ignore, checkpoint=checkpoint),
        lambda: evenly.stream_apply_by_cost(rows, one, "x long", **BY_COST, sink=ignore, checkpoint=checkpoint),
        lambda: evenly.diagnose_checkpoint(spark, checkpoint),
    ]
    if checkpoint is not None:  # nothing is kept
        calls.append(lambda: evenly.send(df, to=ignore, checkpoint=checkpoint))
    for call in calls:
        with pytest.raises(InvalidParameter, match=r"checkpoint must be the path of a folder .*, got "):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("checkpoint", "kind", "told"),
    [
        ("12:30/visits", InvalidParameter, "'12:30/visits' is not a path that Spark can read .*colon"),
        ("file://data/visits", InvalidParameter, "on a host called 'data', .* write '/data/visits' or 'file:///data/visits'"),
        ("//data/visits", InvalidParameter, "on a host called 'data', .* write '/data/visits' or 'file:///data/visits'"),
        ("nowhere://bucket/visits", UnreadableFile, "on a file system that this Spark cannot reach .*nowhere"),
    ],
)
def test_a_path_that_hadoop_does_not_know_is_named(spark, rows, checkpoint, kind, told):
    for call in (
        lambda: evenly.stream_by_key(rows, counts, **BY_KEY, checkpoint=checkpoint),
        lambda: evenly.stream_apply_by_cost(rows, one, "x long", **BY_COST, sink=ignore, checkpoint=checkpoint),
        lambda: evenly.stream_send(rows, to=ignore, checkpoint=checkpoint),
        lambda: evenly.diagnose_checkpoint(spark, checkpoint),
    ):
        with pytest.raises(kind, match=told):
            call()


def test_a_name_with_a_colon_is_a_file_of_costs(df, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evenly.CostModel("n").save("costs:2024.json")
    with pytest.raises(InvalidParameter, match="of the key n, not of user"):  # so they were read
        evenly.apply_by_cost(df, one, "x long", **BY_COST, costs="costs:2024.json")
    with pytest.raises(MissingFile, match=r"there is no file costs:2023\.json"):
        evenly.apply_by_cost(df, one, "x long", **BY_COST, costs="costs:2023.json")


@pytest.mark.parametrize("kind", [evenly.Mapping, evenly.SplitMapping, evenly.CostModel])
def test_saved_data_that_is_not_there_is_an_error_of_ours(kind, tmp_path):
    with pytest.raises(MissingFile, match=rf"there is no file .*none\.json: give the path of a saved {kind.__name__}"):
        kind.load(tmp_path / "none.json")
    with pytest.raises(UnreadableFile, match="is a folder"):
        kind.load(tmp_path)


def test_a_mapping_that_cannot_be_saved_is_an_error_of_ours(df, tmp_path):
    mapping = evenly.learn_mapping(df, **BY_KEY)
    with pytest.raises(UnwritableFile, match="there is no folder"):
        mapping.save(tmp_path / "none" / "users.json")


@pytest.mark.parametrize("spread_on", ["nobody", 0, [], "user"])
def test_what_cannot_spread_a_hot_key_is_told_while_no_key_is_hot(df, spread_on):
    mapping = evenly.learn_mapping(df, key="user", instances=2)
    with pytest.raises((InvalidParameter, UnknownColumn), match=r"spread_on|nobody"):
        evenly.split_by_key(df, key="user", instances=2, mapping=mapping, spread_on=spread_on)
    assert evenly.split_by_key(df, key="user", instances=2, mapping=mapping, spread_on="n").columns == ["user", "n", "part"]


def test_keys_of_costs_that_spark_does_not_know_are_named(df):
    with pytest.raises(InvalidParameter, match=r"cost_key 'user \+' is neither a column nor an SQL expression: \S"):
        evenly.apply_by_cost(df, one, "x long", cost_key="user +", instances=2)
    with pytest.raises(UnknownColumn, match=r"candidates 'nobody': .* The columns are user, n"):
        evenly.recommend_cost_key(df, one, "x long", candidates="nobody")
    with pytest.raises(InvalidParameter, match="costs must be a CostModel or the path of a saved one, got ''"):
        evenly.apply_by_cost(df, one, "x long", **BY_COST, costs="")


@pytest.mark.parametrize("trigger", [{"continuous": "1 second"}, {"realTime": "5 seconds"}, "10 seconds", {}, 5])
def test_triggers_without_micro_batches_are_refused_by_every_form(rows, tmp_path, trigger):
    given = {"checkpoint": tmp_path / "checkpoint", "trigger": trigger}
    for call in (
        lambda: evenly.stream_by_key(rows, counts, **BY_KEY, **given),
        lambda: evenly.stream_send(rows, to=ignore, **given),
        lambda: evenly.stream_apply_by_cost(rows, one, "x long", **BY_COST, sink=ignore, **given),
    ):
        with pytest.raises(InvalidParameter, match=r"^trigger "):
            call()
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"mapping": "users.json"}, "mapping must be a Mapping, got 'users.json'"),
        ({"threshold_pct": "5"}, "threshold_pct must be above 0, got '5'"),
        ({"budget_pct": None}, "budget_pct must be from 0 to 100, got None"),
    ],
)
def test_options_of_a_stream_by_key_are_named(rows, tmp_path, given, told):
    with pytest.raises(InvalidParameter, match=told):
        evenly.stream_by_key(rows, counts, **BY_KEY, checkpoint=tmp_path / "checkpoint", **given)
    assert not (tmp_path / "checkpoint").exists()


def test_options_of_other_streams_are_named(rows, tmp_path):
    given = {"checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(InvalidParameter, match="watch must be a CostWatch, got 'w'"):
        evenly.stream_apply_by_cost(rows, one, "x long", **BY_COST, sink=ignore, watch="w", **given)
    for mode in ("banana", None, 5):
        with pytest.raises(InvalidParameter, match=f"output_mode must be one of 'append', 'complete', 'update', got {mode!r}"):
            evenly.stream_send(rows, to=ignore, output_mode=mode, **given)
    assert not (tmp_path / "checkpoint").exists()


def test_a_session_and_a_time_are_named(spark):
    for given in (None, "spark", evenly.CostWatch()):
        with pytest.raises(InvalidParameter, match="spark must be a SparkSession, got"):
            evenly.await_any_termination(given)
        with pytest.raises(InvalidParameter, match="spark must be a SparkSession, got"):
            evenly.diagnose_checkpoint(given, "/data/visits")
    with pytest.raises(InvalidParameter, match="timeout must be a number of seconds, or None, got '5'"):
        evenly.await_any_termination(spark, timeout="5")


def test_what_is_learnt_from_and_where_rows_go_are_named(df):
    for call in (evenly.by_key, evenly.split_by_key):
        with pytest.raises(InvalidParameter, match=r"^fit_on must be a DataFrame of Spark, got 'x'"):
            call(df, **BY_KEY, fit_on="x")
    with pytest.raises(InvalidParameter, match="'collector:9000' has a port in it: give that as port="):
        evenly.TcpLines("collector:9000", 9000)
    with pytest.raises(InvalidParameter, match="the path of a saved Mapping is wanted, got 5"):
        evenly.Mapping.load(5)


@pytest.mark.parametrize("build", [None, "counts", 5])
def test_a_pipeline_is_a_function(rows, tmp_path, build):
    with pytest.raises(InvalidParameter, match=f"build must be a function .*got {build!r}"):
        evenly.stream_by_key(rows, build, **BY_KEY, checkpoint=tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint").exists()


def test_a_query_that_build_has_started_is_stopped(spark, rows, tmp_path):
    def started(placed):
        return counts(placed).option("checkpointLocation", str(tmp_path / "own")).start()

    with pytest.raises(InvalidParameter, match=r"leave \.start\(\) or \.toTable\(\) out"):
        evenly.stream_by_key(rows, started, **BY_KEY, checkpoint=tmp_path / "checkpoint")
    assert spark.streams.active == []


def test_a_call_that_was_refused_binds_a_checkpoint_to_nothing(rows, tmp_path):
    """Only a query that has begun has state that could be lost."""
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(InvalidParameter, match=r"[gG]roup by \(n, slot\)"):
        evenly.stream_by_key(rows, counts, key="n", instances=5, checkpoint=checkpoint, trigger=NOW)
    query = evenly.stream_by_key(rows, counts, **BY_KEY, checkpoint=checkpoint, trigger=NOW)
    assert query.awaitTermination(60)
    kept = json.loads((checkpoint / "evenly" / "versions.json").read_text())
    assert (kept["key"], kept["instances"], len(kept["versions"])) == (["user"], 4, 1)


def test_a_name_that_a_running_query_has_is_told_before_anything_is_written(rows, tmp_path):
    running = evenly.stream_send(rows, to=ignore, checkpoint=tmp_path / "first", query_name="visits")
    try:
        for call in (
            lambda at: evenly.stream_by_key(rows, counts, **BY_KEY, checkpoint=at, query_name="visits"),
            lambda at: evenly.stream_send(rows, to=ignore, checkpoint=at, query_name="visits"),
        ):
            with pytest.raises(InvalidParameter, match="a query with the name 'visits' runs in this session"):
                call(tmp_path / "second")
        assert not (tmp_path / "second").exists()
    finally:
        running.stop()


def test_arguments_in_another_order_are_told(spark, df):
    with pytest.raises(InvalidParameter, match="checkpoint must be the path"):
        evenly.diagnose_checkpoint("/data/visits", spark)
    with pytest.raises(InvalidParameter, match="instances must be a whole number"):
        evenly.by_key(df, key=4, instances="user")
    with pytest.raises(UnknownColumn, match="there is no column 'nobody'"):
        evenly.by_key(df, key="nobody", instances=4)
    with pytest.raises(StreamingMismatch, match="use send for a batch"):
        evenly.stream_send(df, to=ignore, checkpoint=Path("never"))
