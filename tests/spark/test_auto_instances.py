"""`instances="auto"`: as many as slots, told with the reason, and the same whatever else a call is asked for."""

import logging
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import DamagedData, InvalidParameter
from evenly.instances import Slots
from evenly.remembered import Remembered
from evenly.spark.jvm.session_slots import _default_parallelism, session_slots
from evenly.spark.keyed import by_key as by_key_module
from evenly.spark.keyed import choosing
from evenly.spark.streaming import stream_by_key as stream_module

SLOTS = 2
TOTAL = "user int, total bigint"


@pytest.fixture(scope="module")
def rows(spark):
    return spark.range(600).selectExpr("cast(sqrt(id) as int) as user", "id as v").cache()


@pytest.fixture(scope="module")
def one_key(spark):
    return spark.range(50).selectExpr("1 as user", "id as v")


@pytest.fixture
def cluster(monkeypatch):
    """Has as many slots as are told to it."""

    def resize(number):
        for module in (choosing, stream_module):
            monkeypatch.setattr(module, "session_slots", lambda _spark: Slots(number, f"{number} tasks can run at once"))

    return resize


def totals():
    """A function of a group, which workers get by value."""
    return lambda key, group: pd.DataFrame({"user": key[:1], "total": [group["v"].sum()]})


def same(one, other):
    return Counter(map(repr, one.collect())) == Counter(map(repr, other.collect()))


def test_slots_are_those_of_the_session(spark):
    found = session_slots(spark)
    assert found == Slots(SLOTS, "2 tasks can run at once, the master is local[2]")
    assert _default_parallelism(spark) == SLOTS


def test_sparks_own_defaults_count_where_nobody_has_set_anything(spark, monkeypatch):
    monkeypatch.setattr(Slots, "of", lambda setting, _running: Slots(int(setting("spark.sql.shuffle.partitions")), "told"))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.unset("spark.sql.shuffle.partitions")
    try:
        assert session_slots(spark).number == int(spark.conf.get("spark.sql.shuffle.partitions"))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_one_line_places_rows_over_the_slots_and_says_why(rows, caplog):
    caplog.set_level(logging.INFO, logger="evenly")
    placed = rows.transform(evenly.by_key, key="user")
    assert placed.rdd.getNumPartitions() == SLOTS
    why = "as many as slots (2 tasks can run at once, the master is local[2])"
    assert f"2 instances: {why}" in caplog.text
    assert f"to 2 partitions ({why}), placed by Evenly" in str(evenly.explain(placed))
    assert same(placed.groupBy("user", "slot").count().drop("slot"), rows.groupBy("user").count())


def test_a_mapping_knows_its_number_and_brings_it_along(rows, tmp_path):
    mapping = evenly.learn_mapping(rows, key="user")
    assert mapping.instances == SLOTS
    assert mapping.chosen.startswith("as many as slots")
    assert mapping.expected_range_pct is not None
    mapping.save(tmp_path / "users.json")
    assert evenly.Mapping.load(tmp_path / "users.json").chosen == mapping.chosen
    other = evenly.learn_mapping(rows, key="user", instances=3)
    assert not other.chosen
    assert evenly.by_key(rows, key="user", mapping=other, slot=None).rdd.getNumPartitions() == 3
    assert evenly.split_by_key(rows, key="user", instances="auto", mapping=other).rdd.getNumPartitions() == 3


@pytest.mark.parametrize(("later", "chosen"), [(6, 6), (1, 1), (50, 8)])
def test_executors_that_register_while_it_learns_count_as_far_as_buckets_go(rows, monkeypatch, later, chosen):
    slots = iter([Slots(2, "2 tasks can run at once"), Slots(later, f"{later} tasks can run at once")])
    monkeypatch.setattr(choosing, "session_slots", lambda _spark: next(slots))
    mapping = evenly.learn_mapping(rows, key="user")
    assert mapping.instances == chosen
    assert mapping.assign_ids(mapping.heavy_keys).max(initial=0) < chosen
    assert f"{later} tasks" in mapping.chosen


def test_few_keys_are_few_instances_only_where_no_others_can_come(rows, one_key, tmp_path):
    assert evenly.by_key(one_key, key="user", slot=None).rdd.getNumPartitions() == 1
    assert evenly.by_key(rows, key="user", slot=None, fit_on=one_key).rdd.getNumPartitions() == SLOTS
    assert evenly.learn_mapping(one_key, key="user").instances == SLOTS
    assert evenly.split_by_key(one_key, key="user").rdd.getNumPartitions() == SLOTS
    nothing = rows.where("user < 0")
    assert evenly.by_key(nothing, key="user", slot=None).rdd.getNumPartitions() == SLOTS
    remembered = evenly.by_key(one_key, key="user", slot=None, remember=str(tmp_path))
    assert remembered.rdd.getNumPartitions() == SLOTS


def test_every_call_takes_it_and_gives_sparks_results(spark, rows, tmp_path):
    plain = rows.groupBy("user").agg(F.sum("v").alias("total"))
    watch = evenly.TimeWatch()
    assert same(evenly.apply_by_key(rows, totals(), TOTAL, key="user", watch=watch), plain)
    assert (watch.instances, watch.chosen[:16]) == (SLOTS, "as many as slots")
    merging = evenly.Merging(
        lambda group: int(group["v"].sum()), lambda parts: pd.DataFrame({"total": [sum(parts)]}), "total bigint"
    )
    assert same(evenly.aggregate_by_key(rows, merging, key="user"), plain)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        other = rows.groupBy("user").count()
        assert same(evenly.join_by_key(rows, other, on="user", how="left"), rows.join(other, "user", "left"))
        assert evenly.plan_join(rows, other, on="user").instances == SLOTS
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert evenly.plan_join(rows, plain.limit(1), on="user").instances == SLOTS
    evenly.write_by_key(rows.where("user < 3"), key="user", rows_per_file=1_000).parquet(str(tmp_path / "users"))
    assert same(spark.read.parquet(str(tmp_path / "users")).select("user", "v"), rows.where("user < 3"))


def test_measured_times_decide_where_one_group_is_longer_than_a_share(rows, cluster):
    first = evenly.TimeWatch()
    evenly.apply_by_key(rows, totals(), TOTAL, key="user", balance="time", watch=first).collect()
    assert first.instances == SLOTS
    cluster(50)
    again = evenly.TimeWatch()
    evenly.apply_by_key(rows, totals(), TOTAL, key="user", balance="time", times=first.times, watch=again).collect()
    assert 1 <= again.instances < 25  # 25 groups of a moment
    assert again.mapping.instances == again.instances
    assert again.chosen


def test_costs_are_dealt_over_the_slots(rows):
    watch = evenly.CostWatch()
    found = evenly.apply_by_cost(rows.limit(20), lambda row: row.v, "v long", cost_key="user", watch=watch, pieces=False)
    assert found.rdd.getNumPartitions() == SLOTS
    assert (watch.instances, watch.chosen[:16]) == (SLOTS, "as many as slots")


def test_what_is_remembered_serves_another_size_of_the_cluster_without_learning(rows, cluster, monkeypatch, tmp_path):
    learnings, learn = [], by_key_module.learn_mapping

    def noted(*args, **kwargs):
        learnings.append(kwargs["key"])
        return learn(*args, **kwargs)

    monkeypatch.setattr(by_key_module, "learn_mapping", noted)
    placed = []
    for size in (4, 4, 3, 16, 4, 17, 17, 4):
        cluster(size)
        placed.append(evenly.by_key(rows, key="user", slot=None, remember=str(tmp_path)).rdd.getNumPartitions())
    assert placed == [4, 4, 3, 16, 4, 17, 17, 4]
    assert len(learnings) == 2  # at first, and for more than four times as many
    (told,) = [Remembered.load(it) for it in Path(tmp_path).glob("*.json")]
    assert "as many instances as each run chooses" in str(told.subject)
    assert "too coarse" in told.why or "serves at most" in told.why


def test_slots_of_a_folder_stay_under_one_mapping_while_the_cluster_grows(rows, cluster, tmp_path):
    cluster(3)
    left = evenly.by_key(rows, key="user", remember=str(tmp_path))
    cluster(5)
    right = evenly.by_key(rows.groupBy("user").count(), key="user", remember=str(tmp_path))
    assert same(left.join(right, ["user", "slot"]).drop("slot"), rows.join(rows.groupBy("user").count(), "user"))


@pytest.mark.parametrize("wrong", ["16", "Auto", "", 0, -1, 2.0, None])
def test_anything_else_is_refused(rows, wrong):
    for call in (evenly.by_key, evenly.learn_mapping, evenly.split_by_key):
        with pytest.raises(InvalidParameter, match="instances must be a whole number from 1 to 10000"):
            call(rows, key="user", instances=wrong)


def test_a_stream_keeps_the_number_that_it_was_begun_with(visits, cluster):
    def run():
        query = evenly.stream_by_key(
            visits.stream(),
            visits.counts("user"),
            key="user",
            instances="auto",
            checkpoint=visits.checkpoint,
            trigger={"availableNow": True},
            controller=False,
            look=False,
        )
        query.awaitTermination()
        return query.mapping.instances

    cluster(3)
    visits.add(300)
    assert run() == 3
    cluster(7)
    visits.add(300)
    assert run() == 3
    assert visits.written("user") == visits.expected("user")
    log = Path(visits.checkpoint) / "evenly" / "versions.json"
    log.write_text(log.read_text().replace('"instances"', '"instance"'))
    with pytest.raises(DamagedData, match=r"versions\.json"):
        run()
