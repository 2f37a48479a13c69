"""Dataflows run on a real session: as a batch and as a stream, row for row what plain Spark gives."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.dataflow.files import dataflow_yaml
from evenly.errors import FunctionFailed, InvalidDataflow, InvalidParameter
from evenly.spark.costs.store import CostStore

WORDS = "id long, word string"


def split(row):
    for word in row.text.split():
        yield {"id": row.id, "word": word}


def lengths(batch):
    return pa.table({"id": batch["id"], "n": pc.cast(pc.utf8_length(batch["word"]), pa.int64())})


def same(row):
    return row


def size(row):
    return len(row.text)


def counted(placed):
    return placed.groupBy("word", "slot").count()


def fails(row):
    raise ValueError(f"no {row.id}")


@pytest.fixture(scope="module")
def lines(spark, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("flows") / "in")
    text = F.concat_ws(" ", F.lit("w"), F.col("id") % 7, F.col("id") % 3)
    spark.range(300, numPartitions=3).select("id", text.alias("text")).write.parquet(path)
    return path


@pytest.fixture
def rows(spark, tmp_path):
    """What a sink has, each row with how often it is there."""

    def read(name, *columns):
        return Counter(map(tuple, spark.read.parquet(str(tmp_path / name)).select(*columns).collect()))

    return read


def fan_out(lines, folder):
    """One worker whose rows leave it at two places, one of them read twice."""
    flow = evenly.Flow("words")
    words = flow.source("lines", format="parquet", path=lines).shuffle(2).row(split, schema=WORDS, threads=3)
    words.batch(lengths, schema="id long, n long", name="length").sink(
        "lengths", format="parquet", path=str(folder / "lengths")
    )
    again = words.row(same, schema=WORDS, threads=2)
    again.where("word = 'w'").sink("ws", format="parquet", path=str(folder / "ws"))
    again.sink("all", format="parquet", path=str(folder / "all"))
    return flow


def expected(spark, lines):
    words = spark.read.parquet(lines).select("id", F.explode(F.split("text", " ")).alias("word"))
    return Counter(map(tuple, words.collect()))


def check(found, rows):
    assert rows("all", "id", "word") == found
    assert rows("ws", "id", "word") == Counter({row: count for row, count in found.items() if row[1] == "w"})
    sizes = Counter()
    for (identity, word), count in found.items():
        sizes[identity, len(word)] += count
    assert rows("lengths", "id", "n") == sizes


def ended(query):
    if query is not None:
        query.awaitTermination()


def persisted(spark):
    return spark.sparkContext._jsc.getPersistentRDDs().size()


def test_a_batch_gives_what_spark_gives_and_leaves_nothing_behind(spark, lines, tmp_path, rows):
    before, watch = persisted(spark), evenly.FlowWatch()
    assert evenly.run(fan_out(lines, tmp_path), spark=spark, watch=watch) is None
    check(expected(spark, lines), rows)
    assert persisted(spark) == before
    (batch,) = watch.batches
    assert {name: (it.rows_in, it.rows_out, it.instances) for name, it in batch.operators.items()} == {
        "split": (300, 900, 2),
        "length": (900, 900, 2),
        "same": (900, 900, 2),
    }


def test_a_stream_gives_the_same_and_goes_on_after_a_restart(spark, tmp_path, rows, lines):
    path = tmp_path / "in"
    spark.read.parquet(lines).where("id < 200").write.parquet(str(path))
    before = persisted(spark)
    flow, watch = fan_out(str(path), tmp_path).dataflow(), evenly.FlowWatch()
    for part in ("id < 0", "id >= 200"):
        spark.read.parquet(lines).where(part).write.mode("append").parquet(str(path))
        evenly.run(
            flow,
            spark=spark,
            checkpoint=tmp_path / "checkpoint",
            trigger={"availableNow": True},
            query_name="words",
            watch=watch,
        ).awaitTermination()
    check(expected(spark, lines), rows)
    assert [(it.number, it.operators["split"].rows_in) for it in watch.batches] == [(0, 200), (1, 100)]
    assert set(spark.read.parquet(str(tmp_path / "all")).select("batch").distinct().collect()) == {(0,), (1,)}
    assert persisted(spark) == before


def test_a_batch_that_is_run_again_is_written_once(spark, lines, tmp_path, rows):
    """A sink that fails once behind the others: Spark runs the batch again after a restart."""
    asked = []

    def second_time(found, batch_id):
        asked.append((batch_id, found.count()))
        if len(asked) == 1:
            raise RuntimeError("not now")

    words = evenly.Flow("again")
    read = words.source("lines", format="parquet", path=lines)
    read.row(split, schema=WORDS).sink("all", format="parquet", path=str(tmp_path / "all"))
    read.sink("last", function=second_time)
    query = evenly.run(words, spark=spark, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True})
    with pytest.raises(Exception, match="not now"):
        query.awaitTermination()
    evenly.run(words, spark=spark, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True}).awaitTermination()
    assert asked == [(0, 300), (0, 300)]
    assert rows("all", "id", "word") == expected(spark, lines)


def test_state_is_placed_by_key_and_what_follows_it_runs_in_each_batch(spark, lines, tmp_path, rows):
    flow = evenly.Flow("counts")
    words = flow.source("lines", format="parquet", path=lines).row(split, schema=WORDS)
    counts = words.by_key("word").state(counted)
    counts.row(same, schema="word string, slot int, count long").sink("counts", format="parquet", path=str(tmp_path / "counts"))
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for number in (2, 3):  # a restart keeps what its state was begun with
            spark.conf.set("spark.sql.shuffle.partitions", number)
            query = evenly.run(flow, spark=spark, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True})
            query.awaitTermination()
            assert query.mapping.instances == 2
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
    assert isinstance(query, evenly.KeyedQuery)
    found = Counter()
    for (_, word), count in expected(spark, lines).items():
        found[word] += count
    assert rows("counts", "word", "count") == Counter(dict.fromkeys(found.items(), 1))


def test_costs_are_learnt_from_batch_to_batch_and_kept_for_a_restart(spark, lines, tmp_path, rows):
    flow = evenly.Flow("costs")
    read = flow.source("lines", format="parquet", path=lines, options={"maxFilesPerTrigger": "1"})
    sized = read.by_cost("text", instances=2).row(size, schema="n long", name="si/ze")
    sized.sink("sizes", format="parquet", path=str(tmp_path / "sizes"))
    sized.sink("again", format="parquet", path=str(tmp_path / "again"))
    for _ in range(2):
        evenly.run(flow, spark=spark, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True}).awaitTermination()
    assert rows("sizes", "n") == rows("again", "n") == {(5,): 300}
    kept = CostStore(spark, str(tmp_path / "checkpoint"), "si/ze").newest()
    assert kept.last_batch == 2
    assert kept.model.rows >= 100.0


def test_by_cost_to_one_sink_takes_no_more_jobs_than_a_shuffle_and_learns_all_the_same(spark, lines, tmp_path, rows):
    def jobs(name, group, watch=None):
        flow, at = evenly.Flow(name), tmp_path / f"{name} checkpoint"
        read = flow.source("lines", format="parquet", path=lines, options={"maxFilesPerTrigger": "1"})
        sized = group(read).row(size, schema="n long", name="size").row(lambda row: row.n + 1, schema="n long", name="next")
        sized.sink("sizes", format="parquet", path=str(tmp_path / name))
        query = evenly.run(flow, spark=spark, checkpoint=at, trigger={"availableNow": True}, watch=watch)
        query.awaitTermination()
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(query.runId))

    before, watch = persisted(spark), evenly.FlowWatch()
    by_cost = jobs("cost", lambda read: read.by_cost("text", instances=2), watch)
    assert by_cost == jobs("shuffle", lambda read: read.shuffle(instances=2)) > 0
    assert rows("cost", "n") == rows("shuffle", "n") == {(6,): 300}
    assert persisted(spark) == before
    kept = CostStore(spark, str(tmp_path / "cost checkpoint"), "size").newest()
    assert (kept.last_batch, kept.state) == (2, "run")
    assert kept.model.rows >= 100.0
    assert [batch.operators["size"].rows_in for batch in watch.batches] == [100, 100, 100]


def test_a_dataflow_of_functions_runs_from_its_yaml(spark, lines, tmp_path, rows):
    path = tmp_path / "flow.yaml"
    path.write_text(dataflow_yaml(fan_out(lines, tmp_path).dataflow()))
    evenly.run(path, spark=spark)
    check(expected(spark, lines), rows)
    with pytest.raises(InvalidDataflow, match=r"flow\.yaml, line \d+: the sink 'lengths' cannot be written: .*files already"):
        evenly.run(path, spark=spark)


@pytest.mark.parametrize("checkpoint", [None, "checkpoint"])
def test_a_row_that_fails_is_told_with_its_operator(spark, lines, tmp_path, checkpoint):
    flow = evenly.Flow("fails")
    read = flow.source("lines", format="parquet", path=lines)
    read.row(same, schema="id long, text string").row(fails, schema="id long").sink("sink", format="noop")
    at = None if checkpoint is None else tmp_path / checkpoint
    with pytest.raises(FunctionFailed, match=r"the operator 'fails' raised ValueError: no \d+; on"):
        ended(evenly.run(flow, spark=spark, checkpoint=at, trigger=at and {"availableNow": True}))


def test_what_is_wrong_is_said_before_anything_runs(spark, lines, tmp_path):
    def flow(path=lines, **row):
        made = evenly.Flow("wrong")
        read = made.source("lines", format="parquet", path=path)
        read.row(same, **{"schema": "id long, text string", "name": "same"} | row).sink(
            "sink", format="parquet", path=str(tmp_path / "out")
        )
        return made

    for checkpoint in (None, tmp_path / "checkpoint"):
        with pytest.raises(InvalidDataflow, match=r"the source 'lines' cannot be read: there is nothing at"):
            evenly.run(flow(str(tmp_path / "nothing")), spark=spark, checkpoint=checkpoint)
    with pytest.raises(InvalidParameter, match="give its checkpoint= too"):
        evenly.run(flow(), spark=spark, trigger={"availableNow": True})
    with pytest.raises(InvalidParameter, match="flow must be a Dataflow"):
        evenly.run(5, spark=spark)
    unknown = evenly.Flow("unknown")
    unknown.source("lines", format="parquet", path=lines).row("no.such:function", schema="id long").sink("s", format="noop")
    with pytest.raises(InvalidDataflow, match=r"no\.such:function cannot be loaded"):
        evenly.run(unknown, spark=spark)
    joined = evenly.Flow("joined")
    read = joined.source("lines", format="parquet", path=lines)
    words = read.row(split, schema=WORDS).shuffle(2)
    words.and_also(read.shuffle(2)).row(same, schema="id long").sink("s", format="noop")
    with pytest.raises(InvalidDataflow, match="the edges to 'same' have different columns"):
        evenly.run(joined, spark=spark, checkpoint=tmp_path / "checkpoint")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "checkpoint").exists()


def dotted(row):
    return {"a.b": row["a.b"] + 1, "n": len(row)}


def test_names_with_dots_and_rows_without_columns(spark, tmp_path, rows):
    flow = evenly.Flow("names")
    read = flow.source("rows", function=lambda session: session.range(3).toDF("a.b"))
    read.row(dotted, schema="`a.b` long, n long").sink("out", format="parquet", path=str(tmp_path / "out"))
    evenly.run(flow, spark=spark)
    assert rows("out", "`a.b`", "n") == {(1, 1): 1, (2, 1): 1, (3, 1): 1}
    empty = evenly.Flow("empty")
    read = empty.source("rows", function=lambda session: session.range(3).select())
    read.row(len, schema="n long", name="len").sink("out", format="parquet", path=str(tmp_path / "empty"))
    evenly.run(empty, spark=spark)
    assert rows("empty", "n") == {(0,): 3}


def to(path, lines):
    flow = evenly.Flow("owned")
    flow.source("lines", format="parquet", path=lines).sink("out", format="parquet", path=str(path))
    return flow


def test_a_folder_of_another_query_is_not_written_to(spark, lines, tmp_path):
    """Its batches have the same numbers, and would be replaced."""

    def started(checkpoint, path=tmp_path / "out"):
        query = evenly.run(to(path, lines), spark=spark, checkpoint=tmp_path / checkpoint, trigger={"availableNow": True})
        query.awaitTermination()

    started("one")
    started("one")
    with pytest.raises(InvalidDataflow, match="has the batches of another query"):
        started("two")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "data.txt").write_text("mine")
    with pytest.raises(InvalidDataflow, match=r"where 'data\.txt' is already"):
        started("three", tmp_path / "used")
    with pytest.raises(InvalidDataflow, match="'lines' and 'out' have the same path"):
        started("four", f"{lines}/../in/")
    (tmp_path / "link").symlink_to(lines)
    with pytest.raises(InvalidDataflow, match="'lines' and 'out' have the same path"):
        started("five", tmp_path / "link")
    flow = evenly.Flow("found")
    flow.source("lines", format="parquet", path=f"{tmp_path}/i*").sink("more", format="parquet", path=f"{tmp_path}/into")
    with pytest.raises(InvalidDataflow, match="'lines' and 'more' have a path in the other's"):
        evenly.run(flow, spark=spark)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 300


def test_edges_whose_columns_have_other_types_do_not_meet(spark, tmp_path):
    flow = evenly.Flow("types")
    numbers = flow.source("numbers", function=lambda session: session.range(2))
    texts = flow.source("texts", function=lambda session: session.range(2).selectExpr("string(id) as id"))
    numbers.and_also(texts).row(same, schema="id long").sink("out", format="parquet", path=str(tmp_path / "out"))
    with pytest.raises(InvalidDataflow, match=r"the edges to 'same' have different columns \(id bigint; id string\)"):
        evenly.run(flow, spark=spark)
