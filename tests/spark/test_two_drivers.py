"""Two drivers on one checkpoint at once: what was overtaken ends with an error, and what is there is of one of them."""

from __future__ import annotations

from collections import Counter

import pytest

import evenly
from evenly.errors import CheckpointMismatch, UnwritableFile
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.streaming.newest_run import NewestRun

ONCE = {"availableNow": True}
OVERTAKEN = r"another run of the query .* has begun a batch .* Run one query on a checkpoint at a time"


def same(row):
    return row


@pytest.fixture
def source(spark, tmp_path):
    path = str(tmp_path / "in")
    spark.range(60, numPartitions=2).write.parquet(path)
    return path


@pytest.fixture
def another(spark, tmp_path):
    """Another driver, which begins its first batch as soon as it is called, and no more than once."""
    others = []

    def begins(*_):
        if not others:
            others.append(NewestRun(spark, str(tmp_path / "checkpoint")))
            assert others[0].begin()

    return begins


def test_a_dataflow_that_was_overtaken_puts_nothing_in_its_folder_and_the_next_run_puts_all(spark, source, tmp_path, another):
    flow = evenly.Flow("two drivers")
    read = flow.source("read", format="parquet", path=source)
    read.sink("other", function=another)  # sinks are written one after the other
    read.row(same, schema="id long").sink("kept", format="parquet", path=str(tmp_path / "kept"))
    options = {"spark": spark, "checkpoint": tmp_path / "checkpoint", "trigger": ONCE}
    with pytest.raises(CheckpointMismatch, match=OVERTAKEN):
        evenly.run(flow, **options).awaitTermination()
    assert not list((tmp_path / "kept").glob("batch=*"))
    evenly.run(flow, **options).awaitTermination()
    found = Counter(row.id for row in spark.read.parquet(str(tmp_path / "kept")).select("id").collect())
    assert found == Counter(range(60))
    assert not list((tmp_path / "kept" / "_evenly" / "writing").glob("*"))


def test_costs_of_an_overtaken_run_are_not_kept_and_its_batch_is_not_committed(spark, source, tmp_path, another):
    written = []

    def sink(results, number):
        another()
        written.append((number, sorted(row.id for row in results.collect())))

    options = {"cost_key": "id", "instances": 2, "sink": sink, "checkpoint": tmp_path / "checkpoint", "trigger": ONCE}
    rows = spark.readStream.schema("id long").parquet(source)
    with pytest.raises(CheckpointMismatch, match=OVERTAKEN):
        evenly.stream_apply_by_cost(rows, same, "id long", **options).awaitTermination()
    assert not list((tmp_path / "checkpoint").glob("commits/0"))
    assert not list((tmp_path / "checkpoint").glob("evenly/costs/*"))
    evenly.stream_apply_by_cost(rows, same, "id long", **options).awaitTermination()
    assert written == [(0, list(range(60)))] * 2


def test_a_folder_takes_the_place_of_another_and_is_never_put_into_it(spark, tmp_path, monkeypatch):
    folder = Folder(spark, str(tmp_path))
    for name in ("mine", "theirs"):
        folder.child(name).write("rows", name)
    folder.replace("mine", "batch=0")
    assert (folder.names(), folder.read("batch=0/rows")) == (["batch=0", "theirs"], b"mine")
    folder.replace("theirs", "batch=0")
    assert (folder.names(), folder.read("batch=0/rows")) == (["batch=0"], b"theirs")
    folder.child("mine").write("rows", "mine")
    monkeypatch.setattr(Folder, "remove", lambda *_: None)  # as if the other one had put its own there just then
    with pytest.raises(UnwritableFile, match="batch=0 cannot be written"):
        folder.replace("mine", "batch=0")
    assert [path.name for path in (tmp_path / "batch=0").iterdir() if not path.name.startswith(".")] == ["rows"]
