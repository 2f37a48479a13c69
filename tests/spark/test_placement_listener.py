import inspect
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

import evenly
from evenly.spark.jvm import changed_keys, placement_listener
from evenly.spark.jvm.placement_listener import PlacementListener, tell_of_shuffles

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def no_broadcast(spark):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.fixture
def told(spark, caplog):
    """What has been told since the last question. A finding is told once per session, so each case has columns of its own."""
    _drain(spark)
    caplog.set_level(logging.DEBUG, logger="evenly.spark.jvm.placement_listener")
    caplog.clear()

    def ask():
        _drain(spark)
        texts = [it.getMessage() for it in caplog.records if it.name == "evenly.spark.jvm.placement_listener"]
        caplog.clear()
        return texts

    return ask


def _drain(spark):
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)


def _rows(spark, key):
    return spark.range(200).selectExpr(f"id % 10 as {key}", "id % 3 as day", "id as v")


def _placed(spark, key, **options):
    return _rows(spark, key).transform(evenly.by_key, key=key, instances=4, **options)


def _again(key, by=None):
    again = f"rows that were placed by ({key}, slot) are shuffled again by ({by or key}), to where Spark's hash puts them"
    return [f"{again}: group, join or partition by ({key}, slot)"]


def _ranked(rows, *by):
    return rows.withColumn("rank", F.rank().over(Window.partitionBy(*by).orderBy("v")))


WRONG = {
    "apply": lambda it, k: it.groupBy(k).applyInPandas(lambda frame: frame[["v"]], "v long").collect(),
    "aggregate": lambda it, k: it.groupBy(k).agg(F.collect_list("v")).toPandas(),
    "window": lambda it, k: _ranked(it, k).write.format("noop").mode("overwrite").save(),
    "join": lambda it, k: it.join(_rows(it.sparkSession, k).select(k), k).count(),
    "after_a_window": lambda it, k: _ranked(it, k, "slot").groupBy(k).agg(F.collect_list("rank")).collect(),
    "reused": lambda it, k: it.join(it.groupBy(k).agg(F.collect_list("v")), k).collect(),
}


@pytest.mark.parametrize(
    ("case", "adaptive"), [*((case, "true") for case in WRONG), *((case, "false") for case in ("apply", "join", "reused"))]
)
def test_a_forgotten_slot_is_told_once_after_the_action(spark, told, case, adaptive):
    key = f"{case}_{adaptive}"
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        placed = _placed(spark, key)
        assert told() == []
        WRONG[case](placed, key)
        assert told() == _again(key)
        WRONG[case](placed, key)
        assert told() == []
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_it_is_told_of_cached_rows_of_sql_of_a_view_and_of_what_is_written(spark, told, tmp_path):
    cached = _placed(spark, "c").cache()
    cached.count()
    assert told() == []
    cached.groupBy("c").agg(F.collect_list("v")).collect()
    assert told() == _again("c")
    cached.unpersist()

    _placed(spark, "w").createOrReplaceTempView("placed_rows")
    spark.sql("select w, day, collect_list(v) as all from placed_rows group by w, day").write.parquet(str(tmp_path / "out"))
    assert told() == _again("w", "w, day")


def test_right_uses_and_other_questions_are_not_told(spark, told):
    placed = _placed(spark, "k")
    mapping = evenly.learn_mapping(_rows(spark, "id"), key="id", instances=4)
    left = _placed(spark, "a", mapping=mapping)
    right = _placed(spark, "b", mapping=mapping)
    two = _rows(spark, "x").transform(evenly.by_key, key=["x", "day"], instances=4)
    for frame in (
        placed.groupBy("k", "slot").applyInPandas(lambda frame: frame[["v"]], "v long"),
        placed.groupBy("slot", "day", "k").agg(F.collect_list("v")),
        _ranked(placed, "k", "slot"),
        left.join(right, (left.a == right.b) & (left.slot == right.slot)),
        left.join(right, (left.a == right.b) & (left.slot == right.slot)).groupBy(left.a, left.slot).agg(F.max(right.v)),
        placed.groupBy("day").agg(F.collect_list("v")),
        two.groupBy("x").agg(F.collect_list("v")),  # a part of the key
        _ranked(placed, "day", "slot").groupBy("day").agg(F.collect_list("rank")),
        placed.orderBy("k"),
        # Results of groups are shuffled, not the placed rows.
        placed.groupBy("k", "slot").agg(F.collect_list("v").alias("vs")).join(_rows(spark, "k"), "k"),
        _rows(spark, "k").repartition(3, "k").groupBy("day", "k").agg(F.collect_list("v")),
        _rows(spark, "k").groupBy("k").agg(F.collect_list("v")),
        _placed(spark, "k", slot=None).groupBy("k").agg(F.collect_list("v")),
    ):
        frame.collect()
        assert told() == [], frame.columns
        assert evenly.check_placement(frame) == ()


@pytest.mark.parametrize("length", [0, 40])
def test_it_is_told_where_texts_of_plans_are_cut(spark, told, length):
    spark.conf.set("spark.sql.maxPlanStringLength", str(length))
    try:
        placed, key = _placed(spark, f"cut_{length}"), f"cut_{length}"
        placed.groupBy(key).agg(F.collect_list("v")).collect()
        assert told() == _again(key)
        _rows(spark, key).repartition(2, key).union(_rows(spark, key)).collect()
        assert told() == []
        other = _rows(spark, key).transform(evenly.by_key, key=key, instances=3)
        placed.union(other).groupBy(key, "slot").count().collect()
        assert len(told()) == 1
    finally:
        spark.conf.unset("spark.sql.maxPlanStringLength")


CHANGED = {
    "grouped": lambda it: it.withColumn("t", F.lower("t")).groupBy("t", "slot").agg(F.collect_list("v")),
    "filled": lambda it: it.withColumn("t", F.lower("t")).select("v", "t", F.col("slot").alias("s")).groupBy("t", "s").count(),
    "window": lambda it: _ranked(it.filter("v > 3").withColumn("t", F.upper("t")), "t", "slot"),
    "results": lambda it: _listed(_listed(it).withColumn("t", F.lower("t"))),
    "counts": lambda it: _listed(it.groupBy("t", "slot").agg(F.count("v").alias("v")).withColumn("t", F.lower("t"))),
}


def _listed(rows, key="t"):
    return rows.groupBy(key, "slot").agg(F.collect_list("v").alias("v"))


@pytest.mark.parametrize("case", CHANGED)
def test_a_key_that_was_changed_behind_the_slot_is_told_as_an_error(spark, told, caplog, case):
    rows = spark.range(60).selectExpr("if(id % 2 = 0, 'a', 'A') as t", "id as v")
    placed = rows.transform(evenly.by_key, key="t", instances=2)
    wrong = CHANGED[case](placed)
    found = [it for it in evenly.check_placement(wrong) if type(it).__name__ == "KeyChanged"]
    assert [it.changed for it in found] == [("t",)]
    assert len(evenly.explain(wrong).apart) == 1
    caplog.clear()
    wrong.collect()
    assert [it for it in told() if "computed anew" in it] in ([], [str(found[0])])  # once in a session
    for right in (
        placed.withColumn("t", F.col("t")).groupBy("t", "slot").count(),
        placed.select(F.col("t").alias("t"), "slot", F.lower("t").alias("u")).groupBy("t", "slot").agg(F.max("u")),
        placed.select(F.col("t").cast("string"), "slot").groupBy("t", "slot").count(),
        placed.withColumn("t", F.lower("t")).groupBy("t").count(),
        _listed(_listed(placed)),
        _listed(_listed(placed).withColumn("u", F.lower("t"))),
        _listed(placed).withColumn("t", F.lower("t")).groupBy("t").count(),
    ):
        assert evenly.explain(right).apart == ()


def _texts(spark, key="t", **options):
    rows = spark.range(60).selectExpr(
        "if(id % 2 = 0, 'a', 'A') as t", "id as v", "id % 3 as day", "timestamp_seconds(id * 7000) as ts", "int(id) as n"
    )
    return rows.withColumn("s", F.struct(F.col("t").alias("x"), "v")).transform(evenly.by_key, key=key, instances=2, **options)


def _other(rows):
    return rows.select(F.col("t").alias("u"), F.col("slot").alias("place"), F.col("v").alias("w"))


def _met(one, how, copied=lambda side: side):
    other = _other(one)
    return one.join(copied(other), (F.upper(one.t) == F.upper(other.u)) & (other.place == one.slot), how)


WITHIN = {
    "aggregate": lambda it: it.groupBy(F.upper("t"), "slot").agg(F.sum("v")),
    "apply": lambda it: it.groupBy(F.lower("t").alias("t"), "slot").applyInPandas(lambda frame: frame[["v"]], "v long"),
    "window": lambda it: _ranked(it, F.upper("t"), "slot"),
    "renamed": lambda it: it.withColumn("u", F.trim("t")).drop("t").dropDuplicates(["u", "slot"]),
    "python": lambda it: it.groupBy(F.udf(lambda text: text.lower(), "string")("t"), "slot").count(),
    "copied": lambda it: _met(it, "inner", F.broadcast),
    "semi": lambda it: _met(it, "semi"),
    "cogroup": lambda it: (
        it.groupBy(F.upper("t"), "slot")
        .cogroup(_other(it).groupBy(F.upper("u"), "place"))
        .applyInPandas(lambda left, _: left[["v"]], "v long")
    ),
    "distinct": lambda it: it.select(F.upper("t"), F.col("slot").cast("long")).distinct(),
    "rollup": lambda it: it.rollup(F.upper("t"), "slot").count(),
    "struct": lambda it: (
        it.select(F.struct(F.lower("t").alias("x"), "slot").alias("both")).groupBy("both.x", "both.slot").count()
    ),
    "union": lambda it: it.select("t", "slot").union(it.select(F.upper("t"), "slot")).groupBy("t", "slot").count(),
    "first": lambda it: _listed(it.groupBy("t", "slot").agg(F.first(F.upper("t")).alias("u"), F.max("v").alias("v")), "u"),
    "exploded": lambda it: it.withColumn("one", F.explode(F.split("t", ""))).groupBy("one", "slot").count(),
    "one_partition": lambda it: it.coalesce(1).groupBy(F.upper("t"), "slot").count(),
    "met_without_slots": lambda it: _listed(
        it.join(_rows(it.sparkSession, "k").select("k"), F.upper("t") == F.col("k"), "left"), "k"
    ),
    "another": lambda it: it.withColumn("t", F.col("day").cast("string")).groupBy("t", "slot").count(),
}


@pytest.mark.parametrize("case", WITHIN)
def test_a_key_that_is_computed_within_the_grouping_by_its_slot_is_told(spark, case):
    wrong = WITHIN[case](_texts(spark))
    found = {type(it).__name__ for it in evenly.check_placement(wrong)} - {"ShuffledAgain"}
    assert found == {"KeyChanged"}
    assert any("computed anew after the slot was made" in it for it in evenly.explain(wrong).apart)


def test_parts_of_a_key_times_and_narrower_types_are_told(spark):
    placed = _texts(spark, ["t", "day"])
    for wrong in (
        placed.groupBy(F.lower("t"), "day", "slot").count(),
        _texts(spark, "ts").groupBy(F.date_trunc("day", "ts"), "slot").count(),
        _texts(spark, "ts").groupBy(F.window("ts", "1 day"), "slot").count(),
        _texts(spark, "v").groupBy(F.col("v").cast("int"), "slot").count(),
        _texts(spark, "v").groupBy(F.col("v").cast("double"), "slot").count(),  # 2^53 and 2^53 + 1 are equal
        _texts(spark, "s.x").groupBy(F.upper("s.x"), "slot").count(),
    ):
        assert [type(it).__name__ for it in evenly.check_placement(wrong)] == ["KeyChanged"]
    placed.createOrReplaceTempView("texts")
    within = "upper(one.t) = upper(two.t) and one.day = two.day and one.slot = two.slot"
    for query in (
        "with it as (select upper(t) as u, day, slot as s from texts) select u, day, s, count(*) from it group by u, day, s",
        "select * from texts where (t, day, slot) not in (select upper(t), day, slot from texts)",
        f"select * from texts as one where exists (select 1 from texts as two where {within})",
        "select (select max(c) from (select count(*) as c from texts group by upper(t), day, slot))",
    ):
        assert evenly.explain(spark.sql(query)).apart != (), query


def test_a_key_that_is_computed_within_a_grouping_is_told_when_it_has_run_also_without_a_shuffle(spark, told, caplog):
    rows = _rows(spark, "z").selectExpr("z", "v").transform(evenly.by_key, key="z", instances=2)
    other = rows.select(F.col("z").alias("zz"), F.col("slot").alias("place"))
    rows.groupBy(F.bit_count("z"), "slot").count().collect()
    rows.join(F.broadcast(other), (F.abs("z") == F.abs("zz")) & (rows.slot == other.place)).collect()
    _drain(spark)
    assert {it.levelname for it in caplog.records if "computed anew" in it.getMessage()} == {"ERROR"}
    assert [re.search(r"and (.*?) was", it)[1] for it in told() if "computed anew" in it] == [
        "bit_count(z)",
        "abs(z)",
        "abs(zz)",
    ]


def test_a_key_as_it_was_placed_beside_what_is_computed_of_it_is_right(spark, told):
    placed, numbers, times = _texts(spark), _texts(spark, "n"), _texts(spark, "ts")
    two, field, whole = _texts(spark, ["t", "day"]), _texts(spark, "s.x"), _texts(spark, "v")
    reals = _rows(spark, "k").select(F.col("k").cast("double").alias("d"), "v").transform(evenly.by_key, key="d", instances=2)
    side, other = _rows(spark, "k").select(F.col("k").cast("string").alias("t")), _other(placed)
    for right in (
        placed.groupBy("t", "slot", F.upper("t")).count(),
        times.groupBy("ts", "slot", F.date_trunc("day", "ts")).count(),
        times.groupBy(F.col("ts").cast("string"), "slot").count(),  # in UTC
        numbers.groupBy(F.col("n").cast("bigint"), "slot").count(),
        numbers.groupBy(F.col("n").cast("double"), "slot").count(),
        whole.groupBy(F.coalesce("v", F.lit(3)), "slot").count(),  # it is never null
        two.groupBy("day", F.lower("t"), "slot", "t").count(),
        two.groupBy("day", "slot").count(),  # another question
        field.groupBy("s.x", "slot", "s.v").count(),
        field.groupBy("s.v", "slot").count(),
        reals.join(reals.select("d", "slot"), ["d", "slot"]).groupBy("d", "slot").count(),
        placed.select(F.struct("t", "slot").alias("both")).groupBy("both.t", "both.slot").count(),
        placed.rollup("t", "slot").count(),
        placed.join(side, "t", "full").groupBy("t", "slot").count(),  # coalesce(t, t) of two sides that are equal
        placed.join(side, placed.t == side.t, "left").groupBy(side.t, placed.slot).count(),
        placed.join(other, (placed.t == other.u) & (placed.slot == other.place) & (F.upper("t") == F.lower("u"))),
        placed.groupBy(F.upper("t").alias("t")).agg(F.max("slot").alias("slot")).groupBy("t", "slot").count(),
        placed.drop("slot")
        .withColumn("t", F.upper("t"))
        .transform(evenly.by_key, key="t", instances=2)
        .groupBy("t", "slot")
        .count(),
    ):
        assert evenly.explain(right).apart == ()
    placed.join(side, "t", "full").groupBy("t", "slot").count().collect()
    assert [it for it in told() if "computed anew" in it] == []


def test_a_key_that_comes_out_of_its_group_or_of_what_held_it_is_the_one_that_was_placed(spark):
    placed, two = _texts(spark), _texts(spark, ["t", "day"])
    counts = placed.groupBy("t", "slot").agg(F.count("v").alias("n"), F.collect_list(F.struct("*")).alias("rows"))
    most = counts.groupBy("slot").agg(F.max_by("t", "n").alias("t"))
    whole = F.max_by(F.struct("*"), "ts").alias("row")
    changed = placed.withColumn("s", F.col("s").withField("t", F.upper("t")))
    for right in (
        counts.join(most, ["t", "slot"]),
        counts.groupBy("slot").agg(F.max(F.struct("n", "t")).alias("most")).select("most.t", "slot").distinct(),
        placed.groupBy("v", "slot").agg(F.first("t").alias("t")).groupBy("t", "slot").count(),
        placed.groupBy("v", "slot").agg(whole).select("slot", "row.t").groupBy("t", "slot").count(),
        two.groupBy("t", "slot").agg(F.max("day").alias("day")).groupBy("t", "day", "slot").count(),
        placed.groupBy("slot").agg(F.count_distinct("t").alias("t")).distinct(),  # how many keys each instance has
        counts.select("slot", F.explode("rows").alias("row")).groupBy("row.t", "slot").count(),
        counts.select("slot", F.explode("rows").alias("row")).select("slot", "row.t").groupBy("t", "slot").count(),
        placed.selectExpr("slot", "stack(2, t, v, t, day) as (t, n)").groupBy("t", "slot").count(),
        placed.select(F.array("t")[0].alias("u"), F.create_map(F.lit(1), "t").alias("m"), "slot").groupBy("m", "slot").count(),
        placed.withColumn("s", F.col("s").withField("t", F.col("t"))).groupBy("s.t", "slot").count(),
        changed.groupBy("s.x", "slot").count(),
        placed.withColumn("t", F.sha2("t", 256)).groupBy("t", "slot").count(),
        placed.withColumn("t", F.concat(F.lit("user "), "t")).groupBy(F.md5("t"), "slot").count(),
    ):
        assert evenly.explain(right).apart == (), right
    for wrong in (
        placed.groupBy("v", "slot").agg(F.first(F.upper("t")).alias("u")).groupBy("u", "slot").count(),
        placed.select("slot", F.explode(F.split("t", ",")).alias("u")).groupBy("u", "slot").count(),
        changed.groupBy("s.t", "slot").count(),
        placed.groupBy(F.sha2(F.upper("t"), 256), "slot").count(),
        two.groupBy(F.concat("t", F.col("day").cast("string")), "slot").count(),
    ):
        assert len(evenly.explain(wrong).apart) == 1, wrong


def test_a_plan_that_cannot_be_read_or_is_too_large_breaks_nothing(spark, monkeypatch):
    deep = placed = _texts(spark)
    for at in range(100):
        deep = deep.withColumn("v", F.col("v") + at)
    deep, most = deep.groupBy(F.upper("t"), "slot").count(), sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        assert len(changed_keys.keys_changed(deep)) == 1
    finally:
        sys.setrecursionlimit(most)
    wrong = placed.groupBy(F.upper("t"), "slot").count()
    for name, broken in (("_MOST_LOOKS", 3), ("names_and_ids", lambda _: 1 / 0)):
        with monkeypatch.context() as changed:
            changed.setattr(changed_keys, name, broken)
            assert evenly.explain(wrong).apart == ()
    assert len(evenly.explain(wrong).apart) == 1


UNITED = {
    "aggregate": lambda it: it.groupBy("u", "slot").agg(F.sum("v")),
    "apply": lambda it: it.groupBy("u", "slot").applyInPandas(lambda frame: frame[["v"]], "v long"),
    "window": lambda it: _ranked(it.filter("v > 3"), "u", "slot"),
    "duplicates": lambda it: it.dropDuplicates(["u", "slot"]),
    "distinct": lambda it: it.select("u", "slot").distinct(),
    "renamed": lambda it: it.select("u", F.col("slot").alias("s")).groupBy("u", "s").count(),
    "cast": lambda it: it.select("u", F.col("slot").cast("long").alias("s")).groupBy("u", "s").count(),
    "join": lambda it: it.join(it.groupBy("u").agg(F.max("slot").alias("slot")), ["u", "slot"]),
    "cached": lambda it: it.cache().groupBy("u", "slot").count(),
}


def test_a_union_under_two_mappings_that_is_grouped_by_the_slot_is_told_as_an_error(spark, told, caplog):
    one, two = _placed(spark, "u"), _rows(spark, "u").transform(evenly.by_key, key="u", instances=3)
    united = one.union(two)
    count = evenly.check_placement(UNITED["aggregate"](united))
    assert [type(it).__name__ for it in count] == ["SlotsUnited"]
    for case, use in UNITED.items():
        assert len(evenly.explain(use(united)).apart) == 1, case
    united.unpersist()
    united.createOrReplaceTempView("united_rows")
    by_sql = spark.sql("with it as (select u, slot as s from united_rows) select u, s, count(*) from it group by u, s")
    assert len(evenly.explain(by_sql).apart) == 1
    thrice = united.unionByName(_placed(spark, "u").select("slot", "u", "day", "v"))
    assert len(evenly.explain(thrice.groupBy("u", "slot").count()).apart) == 1
    assert told() == []  # nothing of it has run
    assert united.groupBy("u", "slot").agg(F.sum("v")).count() > 10  # a key is there twice
    _drain(spark)
    assert {it.levelname for it in caplog.records if it.getMessage() == str(count[0])} == {"ERROR"}
    assert told() == [str(count[0])]


def test_a_union_with_rows_that_have_no_slot_is_told(spark):
    placed, rows = _placed(spark, "u"), _rows(spark, "u")
    for part in (rows.withColumn("slot", F.lit(None)), rows.withColumn("slot", F.lit(0)).where("v > 3")):
        found = evenly.check_placement(placed.unionByName(part).groupBy("u", "slot").count())
        assert [type(it).__name__ for it in found] == ["SlotsUnited"]
    missing = placed.unionByName(rows, allowMissingColumns=True)
    assert missing.groupBy("u", "slot").count().count() == 20  # each key twice
    assert len(evenly.explain(missing.groupBy("u", "slot").count()).apart) == 1
    for right in (missing.groupBy("u").count(), placed.unionByName(rows.withColumn("slot", F.col("v").cast("int")))):
        assert evenly.explain(right).apart == ()


def test_unions_that_are_right_are_not_told(spark, told):
    mapping = evenly.learn_mapping(_rows(spark, "id"), key="id", instances=4)
    one, two = (_placed(spark, "u", mapping=mapping) for _ in range(2))
    other = _rows(spark, "u").transform(evenly.by_key, key="u", instances=3)
    for frame in (
        one.union(two).groupBy("u", "slot").agg(F.collect_list("v")),
        one.union(other).groupBy("day").agg(F.collect_list("v")),
        one.union(other).groupBy("slot").count(),  # the load of each instance
        one.union(other).groupBy("u").agg(F.max("slot").alias("slot")).groupBy("u", "slot").count(),
        one.union(other).drop("slot").transform(evenly.by_key, key="u", mapping=mapping).groupBy("u", "slot").count(),
        one.groupBy("u", "slot").count().union(other.groupBy("u", "slot").count()),
    ):
        frame.collect()
        assert [it for it in told() if "different mappings" in it] == []
        assert evenly.explain(frame).apart == ()


def test_slots_of_two_mappings_that_meet_without_their_marks_are_told(spark):
    one, two = _placed(spark, "u"), _rows(spark, "u").transform(evenly.by_key, key="u", instances=3)
    same = _rows(spark, "u").transform(
        evenly.by_key, key="u", mapping=evenly.learn_mapping(_rows(spark, "u"), key="u", instances=4)
    )
    lists = [it.groupBy("u", "slot").agg(F.collect_list("v").alias("vs")) for it in (two, same)]
    for other, wrong in zip(lists, (True, False), strict=True):
        other = other.select(F.col("u").alias("w"), F.col("slot").alias("place"))  # noqa: PLW2901
        for met in (
            one.slot.eqNullSafe(other.place),
            one.slot.cast("long") == other.place.cast("long"),
            F.struct(one.slot) == F.struct(other.place),
        ):
            for copied in (other, F.broadcast(other)):
                found = evenly.explain(one.join(copied, (one.u == other.w) & met)).apart
                assert ["misses rows" in it for it in found] == [True] * wrong
        together = one.groupBy("u", F.col("slot").cast("long")).cogroup(other.groupBy("w", F.col("place").cast("long")))
        found = evenly.explain(together.applyInPandas(lambda left, _: left[["v"]], "v long")).apart
        assert ["misses rows" in it for it in found] == [True] * wrong


FILTERED = {
    "semi": lambda one, two: one.join(two, ["u", "slot"], "semi"),
    "anti": lambda one, two: one.join(two, ["u", "slot"], "anti"),
    "intersect": lambda one, two: one.intersect(two),
    "except": lambda one, two: one.exceptAll(two),
    "in": lambda one, _: one.sparkSession.sql("select * from one where (u, slot) not in (select u, slot from two)"),
    "exists": lambda one, _: one.sparkSession.sql(
        "select * from one where v > 3 and exists (select 1 from two where one.u = two.u and one.slot = two.slot)"
    ),
}


@pytest.mark.parametrize("case", FILTERED)
def test_rows_that_are_filtered_by_slots_of_another_mapping_are_told_as_an_error(spark, told, caplog, case):
    """Spark moves such a join to where the slot is computed, which has no mark in the physical plan."""
    one, two = _placed(spark, "u"), _rows(spark, "u").transform(evenly.by_key, key="u", instances=3)
    one.createOrReplaceTempView("one")
    two.createOrReplaceTempView("two")
    wrong = FILTERED[case](one, two)
    found = evenly.check_placement(wrong)
    assert [type(it).__name__ for it in found if "misses rows" in str(it)] == ["SlotsApart"]
    assert len(evenly.explain(wrong).apart) == 1
    caplog.clear()
    wrong.collect()
    told_of = [it for it in told() if "misses rows" in it]
    assert told_of in ([], [str(found[0])])  # once in a session: several cases say the same
    mapping = evenly.learn_mapping(_rows(spark, "u"), key="u", instances=4)
    one, two = (_placed(spark, "u", mapping=mapping) for _ in range(2))
    one.createOrReplaceTempView("one")
    two.createOrReplaceTempView("two")
    assert evenly.explain(FILTERED[case](one, two)).apart == ()


def test_every_session_has_one_listener_and_a_cloned_one_has_its_parents(spark, told):
    def listeners(session):
        return len(session._jsparkSession.listenerManager().listListeners())

    before = _placed(spark, "k").count() and listeners(spark)
    _placed(spark, "k")
    assert listeners(spark) == before
    other = spark.newSession()
    assert listeners(other) == 0
    placed = _placed(other, "other_session")
    tell_of_shuffles(placed, "slot")
    assert listeners(other) == 1
    placed.groupBy("other_session").agg(F.collect_list("v")).collect()
    assert told() == _again("other_session")
    clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    tell_of_shuffles(_rows(clone, "k"), "slot")
    assert listeners(clone) == before


def test_a_silenced_logger_has_no_listener(spark, caplog):
    other = spark.newSession()
    caplog.set_level(logging.ERROR, logger="evenly")
    _placed(other, "k")
    assert len(other._jsparkSession.listenerManager().listListeners()) == 0


def test_what_goes_wrong_in_the_listener_stays_there(spark, told, monkeypatch):
    def broken(_plan):
        raise RuntimeError("no such plan")

    monkeypatch.setattr(placement_listener, "shuffled_again", broken)
    assert _placed(spark, "broken").count() == 200
    assert told() == ["the plan of an action could not be read"]
    PlacementListener(None, None, None, ()).onSuccess("collect", None, 1)


def test_it_outlives_a_stopped_session_and_leaves_quietly():
    script = Path(__file__).with_name("told_shuffles.py")
    done = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stdout) == (0, "7 7\n"), done.stderr
    of_java = ("WARNING: Using incubator", "NOTE: Picked up JDK_JAVA_OPTIONS")
    lines = [line for line in done.stderr.splitlines() if not line.startswith(of_java)]
    assert lines == _again("first") + _again("second")
