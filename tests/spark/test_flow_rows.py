"""Rows that a dataflow might lose, double or change without a word: none of them does."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidDataflow
from evenly.spark.flows import whole_batch
from line_receiver import LineReceiver
from waiting import PATIENT_S


def same(row):
    return row


def numbers(flow, name="numbers", begin=0, end=6, *columns):
    return flow.source(name, function=lambda session: session.range(begin, end, 1, 2).selectExpr(*(columns or ("id",))))


def collected(flow, spark, *streams, **options):
    """What sinks of these streams get, each row with how often."""
    found = {}

    def into(at):
        def sink(frame, _number):
            found.setdefault(at, Counter()).update(map(tuple, frame.collect()))

        return sink

    for at, stream in enumerate(streams):
        stream.sink(f"sink {at}", function=into(at))
    evenly.run(flow, spark=spark, **options)
    return [found[at] for at in range(len(streams))]


def test_rows_of_several_edges_come_once_and_by_the_names_of_their_columns(spark):
    """Behind a shuffle, and in one worker, where two inputs have their columns in another order."""
    flow = evenly.Flow("union")
    one, other = numbers(flow), numbers(flow, "more", 6, 9)
    shuffled = one.shuffle(2).and_also(other.shuffle(2)).row(same, schema="id long", name="shuffled")
    left = one.row(lambda row: (row.id, -row.id), schema="a long, b long", name="left")
    right = one.row(lambda row: (-row.id, row.id), schema="b long, A long", name="right")
    both = left.and_also(right).row(lambda row: row, schema="a long, b long", name="both")
    batches = left.and_also(right).batch(lambda batch: batch, schema="b long, a long", name="batches")
    first, second, third = collected(flow, spark, shuffled, both, batches)
    assert first == Counter((number,) for number in range(9))
    assert second == Counter({(number, -number): 2 for number in range(6)})
    assert third == Counter({(-number, number): 2 for number in range(6)})


def test_a_row_by_cost_gives_nothing_one_or_many_as_elsewhere(spark):
    class Twice:
        made = 0

        def __init__(self):
            self.calls = 0

        def __call__(self, row):
            self.calls += 1
            return None if row.id == 0 else [{"id": row.id, "v": row.v}] * row.id

        def close(self):
            assert self.calls

    async def later(row):
        return (row.id, row.v)

    flow = evenly.Flow("cost")
    read = numbers(flow, "numbers", 0, 4, "id", "map('k', id) as v")
    schema = "id long, v map<string, long>"
    found, waited = collected(
        flow,
        spark,
        read.by_cost("id", instances=2).row(Twice, schema=schema).frame(lambda rows: rows.selectExpr("id", "v['k']"), name="f"),
        read.by_cost("id", instances=2).row(later, schema=schema, threads=2).frame(lambda rows: rows.select("id"), name="g"),
    )
    assert found == Counter({(number, number): number for number in range(1, 4)})
    assert waited == Counter((number,) for number in range(4))


def test_rows_of_a_key_meet_whichever_edge_they_come_by_and_are_made_once(spark, tmp_path):
    """A task counts the rows of its keys: each key is in one task. What is read to learn keys is not made anew."""
    calls = str(tmp_path / "calls")

    def marked(row):
        with Path(calls).open("a") as file:
            file.write(".")
        return row

    class Counting:
        def __init__(self):
            self.seen = set()

        def __call__(self, row):
            new = row.k not in self.seen
            self.seen.add(row.k)
            return row.k if new else None

    flow = evenly.Flow("meet")
    one, other = numbers(flow, "one", 0, 40, "id % 5 as k"), numbers(flow, "other", 0, 40, "id % 7 as k")
    left = one.row(marked, schema="k long", name="left")
    met = left.by_key("k", instances=3).and_also(other.by_key("k", instances=3)).row(Counting, schema="k long")
    (found,) = collected(flow, spark, met)
    assert found == Counter((key,) for key in range(7))
    assert len((tmp_path / "calls").read_text()) == 40


TYPES = {
    "d": "cast(id as decimal(38, 10))",
    "t": "timestamp_micros(1711846800000000 + id)",
    "n": "cast(timestamp_micros(id) as timestamp_ntz)",
    "i": "make_dt_interval(id, 1, 2, 3.5)",
    "m": "if(id = 1, null, map('a', id, 'b', null))",
    "s": "if(id = 1, null, named_struct('x', id, 'm', map(id, array(named_struct('y', id)))))",
    "b": "cast(string(id) as binary)",
    "v": "parse_json('{\"a\": [1, null]}')",
    "z": "null",
    "e": "array()",
    "exit": "id",
    "e0": "-id",
    "c0": "date_add(date'1900-01-01', int(id))",
}


@pytest.mark.parametrize("one", [False, True])
def test_every_type_comes_out_as_it_went_in(spark, one):
    """Through rows and batches, by one way out and by two; a column alone too, which a function may return as it is."""
    read = spark.range(3).selectExpr(*(f"{value} as `{name}`" for name, value in TYPES.items()))
    names = list(TYPES)
    flow = evenly.Flow("types")
    streams, wanted = [], []
    for at, part in enumerate([[name] for name in ("s", "m", "e", "v")] if one else [names]):
        frame = read.select(*part)
        schema = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema.fields)
        source = flow.source(f"source {at}", function=lambda _, frame=frame: frame)
        rows = source.row(same, schema=schema, name=f"rows {at}", threads=2)
        streams += [rows, rows.batch(lambda batch: batch, schema=schema, name=f"batches {at}")]
        wanted += [frame, frame]
    text = "cast(struct(*) as string) as text"
    told = [stream.frame(lambda rows: rows.selectExpr(text), name=f"text {at}") for at, stream in enumerate(streams)]
    found = collected(flow, spark, *told)
    assert found == [Counter(map(tuple, frame.selectExpr(text).collect())) for frame in wanted]


def test_what_a_user_has_persisted_stays_persisted(spark):
    kept = spark.range(3).withColumn("u", F.expr("uuid()")).persist()
    before = kept.collect()
    flow = evenly.Flow("kept")
    read = flow.source("rows", function=lambda _session: kept)
    collected(flow, spark, read, read.where("id > 0").where("id < 2"))
    assert kept.collect() == before
    kept.unpersist()


def test_a_column_called_as_the_folders_of_batches_is_refused(spark, tmp_path):
    """Whoever reads the folder would find the number of the batch in it."""
    spark.range(3).toDF("Batch").write.parquet(str(tmp_path / "in"))
    flow = evenly.Flow("batch")
    flow.source("rows", format="parquet", path=str(tmp_path / "in")).sink("out", format="parquet", path=str(tmp_path / "out"))
    with pytest.raises(InvalidDataflow, match="the sink 'out' gets a column 'batch'"):
        evenly.run(flow, spark=spark, checkpoint=tmp_path / "checkpoint")
    assert not (tmp_path / "out").exists()


def test_conditions_add_up_and_null_is_not_true(spark):
    flow = evenly.Flow("where")
    read = flow.source("rows", function=lambda session: session.createDataFrame([(1,), (None,), (2,), (3,), (3,)], "v int"))
    (found,) = collected(flow, spark, read.where("v > 1").where("v <> 2"))
    assert found == Counter({(3,): 2})


def test_a_stream_is_sent_again_as_the_same_rows(spark, tmp_path, monkeypatch):
    """They come in another order the second time: identities stay those of the rows that were sent first."""
    spark.range(40).write.parquet(str(tmp_path / "in"))
    failed, real = [], whole_batch.Sending.send

    def fails_once(self):
        real(self)
        if not failed:
            failed.append(True)
            raise RuntimeError("not now")

    monkeypatch.setattr(whole_batch.Sending, "send", fails_once)

    order = iter([1, -1] * 100)

    def turned(frame):
        return frame.coalesce(1).sortWithinPartitions(F.col("id") * next(order))

    with LineReceiver() as lines:
        flow = evenly.Flow("sent")
        rows = flow.source("rows", format="parquet", path=str(tmp_path / "in")).frame(turned)
        rows.sink("line/receiver ü", format="tcp", options={"host": "127.0.0.1", "port": lines.port})
        rows.sink("beside", function=lambda _frame, _number: None)

        def started():
            return evenly.run(flow, spark=spark, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True})

        with pytest.raises(Exception, match="not now"):
            started().awaitTermination()
        started().awaitTermination()
        came = lines.rows()
    assert len(came) == 80
    by_identity = {}
    for *identity, body in came:
        by_identity.setdefault(tuple(identity), set()).add(bytes(body))
    assert len(by_identity) == 40
    assert all(len(bodies) == 1 for bodies in by_identity.values())
    assert len(set().union(*by_identity.values())) == 40


def test_mistakes_that_only_spark_can_see_are_told_with_their_line_before_anything_is_written(spark, tmp_path):
    spark.range(3).selectExpr("id", "cast(id as string) as text", "make_ym_interval(1, int(id)) as month").write.mode(
        "overwrite"
    ).parquet(str(tmp_path / "in"))
    text = f"""
dataflow: mistaken
operators:
  read: {{kind: source, format: parquet, path: "{tmp_path}/in"}}
  one: {{kind: row, function: "json:dumps", schema: "id long"}}
  frame: {{kind: frame, function: "{__name__}:without_month"}}
  sink: {{kind: sink, format: parquet, path: "{tmp_path}/out"}}
edges:
  - [read, frame]
  - [frame, one]
  - [one, sink]
"""
    sink = f'format: parquet, path: "{tmp_path}/out"'
    (tmp_path / "none").mkdir()
    (tmp_path / "other").write_text("no Parquet")
    read = f'format: parquet, path: "{tmp_path}/in"'
    for before, after, line, said in [
        (
            read,
            f'format: parquet, path: "{tmp_path}/nowhere"',
            4,
            f"there is nothing at {tmp_path}/nowhere: correct its `path`",
        ),
        (read, f'format: parquet, path: "{tmp_path}/x*"', 4, "nothing matches the pattern"),
        (read, f'format: parquet, path: "{tmp_path}/none"', 4, "give the source a `schema`"),
        (read, f'format: parquet, path: "{tmp_path}/other"', 4, "is not of the format parquet"),
        (read, "format: table, path: no_such_table", 4, "this session has no table or view no_such_table"),
        (read, f'format: parkuet, path: "{tmp_path}/in"', 4, "Spark knows no format 'parkuet'"),
        (read, 'format: parquet, path: "nowhere://b/x"', 4, "on a file system that this Spark cannot reach"),
        ("[frame, one]", '{from: frame, to: one, where: "id > 1) or (1 = 1"}', 10, "PARSE_SYNTAX_ERROR"),
        ('"id long"', '"id lonng"', 5, "the schema of 'one' cannot be used"),
        ('"id long"', '"id long, id long"', 5, "names the field 'id' twice"),
        ('"id long"', '"id interval year"', 5, "the schema of 'one' cannot be used"),
        ("[frame, one]", "{from: frame, to: one, grouping: key, columns: nothing}", 10, "there is no column 'nothing'"),
        ("[frame, one]", "{from: frame, to: one, grouping: cost, columns: nothing}", 10, "frame -> one cannot be taken"),
        ("[frame, one]", '{from: frame, to: one, where: "id >"}', 10, "frame -> one cannot be taken"),
        ("[frame, one]", '{from: frame, to: one, where: "nothing > 1"}', 10, "frame -> one cannot be taken"),
        ("[frame, one]", "[frame, one]\n  - [read, one]", 5, "the edges to 'one' have different columns"),
        ("[frame, one]", "[read, one]\n  - [frame, sink]", 5, "'one' cannot get its rows"),
        (sink, "format: kafka, options: {kafka.bootstrap.servers: h, topic: t}", 7, "it takes a column `value`"),
        (sink, f'format: text, path: "{tmp_path}/out"', 7, "is text: it takes one column, a string"),
        (sink, f'format: parquet, path: "{tmp_path}/in/out"', 7, "have a path in the other's"),
        (sink, "format: tcp, options: {host: h, port: 1, policy: best}", 7, "there is no emission policy 'best'"),
    ]:
        path = tmp_path / "flow.yaml"
        assert before in text
        path.write_text(text.strip("\n").replace(before, after, 1).replace("\ndataflow", "dataflow"))
        for checkpoint in (None, tmp_path / "checkpoint"):
            with pytest.raises(InvalidDataflow) as error:
                evenly.run(path, spark=spark, checkpoint=checkpoint)
            assert f"flow.yaml, line {line - 1}: " in str(error.value), error.value
            assert said in str(error.value)
    assert not (tmp_path / "out").exists()


def without_month(rows):
    return rows.drop("month")


def test_a_batch_is_not_half_written_because_a_later_folder_is_taken(spark, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    flow = evenly.Flow("taken")
    read = numbers(flow)
    read.sink("free", format="parquet", path=str(tmp_path / "free"))
    read.sink("taken", format="parquet", path=str(tmp_path / "taken"))
    with pytest.raises(InvalidDataflow, match=r"the sink 'taken' cannot be written: .* has files already"):
        evenly.run(flow, spark=spark)
    assert not (tmp_path / "free").exists()


def test_a_table_is_read_and_appended_to(spark):
    try:
        for _ in range(2):
            flow = evenly.Flow("table")
            numbers(flow).sink("kept", format="table", path="flow_rows")
            evenly.run(flow, spark=spark)
        assert spark.table("flow_rows").count() == 12
    finally:
        spark.sql("drop table if exists flow_rows")


def test_batches_of_arrow_that_are_tables_are_one_piece(spark):
    flow = evenly.Flow("tables")
    made = numbers(flow).batch(lambda batch: pa.concat_tables([pa.table({"id": batch["id"]})] * 2), schema="id long", name="b")
    (found,) = collected(flow, spark, made)
    assert found == Counter({(number,): 2 for number in range(6)})


def test_runs_of_one_dataflow_at_once_do_not_let_go_of_each_others_rows(spark):
    """To Spark their plans are the same, and what one has persisted is the other's: one ends while the other is at work."""
    ended = threading.Event()
    found = {}

    def drawn(row):
        return row.id, uuid.uuid4().hex

    def run(name, before_second):
        def first(frame, _number):
            found[name, 1] = sorted(frame.collect())

        def second(frame, _number):
            before_second()
            found[name, 2] = sorted(frame.collect())

        flow = evenly.Flow("drawn")
        rows = flow.source("rows", function=lambda session: session.range(4)).row(drawn, schema="id long, u string")
        rows.sink("first", function=first)
        rows.sink("second", function=second)
        evenly.run(flow, spark=spark)

    def other():
        run("other", lambda: None)
        ended.set()

    thread = threading.Thread(target=other)

    def meanwhile():
        thread.start()
        assert ended.wait(PATIENT_S)

    run("one", meanwhile)
    thread.join()
    assert found["one", 1] == found["one", 2]
    assert found["other", 1] == found["other", 2]
    assert found["one", 1] != found["other", 1]


def test_a_sink_that_does_not_read_its_rows_does_not_keep_state_from_going_on(spark, tmp_path):
    """Spark computes what is asked for: an instance that nobody asked for would have no state for the next batch."""
    seen = []

    def looks(frame, number):
        if number == 2:
            seen.extend(frame.select("count").distinct().collect())
        elif number == 1:
            frame.take(1)

    flow = evenly.Flow("partly")
    read = flow.source("rows", format="parquet", path=str(tmp_path / "in"), schema="id long")
    counts = read.by_key("id", instances=4).state(lambda placed: placed.groupBy("id", "slot").count(), name="counts")
    counts.sink("looks", function=looks)
    for _ in range(3):
        spark.range(40).write.mode("append").parquet(str(tmp_path / "in"))
        evenly.run(flow, spark=spark, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True}).awaitTermination()
    assert seen == [(3,)]
