"""Parts of dataflows on a real session: each grouping, source and sink does what is said of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.sql import functions as F

import evenly
from evenly.dataflow.files import parse_dataflow
from evenly.dataflow.job_script import job_script
from evenly.errors import CheckpointMismatch, InvalidDataflow
from evenly.spark.flows import edge_mappings, whole_batch
from line_receiver import LineReceiver, without_doubles
from waiting import until

AT = "id long, at int"
NOW = {"availableNow": True}


def where_it_is(row):
    return row.id, TaskContext.get().partitionId()


def where_they_are(rows):
    return rows.select("id", F.spark_partition_id().alias("at"))


def same(batch):
    return batch


async def halves(row):
    await asyncio.sleep(0)
    return [{"id": row.id, "half": 0}, {"id": row.id, "half": 1}]


async def doubled(row):
    await asyncio.sleep(0)
    return {"id": 2 * row.id}


def collected(found):
    def take(rows, number):
        found[number] = [tuple(row) for row in rows.collect()]

    return take


def test_every_instance_gets_every_row_and_keys_that_meet_are_together(spark):
    copies, met = {}, {}
    flow = evenly.Flow("groupings")
    ids = flow.source("ids", function=lambda session: session.range(20, numPartitions=3))
    ids.duplicate(3).row(where_it_is, schema=AT, name="copies").sink("copies of all", function=collected(copies))
    ways = [ids.where(f"id % 2 = {at}").batch(same, schema="id long", name=f"way {at}") for at in (0, 1)]
    ways[0].by_key("id", instances=4).and_also(ids.by_key("id", instances=4)).row(where_it_is, schema=AT, name="met").sink(
        "all that met", function=collected(met)
    )
    ways[1].sink("nowhere", format="noop", options={"mode": "overwrite"})
    evenly.run(flow, spark=spark)
    assert Counter(copies[0]) == Counter((number, at) for number in range(20) for at in range(3))
    assert Counter(number for number, _ in met[0]) == Counter({number: 2 - number % 2 for number in range(20)})
    assert max(Counter(number for number, _ in set(met[0])).values()) == 1
    assert len({at for _, at in met[0]}) == 4


@pytest.mark.parametrize("told", [True, False])
def test_the_mapping_of_a_streams_edge_is_learnt_again_only_where_that_may_gain(spark, tmp_path, monkeypatch, told):
    """From the first of four batches, which workers tell to be even; where nobody tells from batches 0, 1 and 3."""
    learnt, met, real = [], {}, edge_mappings.learn_mapping
    monkeypatch.setattr(edge_mappings, "learn_mapping", lambda rows, **how: learnt.append(len(met)) or real(rows, **how))
    for at in range(4):
        pq.write_table(pa.table({"id": [at, *range(10)] * 2}), tmp_path / f"{at}.parquet")
    flow = evenly.Flow("keyed")
    ids = flow.source("ids", format="parquet", path=f"{tmp_path}/*.parquet", options={"maxFilesPerTrigger": 1})
    keyed = ids.by_key("id", instances=3)
    placed = keyed.row(where_it_is, schema=AT) if told else keyed.frame(where_they_are)
    placed.sink("met", function=collected(met))
    evenly.run(flow, spark=spark, checkpoint=tmp_path / "checkpoint", trigger=NOW).awaitTermination()
    assert learnt == ([0] if told else [0, 1, 3])
    for at in range(4):
        assert Counter(number for number, _ in met[at]) == Counter([at, *range(10)] * 2)
        assert len(set(met[at])) == 10


def test_what_is_before_a_key_or_a_cost_is_called_once_for_each_row(spark, tmp_path):
    """Both look at their rows before they deal them out."""
    calls, folder = tmp_path / "calls", str(tmp_path / "in")
    spark.range(12, numPartitions=2).write.parquet(folder)

    def called(row):
        with calls.open("a") as file:
            file.write(f"{row.id}\n")
        return row

    flow, found = evenly.Flow("once"), {}
    ids = flow.source("ids", format="parquet", path=folder, schema="id long", options={"maxFilesPerTrigger": 1})
    first = ids.row(called, schema="id long", name="first").by_key("id", instances=2)
    second = first.row(called, schema="id long", name="second").by_cost("id", instances=2)
    second.row(called, schema="id long", name="third").sink("all", function=collected(found))
    watch = evenly.FlowWatch()
    evenly.run(flow, spark=spark, checkpoint=tmp_path / "checkpoint", trigger=NOW, watch=watch).awaitTermination()
    assert Counter(map(int, calls.read_text().split())) == Counter(dict.fromkeys(range(12), 3))
    assert Counter(row for rows in found.values() for row in rows) == Counter((number,) for number in range(12))
    assert [sum(batch.operators[name].rows_in for batch in watch.batches) for name in ("first", "second")] == [12, 12]


def joined(frame):
    return frame.groupBy("it").count().join(frame, "it")


def asked(frame):
    frame.createOrReplaceTempView("asked_rows")
    return frame.sparkSession.sql("select it from asked_rows where it in (select it from asked_rows)")


@pytest.mark.parametrize("checkpoint", [None, "checkpoint"])
def test_a_frame_that_reads_its_rows_twice_gets_the_same_ones(spark, tmp_path, checkpoint):
    """What is before it gives other rows each time."""

    def drawn(_row):
        return uuid.uuid4().hex

    spark.range(6, numPartitions=2).write.parquet(str(tmp_path / "in"))
    flow = evenly.Flow("twice")
    read = flow.source("rows", format="parquet", path=str(tmp_path / "in"))
    for name, function in {"joined": joined, "asked": asked, "both": lambda frame: frame.union(frame)}.items():
        made = read.shuffle(2).row(drawn, schema="it string", name=f"drawn {name}").frame(function, name=name)
        made.sink(f"to {name}", format="parquet", path=str(tmp_path / name))
    before = spark.sparkContext._jsc.getPersistentRDDs().size()
    if checkpoint is None:
        evenly.run(flow, spark=spark)
    else:
        evenly.run(flow, spark=spark, checkpoint=tmp_path / checkpoint, trigger=NOW).awaitTermination()
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == before
    for name, rows in {"joined": 6, "asked": 6, "both": 12}.items():
        found = [row.it for row in spark.read.parquet(str(tmp_path / name)).collect()]
        assert (len(found), len(set(found))) == (rows, 6), name


def test_async_functions_give_one_or_many_also_where_rows_are_dealt_out_by_cost(spark):
    found = {}
    flow = evenly.Flow("async")
    ids = flow.source("ids", function=lambda session: session.range(5))
    ids.by_cost("id", instances=2).row(doubled, schema="id long", threads=2).row(
        halves, schema="id long, half int", threads=2
    ).sink("all", function=collected(found))
    evenly.run(flow, spark=spark)
    assert Counter(found[0]) == Counter((2 * number, half) for number in range(5) for half in (0, 1))


def replaced(flow, name, **fields):
    operators = tuple(replace(one, **fields) if one.name == name else one for one in flow.operators)
    return replace(flow, operators=operators)


def test_tables_and_formats_with_options_are_read_and_written(spark, tmp_path, capfd):
    spark.range(3).write.saveAsTable("flow_numbers")
    flow = evenly.Flow("formats")
    numbers = flow.source("numbers", format="table", path="flow_numbers")
    numbers.sink("lines", format="csv", path=str(tmp_path / "csv"), options={"sep": " ", "header": True})
    numbers.sink("shown", format="console", options={"rows": 2})
    numbers.sink("copied", format="table", path="flow_copies")
    for folder in ("csv", "again"):
        lines = {"format": "csv", "path": str(tmp_path / folder)}
        evenly.run(replaced(flow.dataflow(), "lines", **lines), spark=spark)
    assert spark.table("flow_copies").count() == 6
    back = evenly.Flow("back")
    found = {}
    lines = back.source("lines", format="csv", path=str(tmp_path / "csv"), schema="id long", options={"header": "true"})
    lines.sink("all", function=collected(found))
    evenly.run(back, spark=spark)
    assert sorted(found[0]) == [(0,), (1,), (2,)]
    assert "only showing top 2 rows" in capfd.readouterr().out
    spark.sql("DROP TABLE flow_numbers")
    spark.sql("DROP TABLE flow_copies")


def test_the_rate_source_feeds_a_function_of_frames_and_numbers(spark, tmp_path):
    found = {}
    flow = evenly.Flow("rate")
    rate = flow.source("rate", format="rate", options={"rowsPerSecond": 50, "numPartitions": 2})
    rate.frame(lambda rows: rows.select("value"), name="values").sink("all", function=collected(found))
    query = evenly.run(flow, spark=spark, checkpoint=tmp_path / "checkpoint", query_name="rate")
    until(lambda: sum(map(len, list(found.values()))) >= 20, "20 rows")
    query.stop()
    values = sorted(value for rows in found.values() for (value,) in rows)
    assert values == list(range(len(values)))


def test_a_function_may_be_another_after_a_restart_and_the_checkpoint_goes_on(spark, tmp_path):
    folder, found = str(tmp_path / "in"), {}

    def started(version):
        def told(row):
            return row.id, version

        flow = evenly.Flow("upgraded")
        read = flow.source("ids", format="parquet", path=folder, schema="id long")
        read.by_cost("id", instances=2).row(told, schema="id long, version int", name="told").row(
            lambda row: (*row, version), schema="id long, version int, again int", name="again"
        ).sink("all", function=collected(found))
        evenly.run(flow, spark=spark, checkpoint=tmp_path / "checkpoint", trigger=NOW).awaitTermination()

    for version in (1, 2):
        spark.range(10 * version, 10 * version + 3, numPartitions=1).write.mode("append").parquet(folder)
        started(version)
    assert {number: sorted(rows) for number, rows in found.items()} == {
        0: [(10, 1, 1), (11, 1, 1), (12, 1, 1)],
        1: [(20, 2, 2), (21, 2, 2), (22, 2, 2)],
    }


def test_another_source_than_that_of_the_checkpoint_is_refused_with_both(spark, tmp_path):
    """Spark would end the query at its first batch: `Wrong basePath`, `No usable value for logOffset`."""

    def started(source, **described):
        flow = evenly.Flow("moved")
        flow.source("ids", format=source, **described).sink("nowhere", format="noop")
        evenly.run(flow, spark=spark, checkpoint=tmp_path / "checkpoint", trigger=NOW).awaitTermination()

    for name in ("in", "other"):
        spark.range(3).write.parquet(str(tmp_path / name))
    with pytest.raises(InvalidDataflow, match="there is nothing at"):
        started("parquet", path=str(tmp_path / "mistyped"))
    started("parquet", path=str(tmp_path / "in"))
    started("parquet", path=str(tmp_path / "other" / ".." / "in"))
    with pytest.raises(
        InvalidDataflow, match=r"of a query that reads parquet .*/in, and the source 'ids' is parquet .*/other: give"
    ):
        started("parquet", path=str(tmp_path / "other"))
    with pytest.raises(InvalidDataflow, match=r"and the source 'ids' is rate: give the source that it was begun with"):
        started("rate")


def test_rows_of_a_stream_are_sent_again_as_the_same(spark, tmp_path, monkeypatch):
    """A driver that ends when it has sent: Spark runs the batch again, and a receiver knows all of its rows."""
    folder, asked, sent = str(tmp_path / "in"), [], []
    spark.range(30, numPartitions=2).write.parquet(folder)
    real = whole_batch.Sending.send

    def second_time(self):
        real(self)
        sent.append(self.batch)
        if len(sent) == 1:
            raise RuntimeError("not now")

    monkeypatch.setattr(whole_batch.Sending, "send", second_time)
    with LineReceiver() as receiver:
        flow = evenly.Flow("sent")
        ids = flow.source("ids", format="parquet", path=folder, schema="id long")
        to = {"host": "127.0.0.1", "port": receiver.port, "policy": "lbf", "link": f"test-{receiver.port}"}
        texts = ids.shuffle(2).row(lambda row: str(row.id), schema="text string", name="text")
        texts.sink("a/b ö", format="tcp", options=to)
        texts.sink("beside", function=lambda _, number: asked.append(number))
        with pytest.raises(Exception, match="not now"):
            evenly.run(flow, spark=spark, checkpoint=tmp_path / "c", trigger=NOW).awaitTermination()
        evenly.run(flow, spark=spark, checkpoint=tmp_path / "c", trigger=NOW).awaitTermination()
        found = receiver.rows()
        assert (asked, sent) == ([0], [0, 0])
        assert len(found) == 60
        assert sorted(int(row[-1]) for row in without_doubles(found)) == list(range(30))
        shutil.copytree(tmp_path / "c", tmp_path / "copy")
        with pytest.raises(CheckpointMismatch, match="is a copy of"):
            evenly.run(flow, spark=spark, checkpoint=tmp_path / "copy", trigger=NOW)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"host": "x"}, "give it the option 'port'"),
        ({"host": "x", "port": "many"}, "the option 'port' of the sink 'sent' must be a number"),
        ({"host": "x", "port": 1, "polcy": "lbf"}, "has no option 'polcy'"),
        ({"host": "x", "port": 1, "policy": "best"}, "the sink 'sent': .*best"),
    ],
)
def test_a_sink_that_cannot_send_is_refused_before_anything_runs(spark, options, said):
    flow = evenly.Flow("sent")
    flow.source("ids", function=lambda session: session.range(1)).sink("sent", format="tcp", options=options)
    with pytest.raises(InvalidDataflow, match=said):
        evenly.run(flow, spark=spark)


SUBMITTED = """
dataflow: "sub's"
operators:
  ids: {kind: source, function: "ids:few"}
  next: {kind: row, function: "ids:Next", schema: "id long"}
  out: {kind: sink, format: parquet, path: PATH}
edges:
  - {from: ids, to: next, grouping: shuffle, instances: 2}
  - [next, out]
"""
MODULE = """
class Next:
    def __call__(self, row):
        return {"id": row.id + 1}


def few(spark):
    assert spark.sparkContext.master == "local[1]", spark.sparkContext.master
    return spark.range(3)
"""


def test_the_script_runs_under_spark_submit_with_its_master(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ids.py").write_text(MODULE)
    flow = parse_dataflow(SUBMITTED.replace("PATH", str(tmp_path / "out")))
    (tmp_path / "job.py").write_text(job_script(flow, None, None, exactly_once=True))
    assert "spark-submit --py-files ids.py job.py" in (tmp_path / "job.py").read_text()
    source = Path(evenly.__file__).parents[1]
    done = subprocess.run(
        [Path(sys.executable).parent / "spark-submit", "--master", "local[1]", "--py-files", "ids.py", "job.py"],
        env={**os.environ, "PYTHONPATH": str(source), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert {row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()} == {1, 2, 3}
