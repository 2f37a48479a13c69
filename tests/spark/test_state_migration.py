"""State moved to another mapping under a stopped query: the query's answers stay those of plain Spark, to the last row."""

import shutil
import signal
import struct
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from moved_queries import OPERATORS, ROWS, SCHEMA, Query, aggregated, deduplicated, on_its_instance
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import ArrayType, StructType, _parse_datatype_string

from evenly.errors import DamagedData, ImmovableState, InvalidCheckpoint, InvalidParameter
from evenly.spark.keyed.learning import learn_mapping
from evenly.spark.placing.placement import with_slot
from evenly.spark.placing.slot_mark import MARK
from evenly.spark.state import migration as state_migration
from evenly.spark.state.layout import key_layout, key_path, value_paths
from evenly.spark.state.migration import STEPS, check_movable, migrate_state, recover
from evenly.spark.state.reading import JOIN
from evenly.streams import zipf
from evenly.worker.unsafe_rows import replace_slots

INSTANCES = 3
KEY = {"key": ("user",), "slot": "slot"}
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.sql.shuffle.partitions": str(INSTANCES),
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


@pytest.fixture(scope="module", autouse=True)
def settings(spark):
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Rows of skewed users in four files; other users are heavy in the last two."""
    folder = tmp_path_factory.mktemp("rows")
    for part in range(4):
        keys = zipf(1.1, 40).draw(ROWS, seed=part) * (1 if part < 2 else 7) % 53
        users = [None if key == 13 else f"user {key}" for key in keys.tolist()]
        rows = pd.DataFrame({"user": users, "moment": np.arange(ROWS) + ROWS * part, "amount": keys % 50 + part})
        rows.to_parquet(folder / f"{part}.parquet", index=False)
    return folder


@pytest.fixture(scope="module")
def mappings(spark, files):
    """One mapping for the first two files, and one for the last two."""
    first, second = (
        learn_mapping(
            spark.read.schema(SCHEMA).parquet(*(str(files / f"{part}.parquet") for part in parts)),
            key="user",
            instances=INSTANCES,
        )
        for parts in ((0, 1), (2, 3))
    )
    return first, replace(second, version=2)


@pytest.mark.parametrize("operator", OPERATORS)
def test_answers_after_a_move_are_those_of_plain_spark_and_every_group_is_on_its_new_instance(
    spark, files, mappings, tmp_path, operator
):
    old, new = mappings
    query = Query(spark, files, tmp_path, *OPERATORS[operator])
    query.run(old, 0, 1)
    before = query.groups()
    assert on_its_instance(before, old)
    move = migrate_state(spark, query.checkpoint, **KEY, old=old, new=new)
    after = query.groups()
    assert on_its_instance(after, new)
    assert {group[:2] for group in after} == {group[:2] for group in before}
    assert 0 < move.rows_moved < move.rows
    assert move.batch == 1
    assert recover(spark, query.checkpoint) == 2
    query.run(new, 2)
    assert query.answers() == query.plain(0, 1, 2)
    assert on_its_instance(query.groups(), new)


def test_a_checkpoint_whose_state_was_moved_may_be_moved_to_another_folder(spark, files, mappings, tmp_path):
    """transformWithState names the files of its schemas by their whole path."""
    old, new = mappings
    query = Query(spark, files, tmp_path, *OPERATORS["transformWithState"])
    query.run(old, 0)
    migrate_state(spark, query.checkpoint, **KEY, old=old, new=new)
    query.checkpoint = query.checkpoint.rename(tmp_path / "elsewhere")
    assert recover(spark, query.checkpoint) == 2
    query.run(new, 1)
    assert query.answers() == query.plain(0, 1)
    assert migrate_state(spark, query.checkpoint, **KEY, old=new, new=replace(old, version=3)).rows_moved > 0


@pytest.fixture
def changelogs(spark):
    """RocksDB's other way to write state: changes after each batch, a snapshot now and then."""
    name = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    spark.conf.set(name, "true")
    yield
    spark.conf.unset(name)


@pytest.mark.usefixtures("changelogs")
def test_a_batch_that_was_begun_and_not_finished_is_run_again_from_the_moved_state(spark, files, mappings, tmp_path):
    old, new = mappings
    query = Query(spark, files, tmp_path, aggregated, "update")
    query.run(old, 0)
    with pytest.raises(StreamingQueryException, match="the sink failed"):
        query.run(old, 1, failing=1)
    assert [path.name for path in (query.checkpoint / "commits").iterdir() if path.name.isdecimal()] == ["0"]
    assert migrate_state(spark, query.checkpoint, **KEY, old=old, new=new).batch == 0
    query.run(new, 2)
    assert query.answers() == query.plain(0, 1, 2)
    assert on_its_instance(query.groups(), new)


@pytest.mark.usefixtures("hdfs_backed")
def test_state_in_the_default_provider_is_refused_with_the_remedy(spark, files, mappings, tmp_path):
    old, new = mappings
    query = Query(spark, files, tmp_path, deduplicated, "append")
    query.run(old, 0)
    before = tree(query.checkpoint)
    with pytest.raises(ImmovableState, match=r"HDFSBackedStateStoreProvider, .* before the query first starts"):
        migrate_state(spark, query.checkpoint, **KEY, old=old, new=new)
    assert tree(query.checkpoint) == before


@pytest.fixture
def hdfs_backed(spark):
    name = "spark.sql.streaming.stateStore.providerClass"
    spark.conf.unset(name)
    yield
    spark.conf.set(name, ROCKSDB)


def test_moves_one_after_another_moves_of_nothing_and_moves_of_no_state(spark, files, mappings, tmp_path):
    old, new = mappings
    query = Query(spark, files, tmp_path / "rows", deduplicated, "append")
    query.run(old, 0)
    groups = query.groups()
    same = replace(old, version=5)
    move = migrate_state(spark, query.checkpoint, **KEY, old=old, new=same)
    assert (move.rows_moved, move.rows, move.share_moved) == (0, len(groups), 0.0)
    assert recover(spark, query.checkpoint) == 5
    assert query.groups() == groups
    there = migrate_state(spark, query.checkpoint, **KEY, old=same, new=replace(new, version=6))
    back = migrate_state(spark, query.checkpoint, **KEY, old=replace(new, version=6), new=replace(old, version=7))
    assert there.rows_moved == back.rows_moved > 0
    assert recover(spark, query.checkpoint) == 7
    assert query.groups() == groups
    with pytest.raises(ImmovableState, match="under mapping version 7, not 1"):
        migrate_state(spark, query.checkpoint, **KEY, old=old, new=replace(new, version=8))
    query.run(old, 1)
    assert query.answers() == query.plain(0, 1)

    empty = Query(spark, files, tmp_path / "none", lambda df, keys: aggregated(df.where("amount < 0"), keys), "update")
    empty.run(old, 0)
    move = migrate_state(spark, empty.checkpoint, **KEY, old=old, new=new)
    assert (move.rows_moved, move.rows, move.share_moved) == (0, 0, 0.0)


@pytest.fixture(scope="module")
def stopped(spark, files, mappings, tmp_path_factory):
    """A query that has finished a batch, to be copied."""
    query = Query(spark, files, tmp_path_factory.mktemp("stopped"), aggregated, "update")
    query.run(mappings[0], 0)
    return query


def copied(query, folder):
    """The query with its answers and checkpoint in another folder. Its input stays: Spark knows files by their paths."""
    again = Query(query.spark, query.files, folder, query.build, query.mode)
    again.input = query.input
    for name in ("output", "checkpoint"):
        shutil.copytree(getattr(query, name), getattr(again, name))
    return again


def test_a_move_cut_short_at_any_step_is_undone_or_finished_and_so_is_its_recovery(
    spark, stopped, mappings, tmp_path, monkeypatch
):
    old, new = mappings
    query = copied(stopped, tmp_path / "query")
    seen = []

    def keep(step):
        seen.append(step)
        shutil.copytree(query.checkpoint, tmp_path / step.replace(" ", "-"))

    monkeypatch.setattr(state_migration, "reached", keep)
    migrate_state(spark, query.checkpoint, **KEY, old=old, new=new)
    assert tuple(seen) == STEPS
    states = {1: stopped.groups(), 2: query.groups()}
    for step in STEPS:
        query.checkpoint = tmp_path / step.replace(" ", "-")
        cut_short = []

        def end(later, cut_short=cut_short):
            if later not in cut_short:
                cut_short.append(later)
                raise KeyboardInterrupt

        monkeypatch.setattr(state_migration, "reached", end)
        for _ in STEPS:
            try:
                recover(spark, query.checkpoint)
                break
            except KeyboardInterrupt:
                continue
        version = recover(spark, query.checkpoint) or 1
        assert version == (1 if STEPS.index(step) < STEPS.index("exchanged") else 2)
        assert cut_short == ["cleared"]
        left = {path.name for path in (query.checkpoint / "evenly").iterdir() if path.name[0] != "."}
        assert left - {"lineages"} == (set() if version == 1 else {"migrated.json"})
        lineages = list((query.checkpoint / "evenly" / "lineages").glob("*"))
        assert [str(path) for path in lineages] == ([] if version == 1 else [query.current])
        assert query.groups() == states[version]


@pytest.mark.parametrize("step", [*(pytest.param(it, marks=pytest.mark.long) for it in ("rewriting", "closed")), "exchanged"])
def test_after_a_kill_the_query_goes_on_as_if_nothing_had_been(spark, stopped, mappings, tmp_path, step):
    query = copied(stopped, tmp_path / "query")
    for mapping in mappings:
        mapping.save(tmp_path / f"{mapping.version}.json")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), step], start_new_session=True, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert (query.checkpoint / "evenly" / "migration.json").exists()
    version = recover(spark, query.checkpoint) or 1
    assert version == (2 if step == "exchanged" else 1)
    query.run(mappings[version - 1], 1)
    assert query.answers() == query.plain(0, 1)
    assert on_its_instance(query.groups(), mappings[version - 1])


KILLED = """
import os, signal, sys, threading
from evenly.keys.mapping import Mapping
from evenly.spark.state import migration as state_migration
from evenly.spark.session import local_session

folder, step = sys.argv[1:]

def end(reached):
    if reached == step:  # python and java at once; while rewriting, in the middle of Spark's writing
        threading.Timer(0.3 if step == "rewriting" else 0, os.killpg, (0, signal.SIGKILL)).start()
        if step != "rewriting":
            threading.Event().wait()

state_migration.reached = end
spark = local_session("killed", slots=2, memory="1g")
old, new = (Mapping.load(f"{folder}/{version}.json") for version in (1, 2))
state_migration.migrate_state(spark, f"{folder}/query/checkpoint", key=("user",), slot="slot", old=old, new=new)
threading.Event().wait()
"""


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_cannot_be_moved_is_refused_and_left_as_it_is(spark, files, stopped, mappings, tmp_path):
    old, new = mappings
    query = copied(stopped, tmp_path / "query")
    before = tree(query.checkpoint)
    check_movable(spark, query.checkpoint, **KEY)
    with pytest.raises(ImmovableState, match=r"state rows of operator 0 .* are not where mapping version 2 puts the key"):
        migrate_state(spark, query.checkpoint, **KEY, old=new, new=replace(old, version=3))
    with pytest.raises(ImmovableState, match=r"no operator .* is grouped by the column 'place'"):
        migrate_state(spark, query.checkpoint, key=("user",), slot="place", old=old, new=new)
    with pytest.raises(ImmovableState, match=r"is grouped by \(user, slot\), not by \(player, slot\)"):
        migrate_state(spark, query.checkpoint, key=("player",), slot="slot", old=old, new=new)
    with pytest.raises(InvalidParameter, match="3 and for 4 instances"):
        migrate_state(spark, query.checkpoint, **KEY, old=old, new=replace(new, instances=4))
    wider = replace(old, instances=4), replace(new, instances=4)
    with pytest.raises(ImmovableState, match="has 3 partitions and the mappings have 4 instances"):
        migrate_state(spark, query.checkpoint, **KEY, old=wider[0], new=wider[1])
    with pytest.raises(InvalidParameter, match="two different mappings have the version 2"):
        migrate_state(spark, query.checkpoint, **KEY, old=replace(old, version=2), new=new)
    with pytest.raises(InvalidCheckpoint, match="is not the checkpoint of a streaming query"):
        migrate_state(spark, files, **KEY, old=old, new=new)
    assert tree(query.checkpoint) == before


def test_a_running_query_is_refused(spark, files, mappings, tmp_path):
    old, new = mappings
    rows = spark.readStream.schema(SCHEMA).parquet(str(files))
    running = with_slot(rows, old, ("user",), "slot").groupBy("user", "slot").count().writeStream.outputMode("update")
    started = running.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        started.processAllAvailable()
        with pytest.raises(ImmovableState, match="is running: stop it"):
            migrate_state(spark, tmp_path / "checkpoint", **KEY, old=old, new=new)
    finally:
        started.stop()


def test_a_move_that_fails_on_the_way_leaves_the_state_as_it_was(spark, stopped, mappings, tmp_path, monkeypatch):
    old, new = mappings
    query = copied(stopped, tmp_path / "query")
    before = tree(query.checkpoint)

    def fail(step):
        if step == "rewriting":
            raise OSError("no space left")

    monkeypatch.setattr(state_migration, "reached", fail)
    with pytest.raises(OSError, match="no space left"):
        migrate_state(spark, query.checkpoint, **KEY, old=old, new=new)
    assert tree(query.checkpoint) == before
    (query.checkpoint / "evenly").mkdir(exist_ok=True)
    (query.checkpoint / "evenly" / "migration.json").write_text("{")
    with pytest.raises(DamagedData, match=r"migration\.json is damaged"):
        recover(spark, query.checkpoint)


@pytest.mark.parametrize("step", ["rewritten", "exchanged"])
def test_a_move_that_another_start_has_undone_does_not_come_into_force(spark, stopped, mappings, tmp_path, monkeypatch, step):
    query = copied(stopped, tmp_path / "query")
    before = query.groups()

    def undone(reached):
        if reached == step:
            monkeypatch.setattr(state_migration, "reached", lambda _: None)
            for folder in (query.checkpoint / "evenly" / "lineages").iterdir():
                shutil.rmtree(folder)
            (query.checkpoint / "evenly" / "migration.json").unlink()

    monkeypatch.setattr(state_migration, "reached", undone)
    with pytest.raises(ImmovableState, match="was undone while it ran"):
        migrate_state(spark, query.checkpoint, **KEY, old=mappings[0], new=mappings[1])
    assert query.current == str(query.checkpoint)
    assert recover(spark, query.checkpoint) in {None, mappings[0].version}
    assert query.groups() == before


def test_only_the_slot_changes_in_a_row_and_only_where_it_was():
    inner = struct.pack("<qqi4xq", 0, 40, 7, 9)
    outer = struct.pack("<qqq", 0, 5, 24 << 32 | len(inner)) + inner
    rows = pa.array([inner, None, outer, inner], pa.binary())[1:]
    families = pa.array(["flat", "flat", "nested", "other"])[1:]
    paths = {"flat": (((3, 1),),), "nested": (((2, 1), (3, 1)),)}
    slots = np.array([0, 7, 0], np.int32), np.array([1, -2, 1], np.int32)
    changed = replace_slots(rows, families, paths, old=slots[0], new=slots[1]).to_pylist()
    assert changed == [None, outer.replace(struct.pack("<i", 7), struct.pack("<i", -2)), inner]
    with pytest.raises(DamagedData, match="does not hold the slot 8"):
        replace_slots(rows, families, paths, old=slots[0] + 8 - 7, new=slots[1])


def test_the_slot_is_found_by_the_schemas_of_the_state():
    def fields(text):
        return _parse_datatype_string(text)

    group = fields("struct<user:string,slot:int>")
    layout = key_layout("dedupe", group, key=("visit.User",), slot="slot")
    assert (layout.within, layout.key, layout.slot) == ((), ("user",), "slot")
    assert key_path("rows", group, layout) == ((2, 1),)
    assert key_layout("dedupe", fields("struct<`a.b`:string,slot:int>"), key=("`a.b`",), slot="slot").key == ("a.b",)
    assert key_path("with index", fields("struct<user:string,slot:int,index:bigint>"), layout) == ((3, 1),)
    timer = fields("struct<expiry:bigint,key:struct<user:string,slot:int>>")
    assert key_path("timers", timer, layout) == ((2, 1), (2, 1))
    with pytest.raises(ImmovableState, match="without"):
        key_path("strange", fields("struct<slot:int,user:string>"), layout)
    windows = fields("struct<window:struct<start:timestamp,end:timestamp>,user:string,slot:int>")
    assert key_layout("stateStoreSave", windows, key=("user",), slot="slot").within == ("window",)
    assert key_layout("dedupe", fields("struct<id:bigint>"), key=("user",), slot="slot") is None
    mark = {MARK: '{"key": ["user"], "window": null}'}
    renamed = StructType().add("u", "string").add("s", "integer", metadata=mark)
    layout = key_layout("dedupe", renamed, key=("user",), slot="slot")
    assert (layout.key, layout.slot) == (("u",), "s")
    with pytest.raises(ImmovableState, match=r"is grouped by \(u, s\), not by \(player, slot\)"):
        key_layout("dedupe", renamed, key=("player",), slot="slot")
    twice, within = StructType([*renamed.fields]).add("copy", "integer", metadata=mark), StructType().add("group", renamed)
    for marked in (twice, within, StructType().add("groups", ArrayType(renamed)).add("slot", "integer")):
        with pytest.raises(ImmovableState, match=r"the slot inside a struct or twice: group by \(user, slot\)"):
            key_layout("dedupe", marked, key=("user",), slot="slot")
    side = StructType().add("u", "string").add("s", "integer", metadata=mark).add("n", "integer")
    assert value_paths(JOIN, side, layout, slot="slot") == (((3, 1),),)
    with pytest.raises(ImmovableState, match="operator sessionWindowStateStoreSaveExec cannot be moved"):
        key_layout("sessionWindowStateStoreSaveExec", group, key=("user",), slot="slot")
    with pytest.raises(ImmovableState, match=r"is grouped by \(field0, field1, field2\)"):
        key_layout(JOIN, fields("struct<field0:string,field1:int,field2:int>"), key=("user",), slot="slot")
    with pytest.raises(ImmovableState, match=r"by their time.*join\.stateFormatVersion=3"):
        key_layout(JOIN, fields("struct<field0:string,field1:int,__event_time:bigint>"), key=("user",), slot="slot")
