"""Sinks of a dataflow get the same rows, also where what is persisted is lost between two of them and computed again."""

import importlib
import uuid

import pytest

import evenly
from evenly.errors import WorkerDied
from evenly.spark.flows import whole_batch
from line_receiver import LineReceiver, without_doubles

streaming = importlib.import_module("evenly.spark.flows.streaming")

NOW = {"availableNow": True}
EVERY = list(range(60))


class Wavering:
    """Says of one row in ten that it is good in its first run, and that it is not in every other."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, row):
        mark = self.folder / str(row.id)
        good = row.id % 10 != 7 or not mark.exists()
        mark.touch()
        return row.id, good


class Losing:
    """Writes sinks; when one has been written what is persisted is lost, as with an executor, so many times."""

    def __init__(self, spark, times=1):
        self.spark, self.times, self.write, self.written = spark, times, streaming.write, []

    def __call__(self, flow, one, rows, batch):
        self.write(flow, one, rows, batch)
        self.written.append(one.name)
        if self.times:
            self.times -= 1
            for held in self.spark.sparkContext._jsc.getPersistentRDDs().values():
                level = held.getStorageLevel()
                held.unpersist(True)  # noqa: FBT003 - Java
                held.persist(level)


@pytest.fixture
def ids(spark, tmp_path):
    spark.range(60, numPartitions=2).write.parquet(str(tmp_path / "in"))
    return tmp_path


@pytest.fixture
def wavering(ids):
    (ids / "marks").mkdir()
    return Wavering(ids / "marks")


@pytest.fixture
def losing(spark, monkeypatch):
    found = Losing(spark)
    monkeypatch.setattr(streaming, "write", found)
    return found


def told_good(flow, tmp_path, function, how="shuffle"):
    read = flow.source("rows", format="parquet", path=str(tmp_path / "in"), schema="id long")
    placed = read.by_cost("id", instances=2) if how == "cost" else read.shuffle(instances=2)
    return placed.row(function, schema="id long, good boolean", name="tell")


def to_files(rows, name, tmp_path):
    rows.sink(name, format="parquet", path=str(tmp_path / name))


def found(spark, tmp_path, *names):
    return sorted(row.id for name in names for row in spark.read.parquet(str(tmp_path / name)).collect())


def run(flow, spark, tmp_path):
    evenly.run(flow, spark=spark, checkpoint=tmp_path / "checkpoint", trigger=NOW).awaitTermination()


def warned(caplog):
    return [it.getMessage() for it in caplog.records if it.name == streaming.__name__]


def itself(row):
    return row.id


@pytest.mark.parametrize("how", ["sinks", "cost", "exits", "key", "kept below"])
def test_a_row_takes_one_of_two_opposite_edges(spark, tmp_path, wavering, losing, caplog, how):
    """What one sink had been given was of one run, and what the other was given of the next: rows were in neither."""
    persisted = set(spark.sparkContext._jsc.getPersistentRDDs())
    flow = evenly.Flow("opposite")
    tell = told_good(flow, tmp_path, wavering, how)
    bad, good = tell.where("not good"), tell.where("good")
    if how == "exits":  # of one worker, in which the edges part
        bad, good = (rows.row(itself, schema="id long", name=name) for rows, name in ((bad, "of bad"), (good, "of good")))
    if how == "key":
        good = good.by_key("id", instances=2).row(itself, schema="id long", name="placed")
    if how == "kept below":
        good = good.shuffle(instances=2).row(itself, schema="id long", name="next")
        to_files(good.where("id < 0"), "none", tmp_path)
    to_files(bad, "bad", tmp_path)
    to_files(good, "good", tmp_path)
    run(flow, spark, tmp_path)
    assert found(spark, tmp_path, "bad", "good") == EVERY
    assert found(spark, tmp_path, "bad") == [at for at in EVERY if at % 10 == 7]
    assert len(losing.written) == 2 * (3 if how == "kept below" else 2)
    (said,) = warned(caplog)
    assert said.startswith("batch 0: results of ")
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= persisted


@pytest.mark.usefixtures("ids")
def test_rows_that_are_the_same_when_they_are_computed_again_are_not_written_again(spark, tmp_path, losing, caplog):
    flow = evenly.Flow("steady")
    tell = told_good(flow, tmp_path, lambda row: (row.id, row.id % 10 != 7))
    to_files(tell.where("not good"), "bad", tmp_path)
    tell.where("good").sink("good", format="parquet", path=str(tmp_path / "good"))
    tell.where("good").sink("seen", function=lambda rows, _: rows.isEmpty())  # what is read in part contradicts nothing
    run(flow, spark, tmp_path)
    assert losing.times == 0
    assert found(spark, tmp_path, "bad", "good") == EVERY
    assert losing.written == ["bad", "good", "seen"]
    assert warned(caplog) == []


def test_what_is_sent_is_of_the_run_that_files_are_of(spark, tmp_path, wavering, losing):
    """Nothing is sent before all sinks have got the same rows: what was sent could not be taken back."""
    with LineReceiver() as receiver:
        flow = evenly.Flow("sent")
        tell = told_good(flow, tmp_path, wavering)
        to = {"host": "127.0.0.1", "port": receiver.port}
        bad = tell.where("not good").row(lambda row: str(row.id), schema="text string", name="text")
        bad.sink("bad", format="tcp", options=to)
        to_files(tell.where("good"), "good", tmp_path)
        run(flow, spark, tmp_path)
        sent = [int(row[-1]) for row in receiver.rows()]
        assert sorted(sent) == [7, 17, 27, 37, 47, 57]
    assert losing.written == ["good", "good"]
    assert sorted([*sent, *found(spark, tmp_path, "good")]) == EVERY


@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_batch_that_is_run_again_after_a_kill_sends_what_is_of_the_run_of_its_files(
    spark, tmp_path, wavering, monkeypatch, killed
):
    """What was kept to be sent was of the first run, and files were of the second: rows were in neither."""
    real, times = whole_batch.Sending.send, []

    def killed_once(self):
        times.append(self.batch)
        if len(times) == 1:
            if killed == "after":
                real(self)
            raise RuntimeError("killed")
        real(self)

    monkeypatch.setattr(whole_batch.Sending, "send", killed_once)
    with LineReceiver() as receiver:
        flow, counted = evenly.Flow("killed"), []
        tell = told_good(flow, tmp_path, wavering)
        texts = tell.where("good").row(lambda row: str(row.id), schema="text string", name="text")
        texts.sink("sent", format="tcp", options={"host": "127.0.0.1", "port": receiver.port})
        to_files(tell.where("not good"), "bad", tmp_path)
        tell.sink("seen", function=lambda _, number: counted.append(number))
        with pytest.raises(Exception, match="killed"):
            run(flow, spark, tmp_path)
        tell.sink("added", format="parquet", path=str(tmp_path / "added"))
        run(flow, spark, tmp_path)
        sent = receiver.rows()
    assert sorted(int(row[-1]) for row in without_doubles(sent)) == EVERY
    assert len(sent) == (120 if killed == "after" else 60)
    assert found(spark, tmp_path, "bad") == []
    assert found(spark, tmp_path, "added") == EVERY
    assert counted == [0]


@pytest.mark.usefixtures("ids")
def test_sinks_that_never_get_the_same_rows_are_one_error(spark, tmp_path, losing):
    losing.times = 99
    flow = evenly.Flow("never")
    tell = told_good(flow, tmp_path, drawn)
    to_files(tell.where("not good"), "bad", tmp_path)
    to_files(tell.where("good"), "good", tmp_path)
    with pytest.raises(Exception, match="3 times in a row sinks of batch 0 got other rows than others: results of tell were"):
        run(flow, spark, tmp_path)


@pytest.mark.usefixtures("losing")
def test_a_batch_whose_sinks_got_other_rows_is_one_error(spark, tmp_path, wavering):
    """Sinks of a run as a batch may add to what was there: it cannot write them again."""
    flow = evenly.Flow("batch")
    tell = told_good(flow, tmp_path, wavering)
    to_files(tell.where("not good"), "bad", tmp_path)
    to_files(tell.where("good"), "good", tmp_path)
    with pytest.raises(WorkerDied, match="Sinks got other rows than others: results of tell were lost and computed again"):
        evenly.run(flow, spark=spark)


def drawn(row):
    return row.id, bool(uuid.uuid4().int % 2)


def test_state_counts_each_row_once_where_its_sinks_are_written_again(spark, tmp_path, wavering, losing, caplog):
    """What is lost are the results of the state, too: it is computed again from that of the batch before."""
    flow = evenly.Flow("counted")
    read = flow.source("rows", format="parquet", path=str(tmp_path / "in"), schema="id long")
    counts = read.by_key("id", instances=2).state(lambda placed: placed.groupBy("id", "slot").count(), name="count")
    tell = counts.row(lambda row: (*wavering(row), row["count"]), schema="id long, good boolean, count long", name="tell")
    to_files(tell.where("not good"), "bad", tmp_path)
    to_files(tell.where("good"), "good", tmp_path)
    counts.sink("counts", format="parquet", path=str(tmp_path / "counts"))
    for _ in range(2):
        losing.times = 2
        run(flow, spark, tmp_path)
        spark.range(60).write.mode("append").parquet(str(tmp_path / "in"))
        for mark in wavering.folder.iterdir():
            mark.unlink()
    assert found(spark, tmp_path, "bad", "good") == found(spark, tmp_path, "counts") == sorted(2 * EVERY)
    for name in ("good", "counts"):
        seen = spark.read.parquet(str(tmp_path / name)).select("batch", "count").distinct().collect()
        assert sorted(map(tuple, seen)) == [(0, 1), (1, 2)]
    assert losing.written == 4 * ["counts", "bad", "good"]
    assert [it.split(" were ")[0] for it in warned(caplog)] == [f"batch {number}: results of tell" for number in (0, 1)]
