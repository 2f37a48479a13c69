"""What runs leave for the next ones: learnt once, read later, followed where keys change, and never in the way of a job."""

import json
import logging
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from py4j.java_gateway import GatewayClient
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidParameter, KeyTooHot, StreamingMismatch
from evenly.remembered import MOST_FILES, Remembered, Subject
from evenly.sealed import sealed
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.outcomes import settle
from evenly.spark.keyed import by_key as by_key_module
from evenly.spark.keyed import join_by_key as join_module
from evenly.spark.keyed import split as split_module
from evenly.spark.keyed import write_by_key as write_module
from evenly.spark.remembering import memory
from evenly.spark.remembering.memory import counts, read_counts, with_told

INSTANCES = 4
MOST_CALLS = 75


@pytest.fixture
def learnings(monkeypatch):
    """How often a mapping was learnt."""
    seen = []
    learn = by_key_module.learn_mapping

    def noted(*args, **kwargs):
        seen.append(kwargs["key"])
        return learn(*args, **kwargs)

    for module in (by_key_module, split_module, join_module, write_module):
        monkeypatch.setattr(module, "learn_mapping", noted)
    return seen


@pytest.fixture
def rows(spark):
    return (
        spark.range(2_000)
        .selectExpr("cast(pow(id % 100, 1.2) as int) as user", "id as v", "cast(id as string) as text")
        .cache()
    )


@pytest.fixture
def drifted(spark):
    """All on one instance of most mappings: a hot key."""
    return spark.range(2_000).selectExpr("cast(if(id % 2 = 0, 7, id % 90) as int) as user", "id as v", "'x' as text")


def kept(spark, folder):
    settle(spark)
    return [Remembered.load(it) for it in sorted(Path(folder).glob("*.json"))]


def same(one, other):
    return Counter(map(repr, one.collect())) == Counter(map(repr, other.collect()))


def place(df, folder, **more):
    return evenly.by_key(df, key="user", instances=INSTANCES, slot=None, remember=str(folder), **more)


def test_it_learns_once_and_anew_after_a_drift(spark, rows, drifted, learnings, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="evenly")
    for _ in range(2):
        assert same(place(rows, tmp_path), rows)
    assert len(learnings) == 1
    (told,) = kept(spark, tmp_path)
    assert [(it.did, it.rows, it.anew) for it in told.runs] == [("learnt", 2_000.0, False), ("kept", 2_000.0, False)]
    assert told.runs[0].carried_pct == pytest.approx(told.runs[0].promised_pct)
    assert same(place(drifted, tmp_path), drifted)
    (told,) = kept(spark, tmp_path)
    assert told.anew is not None
    assert told.runs[-1].carried_pct > told.runs[-1].promised_pct + 5.0
    assert "the next run learns anew" in caplog.text
    # A hot key stays what it is under a fresh mapping, and that is then what is promised.
    placed = place(drifted, tmp_path)
    assert len(learnings) == 2
    fresh = evenly.learn_mapping(drifted, key="user", instances=INSTANCES)
    assert evenly.placed_rows(placed, instances=INSTANCES).imbalance_pct <= fresh.fitted_imbalance_pct + 5.0
    place(drifted, tmp_path).count()
    (told,) = kept(spark, tmp_path)
    assert (told.anew, len(learnings)) == (None, 2)
    assert [it.did for it in told.runs] == ["learnt", "kept", "kept", "learnt", "kept"]


@pytest.mark.parametrize("plain", [True, False])
def test_a_remembered_mapping_places_as_one_that_is_given(spark, rows, learnings, tmp_path, monkeypatch, plain):
    """Also where the folder is not on this machine's disk, for all that Python can tell."""
    if not plain:
        monkeypatch.setattr(Folder, "is_plain", False)
    folder = tmp_path / "50% of ünsers, [all] 日本"
    mapping = evenly.learn_mapping(rows, key="user", instances=INSTANCES)
    given = evenly.by_key(rows, key="user", instances=INSTANCES, slot=None, mapping=mapping)
    for _ in range(2):
        at = F.spark_partition_id()
        assert same(place(rows, folder).withColumn("at", at), given.withColumn("at", at))
        assert same(evenly.split_by_key(rows, key="user", instances=INSTANCES, remember=folder), given.withColumn("part", at))
    assert len(learnings) == 1
    (told,) = kept(spark, folder)
    assert [it.rows for it in told.runs] == [2_000.0] * 4
    assert {it.suffix for it in folder.iterdir()} == ({".json"} if plain else {".json", ".crc"})


def test_remembered_parts_are_grouped_where_they_are(rows, tmp_path):
    """As those of a mapping that is given: rows that are alike in their part are known to be together."""
    for _ in range(2):
        parts = evenly.split_by_key(rows, key="user", instances=INSTANCES, remember=tmp_path)
        grouped = parts.groupBy("user", "part").agg(F.collect_set("v"))
        assert grouped._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0].count("Exchange ") == 1
        assert grouped.count() == rows.select("user").distinct().count()


def test_a_checksum_of_hadoops_does_not_outlive_its_file(spark, rows, learnings, tmp_path, monkeypatch, caplog):
    """An earlier release, or a session with another file system, has left one."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(Folder, "is_plain", False)
        place(rows, tmp_path)
    assert list(tmp_path.glob(".*.crc"))
    place(rows, tmp_path).count()
    assert [len(it.runs) for it in kept(spark, tmp_path)] == [1]
    assert not list(tmp_path.glob(".*.crc"))
    monkeypatch.setattr(Folder, "is_plain", False)
    place(rows, tmp_path)
    assert (len(learnings), caplog.records) == (1, [])


def test_remembering_asks_the_jvm_little_more_than_a_given_mapping(spark, rows, tmp_path, monkeypatch):
    """Each call is a way from process to process and back, in every run."""
    place(rows, tmp_path).count()
    settle(spark)
    mapping = evenly.learn_mapping(rows, key="user", instances=INSTANCES)
    asked = []
    ask = GatewayClient.send_command

    def counted(self, *args, **kwargs):
        asked.append(args)
        return ask(self, *args, **kwargs)

    def calls(**how):
        asked.clear()
        with monkeypatch.context() as counting:
            counting.setattr(GatewayClient, "send_command", counted)
            evenly.by_key(rows, key="user", instances=INSTANCES, slot=None, **how)
        return len(asked)

    calls(mapping=mapping)
    assert calls(remember=str(tmp_path)) <= calls(mapping=mapping) + MOST_CALLS


def test_a_result_is_counted_once_however_often_it_is_computed(spark, rows, tmp_path):
    placed = place(rows, tmp_path)
    assert kept(spark, tmp_path)[0].runs == ()  # nothing ran
    placed.limit(1).collect()
    placed.count()
    cached = placed.persist()
    cached.count()
    cached.union(cached).count()
    (told,) = kept(spark, tmp_path)
    assert [it.rows for it in told.runs] == [2_000.0]
    cached.unpersist()
    again = place(rows, tmp_path).persist()  # and one that was cached before anything ran
    again.where("v < 5").count()
    again.count()
    again.unpersist()
    failing = place(rows, tmp_path).selectExpr("assert_true(v < 10)")
    with pytest.raises(Exception, match="v < 10"):
        failing.collect()
    assert [it.rows for it in kept(spark, tmp_path)[0].runs] == [2_000.0, 2_000.0]


def test_every_call_remembers_and_gives_what_it_gives_without(spark, rows, learnings, tmp_path):
    spark.conf.set("spark.evenly.remember", str(tmp_path))
    other = spark.range(60).selectExpr("cast(id as int) as user", "id * 2 as w")
    merging = evenly.Merging(
        lambda part: pd.DataFrame({"n": [len(part)]}),
        lambda parts: pd.DataFrame({"n": [sum(int(part["n"].iloc[0]) for part in parts)]}),
        "n long",
    )
    try:
        for _ in range(2):
            applied = evenly.apply_by_key(
                rows,
                lambda group: group[["user", "v"]].head(1)[["user"]],
                "user int",
                key="user",
                instances=INSTANCES,
                remember="users",
            )
            assert applied.count() == rows.select("user").distinct().count()
            aggregated = evenly.aggregate_by_key(rows, merging, key="user", instances=INSTANCES, remember="users")
            assert same(aggregated, rows.groupBy("user").agg(F.count("*").alias("n")))
            parts = evenly.split_by_key(rows, key="user", instances=INSTANCES, remember="users")
            assert same(parts.drop("part"), rows)
            for how in ("inner", "left"):
                spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
                joined = evenly.join_by_key(
                    rows, other, on="user", how=how, instances=INSTANCES, remember="users", split="left"
                )
                assert same(joined, rows.join(other, "user", how))
            out = str(tmp_path / "out")
            writer = evenly.write_by_key(rows, key="user", instances=INSTANCES, rows_per_file=100, remember="users")
            writer.mode("overwrite").parquet(out)
            assert spark.read.parquet(out).count() == 2_000
    finally:
        spark.conf.unset("spark.evenly.remember")
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert len(learnings) == 2  # one of all rows, one of a join
    told = {it.subject.use: it for it in kept(spark, tmp_path / "users")}
    assert {use: len(it.runs) for use, it in told.items()} == {"rows": 8, "join-left": 4}
    assert all(run.rows == 2_000.0 and not run.anew for it in told.values() for run in it.runs)


def test_another_question_is_learnt_apart(rows, learnings, tmp_path):
    place(rows, tmp_path)
    evenly.by_key(rows, key="user", instances=5, slot=None, remember=str(tmp_path))
    evenly.by_key(rows, key=["user", "text"], instances=4, slot=None, remember=str(tmp_path))
    evenly.by_key(rows, key=["text", "user"], instances=4, slot=None, remember=str(tmp_path))
    evenly.by_key(
        rows.withColumn("user", F.col("user").cast("long")), key="user", instances=4, slot=None, remember=str(tmp_path)
    )
    assert len(learnings) == len(list(tmp_path.glob("*.json"))) == 5
    place(rows, tmp_path)
    assert len(learnings) == 5


@pytest.mark.parametrize("damage", ["{", "mapping", "subject"])
def test_a_damaged_file_is_learnt_anew_with_a_warning(spark, rows, learnings, tmp_path, caplog, damage):
    place(rows, tmp_path)
    (path,) = tmp_path.glob("*.json")
    told = Remembered.load(path)
    content = json.loads(path.read_text())
    if damage == "mapping":
        Remembered(told.subject, "{}", "x", "now", "why").save(path)
    elif damage == "subject":  # what another subject's file has, under this one's name
        Remembered(Subject("rows", ("item",), ("int",), 4), content["content"], "x", "now", "why").save(path)
    else:
        path.write_text(damage)
    assert place(rows, tmp_path).count() == 2_000
    assert len(learnings) == 2
    assert damage == "subject" or any(it.levelname == "WARNING" for it in caplog.records)
    assert len(kept(spark, tmp_path)[0].runs) == 1


def test_what_a_later_release_wrote_is_left_alone(spark, rows, learnings, tmp_path, caplog):
    place(rows, tmp_path)
    (path,) = tmp_path.glob("*.json")
    later = sealed({}, kind="evenly.remembered", version=99)
    path.write_text(later)
    assert place(rows, tmp_path).count() == 2_000
    settle(spark)
    assert (len(learnings), path.read_text()) == (2, later)
    assert "upgrade evenly" in caplog.text


def test_a_folder_that_cannot_be_used_is_told_and_the_job_goes_on(rows, tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")
    assert place(rows, tmp_path / "file").count() == 2_000
    assert "is not remembered" in caplog.text
    caplog.clear()
    assert evenly.by_key(rows, key="user", instances=4, slot=None, remember="nowhere://host/users").count() == 2_000
    assert "nothing is remembered" in caplog.text


def test_what_is_forgotten_or_learnt_anew_meanwhile_is_not_written_over(spark, rows, tmp_path):
    placed = place(rows, tmp_path)
    (path,) = tmp_path.glob("*.json")
    path.unlink()
    placed.count()
    assert kept(spark, tmp_path) == []
    placed, (mine,) = place(rows, tmp_path), kept(spark, tmp_path)
    other = Remembered(mine.subject, mine.content, "another", mine.learnt_at, "by another job")
    other.save(path)
    placed.count()
    assert kept(spark, tmp_path) == [other]


def test_all_slots_of_an_application_are_of_one_mapping(spark, rows, drifted, learnings, tmp_path, monkeypatch, caplog):
    def slotted(df, **more):
        return evenly.by_key(df, **{"key": "user", "instances": INSTANCES, "remember": str(tmp_path), **more})

    left = slotted(rows)
    left.count()
    assert len(kept(spark, tmp_path)) == 1  # all is written
    (path,) = tmp_path.glob("*.json")
    path.unlink()  # whatever becomes of the folder
    other = drifted.select(F.col("user").alias("id"), F.col("v").alias("w"))
    spelled = f"file://{tmp_path.parent}//{tmp_path.name}/"
    assert not caplog.records
    for _ in range(2):  # it may be the other side of a join, or another question
        right = slotted(other, key="id", remember=spelled).withColumnRenamed("id", "user")
    (told,) = caplog.records
    assert "rows by id get the slots" in told.getMessage()
    assert told.levelname == "WARNING"
    assert same(left.join(right, ["user", "slot"]).drop("slot"), rows.join(other.withColumnRenamed("id", "user"), "user"))
    link = tmp_path.parent / f"{tmp_path.name}_link"
    link.symlink_to(tmp_path)
    assert same(
        left.join(slotted(other.toDF("user", "w"), remember=link), ["user", "slot"]).drop("slot"),
        rows.join(other.toDF("user", "w"), "user"),
    )
    assert len(learnings) == 1
    for wrong in ({"instances": 5}, {"df": rows.withColumn("user", F.col("user").cast("long"))}):
        with pytest.raises(InvalidParameter, match="remember= another folder"):
            slotted(**{"df": rows, **wrong})
    monkeypatch.setattr(memory, "_handed_out", {})  # the next application
    assert same(slotted(drifted).groupBy("user", "slot").count().drop("slot"), drifted.groupBy("user").count())
    assert len(learnings) == 2


def test_a_key_that_was_too_hot_is_no_reason_to_fail(rows, drifted, tmp_path):
    whole = evenly.Merging(lambda part: part[["v"]].head(1), None, "v long")

    def aggregated(df):
        return evenly.aggregate_by_key(df, whole, key="user", instances=INSTANCES, remember=str(tmp_path))

    with pytest.raises(KeyTooHot):
        aggregated(drifted)
    assert aggregated(rows).count() == rows.select("user").distinct().count()


def test_odd_names_and_keys_are_remembered_as_others_are(spark, learnings, tmp_path):
    odd = "cast(if(id % 5 = 0, null, if(id % 5 = 1, 'NaN', -0.0)) as double)"
    rows = spark.range(50).selectExpr(
        f"{odd} as `a.b`", "id as __evenly_x", "named_struct('c`d', cast(id % 3 as string)) as `Größe`"
    )
    for _ in range(2):
        placed = evenly.by_key(
            rows, key=["a.b", "Größe.`c``d`"], instances=3, slot="my.slot", remember=f"file:{tmp_path}/odd [1] name"
        )
        assert same(placed.drop("my.slot"), rows)
        assert same(evenly.split_by_key(rows, key="__evenly_x", instances=1, remember=tmp_path / "x").drop("part"), rows)
    assert len(learnings) == 2
    assert [len(it.runs) for it in kept(spark, tmp_path / "x")] == [2]
    assert len(kept(spark, tmp_path / "odd [1] name")) == 1


def test_an_empty_first_run_promises_nothing(spark, rows, learnings, tmp_path):
    assert place(rows.limit(0), tmp_path).count() == 0
    assert place(rows, tmp_path).count() == 2_000
    (told,) = kept(spark, tmp_path)
    assert (len(learnings), told.runs[-1].rows) == (1, 2_000.0)


def test_a_folder_holds_so_many_subjects(spark, rows, tmp_path):
    for at in range(MOST_FILES + 3):
        subject = Subject("rows", (f"c{at}",), ("int",), 4)
        Remembered(subject, "{}", "x", f"2026-01-01T00:00:{at:02d}", "why").save(tmp_path / subject.file_name)
    place(rows, tmp_path)
    columns = {it.subject.columns for it in kept(spark, tmp_path)}
    assert len(columns) == MOST_FILES
    assert ("user",) in columns
    assert ("c0",) not in columns


@pytest.mark.parametrize("instances", [1, 1_000])
def test_rows_are_counted_by_instance(spark, instances):
    frame = spark.range(20_000, numPartitions=2).selectExpr(
        f"cast(pow(id, 1.5) % {instances} as int) as at", "id % 3 = 0 as gone"
    )
    wanted = np.bincount([row.at for row in frame.where("not gone").collect()], minlength=instances)
    told = with_told(frame, F.when(~F.col("gone"), F.col("at")), instances)
    found = read_counts(told.agg(counts(instances)).first()[0], instances)
    assert (found.loads.tolist(), found.rows) == (wanted.tolist(), wanted.sum())


def test_of_many_rows_a_sample_is_counted(spark):
    frame = spark.range(320_000, numPartitions=1).selectExpr("cast(id % 16 as int) as at")  # a stride would see one of them
    found = read_counts(with_told(frame, F.col("at"), 16).agg(counts(16)).first()[0], 16)
    assert found.loads == pytest.approx(np.full(16, 20_000.0), rel=0.15)
    assert 15_000 < found.rows < 60_000


def test_mistakes_are_told(spark, rows, tmp_path):
    for remember, said in [
        ("users", "spark.evenly.remember"),
        ("", "must be a folder"),
        (7, "must be a folder"),
        ("..", "neither a path"),
    ]:
        with pytest.raises(InvalidParameter, match=said):
            evenly.by_key(rows, key="user", instances=4, remember=remember)
    mapping = evenly.learn_mapping(rows, key="user", instances=INSTANCES)
    with pytest.raises(InvalidParameter, match="not both"):
        place(rows, tmp_path, mapping=mapping)
    stream = spark.readStream.format("rate").load().selectExpr("value as user")
    with pytest.raises(StreamingMismatch, match="stream_by_key"):
        place(stream, tmp_path)
    with pytest.raises(InvalidParameter, match="not both"):
        evenly.apply_by_cost(rows, lambda row: row.v, "v long", instances=2, costs=evenly.CostModel(), remember=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_costs_are_learnt_once_too(spark, tmp_path):
    rows = spark.range(200).selectExpr("id % 4 as kind", "id as v")

    def run(df=rows, **more):
        result = evenly.apply_by_cost(df, lambda row: row["v"], "v long", instances=2, remember=tmp_path, **more)
        assert sorted(it.v for it in result.collect()) == list(range(200))

    run(cost_key="kind")
    (told,) = kept(spark, tmp_path)
    first = evenly.CostModel.from_json(told.content)
    assert (first.rows, first.expressions) == (200.0, ("kind",))
    watch = evenly.CostWatch()
    run(cost_key="kind", watch=watch)
    assert "nothing is known" not in watch.decision.reason
    (told,) = kept(spark, tmp_path)
    assert evenly.CostModel.from_json(told.content).rows > first.rows
    assert evenly.CostModel.from_json(told.content).to_json() == watch.costs.to_json()
    assert [it.rows for it in told.runs] == [200.0, 200.0]
    run(rows.withColumn("kind", F.col("kind").cast("int")), cost_key="kind")  # of another type: learnt anew
    (told,) = kept(spark, tmp_path)
    assert (evenly.CostModel.from_json(told.content).types, "bigint" in told.why) == (("int",), True)
    run()  # of whatever column tells them: another subject
    subject = Subject("costs", ())
    gone = evenly.CostModel(("gone",)).learn_all(watch.reports)
    Remembered(subject, gone.to_json(), "x", "now", "why").save(tmp_path / subject.file_name)
    run()  # which the rows do not have any more
    assert evenly.CostModel.from_json(Remembered.load(tmp_path / subject.file_name).content).expressions != ("gone",)


def test_a_script_that_ends_at_once_leaves_its_outcome(tmp_path):
    script = Path(__file__).with_name("remembering.py")
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    for name, did in {"stopped": ["learnt", "kept"], "left": ["learnt"]}.items():
        (path,) = (tmp_path / name).glob("*.json")
        assert [it.did for it in Remembered.load(path).runs] == did
