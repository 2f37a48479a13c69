"""What a run's rows weigh, remembered as their number is: learnt once, weighed on the way, learnt anew where weights change."""

import logging
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidCost, InvalidParameter, UnknownColumn, UnsupportedSpark
from evenly.measures import imbalance_pct
from evenly.remembered import Remembered
from evenly.spark import features
from evenly.spark.jvm.outcomes import settle
from evenly.spark.keyed import by_key as by_key_module
from evenly.spark.keyed import split as split_module
from evenly.spark.remembering import memory
from evenly.spark.remembering.weighing import Weighing, read_sums, sums, text_of

K = 4
WRONG = "case v % 7 when 1 then null when 2 then double('NaN') when 3 then -1D when 4 then 1e101 else v end"


@pytest.fixture
def learnings(monkeypatch):
    """How often a mapping was learnt."""
    seen = []
    learn = by_key_module.learn_mapping

    def noted(*args, **kwargs):
        seen.append(kwargs["weight"])
        return learn(*args, **kwargs)

    for module in (by_key_module, split_module):
        monkeypatch.setattr(module, "learn_mapping", noted)
    return seen


@pytest.fixture(scope="module")
def rows(spark):
    """Twenty of a hundred keys weigh much, each as many rows as any other."""
    return (
        spark.range(0, 2_000, 1, 3)
        .selectExpr("cast(id % 100 as int) as user", "id as v", "cast(if(id % 100 < 20, 50 + id % 9, 1) as int) as size")
        .persist()
    )


def kept(spark, folder):
    settle(spark)
    return [Remembered.load(it) for it in sorted(Path(folder).glob("*.json"))]


def place(df, folder, weight="size", **more):
    return evenly.by_key(df, **{"key": "user", "instances": K, "slot": None, "remember": str(folder), "weight": weight, **more})


def same(one, other):
    return Counter(map(repr, one.collect())) == Counter(map(repr, other.collect()))


def carried(placed, weight="size"):
    loads = np.zeros(K)
    for row in placed.groupBy(F.spark_partition_id().alias("at")).agg(F.sum(weight).alias("w")).collect():
        loads[row.at] = row.w
    return loads


def test_weights_are_learnt_once_and_anew_where_they_change(spark, rows, learnings, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="evenly")
    total = rows.agg(F.sum("size")).first()[0]
    for _ in range(2):
        assert same(place(rows, tmp_path), rows)
    (told,) = kept(spark, tmp_path)
    assert (len(learnings), told.subject.weight, told.anew) == (1, "size", None)
    assert [(it.did, it.rows) for it in told.runs] == [("learnt", total), ("kept", total)]
    assert told.runs[1].carried_pct == pytest.approx(told.runs[1].promised_pct)
    # The same rows, of which others are heavy now.
    turned = rows.withColumn("size", F.expr("cast(if(user >= 92, 900, 1) as int)"))
    assert same(place(turned, tmp_path), turned)
    (told,) = kept(spark, tmp_path)
    assert told.anew is not None
    assert "the next run learns anew" in caplog.text
    fresh = evenly.learn_mapping(turned, key="user", instances=K, weight="size")
    assert imbalance_pct(carried(place(turned, tmp_path))) <= fresh.fitted_imbalance_pct + 5.0
    place(turned, tmp_path).count()
    (told,) = kept(spark, tmp_path)
    assert (told.anew, len(learnings)) == (None, 2)
    assert [it.did for it in told.runs] == ["learnt", "kept", "kept", "learnt", "kept"]


def test_more_of_the_same_in_another_unit_is_no_drift(spark, rows, learnings, tmp_path):
    place(rows, tmp_path).count()
    for factor in (1e-9, 1e9):
        place(rows.withColumn("size", F.col("size") * factor), tmp_path).count()
    (told,) = kept(spark, tmp_path)
    assert (len(learnings), told.anew) == (1, None)
    assert [it.rows / told.runs[0].rows for it in told.runs] == pytest.approx([1.0, 1e-9, 1e9])


def test_another_weight_or_none_is_another_question(spark, rows, learnings, tmp_path):
    rows = rows.withColumn("other", F.lit(1))
    for _ in range(2):
        for weight in (None, "size", F.col("size"), "other", F.col("size") / 7, F.expr("size + 1")):
            place(rows, tmp_path, weight=weight).count()
    assert len(learnings) == 5
    told = kept(spark, tmp_path)
    assert {it.subject.weight for it in told} == {None, "size", "other", "/(size, 7)", "size + 1"}
    assert {it.subject.weight: len(it.runs) for it in told}["size"] == 4


def test_a_result_is_weighed_once_however_often_it_is_computed(spark, rows, tmp_path):
    total = rows.agg(F.sum("size")).first()[0]
    for slot in (None, "slot"):
        folder = tmp_path / str(slot)
        placed = place(rows, folder, slot=slot)
        assert kept(spark, folder)[0].runs == ()
        placed.where("false").count()
        placed.limit(1).collect()
        placed.union(placed).count()
        assert [it.rows for it in kept(spark, folder)[0].runs] == [total]
        again = place(rows, folder).persist() if slot is None else placed
        again.where("v < 5").count()
        again.unpersist()
    assert [it.rows for it in kept(spark, tmp_path / "None")[0].runs] == [total, total]


def test_every_call_that_takes_a_weight_remembers_it(spark, rows, learnings, tmp_path):
    merging = evenly.Merging(
        lambda part: pd.DataFrame({"n": [len(part)]}),
        lambda parts: pd.DataFrame({"n": [sum(int(part["n"].iloc[0]) for part in parts)]}),
        "n long",
    )
    how = {"key": "user", "instances": K, "weight": "size", "remember": tmp_path}
    for _ in range(2):
        applied = evenly.apply_by_key(rows, lambda group: group[["user"]].head(1), "user int", **how)
        assert applied.count() == 100
        assert same(evenly.aggregate_by_key(rows, merging, **how), rows.groupBy("user").agg(F.count("*").alias("n")))
        assert same(evenly.split_by_key(rows, **how).drop("part"), rows)
        assert same(evenly.by_key(rows, **how).drop("slot"), rows)
    (told,) = kept(spark, tmp_path)
    total = rows.agg(F.sum("size")).first()[0]
    # Of two calls of by_key with a slot in one application the later one gets what the first one had, and tells nothing.
    assert (len(learnings), [it.rows for it in told.runs]) == (1, [total] * 7)
    assert not any(it.anew for it in told.runs)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.b", "decimal(38,10)"),
        ("a b", "tinyint"),
        ("Größe `x`", "float"),
        ("size + 1", "double"),
        ("__evenly_load", "decimal(5,0)"),
    ],
)
def test_weights_of_any_name_and_type(spark, rows, learnings, tmp_path, name, kind):
    named = rows.select("user", "v", F.col("size").cast(kind).alias(name))
    for weight in (name, F.col("`{}`".format(name.replace("`", "``")))):
        place(named, tmp_path, weight=weight).count()
    place(named, tmp_path, weight=name).count()
    told = [run for it in kept(spark, tmp_path) for run in it.runs]
    assert [it.rows for it in told] == [rows.agg(F.sum("size")).first()[0]] * 3
    assert len(learnings) <= 2


@pytest.mark.parametrize("factor", [1e-300, 1e97])
def test_weights_of_any_size(spark, rows, learnings, tmp_path, factor):
    scaled = rows.withColumn("size", F.col("size") * F.lit(factor))
    for _ in range(2):
        place(scaled, tmp_path).count()
    turned = rows.withColumn("size", F.expr("if(user >= 92, 900D, 1D)") * F.lit(factor))
    place(turned, tmp_path).count()
    (told,) = kept(spark, tmp_path)
    assert len(learnings) == 1
    assert [it.anew for it in told.runs] == [False, False, True]
    assert told.runs[0].rows == pytest.approx(rows.agg(F.sum("size")).first()[0] * factor)


def test_another_type_of_weight_is_the_same_weight_and_none_is_refused(spark, rows, learnings, tmp_path):
    for kind in ("int", "bigint", "double", "decimal(20,2)"):
        place(rows.withColumn("size", F.col("size").cast(kind)), tmp_path).count()
    (told,) = kept(spark, tmp_path)
    assert (len(learnings), len(told.runs), told.anew) == (1, 4, None)
    with pytest.raises(InvalidParameter, match="of type string"):
        place(rows.withColumn("size", F.lit("x")), tmp_path)
    with pytest.raises(UnknownColumn, match=r"'size'.* weighs df itself"):
        place(rows.drop("size"), tmp_path, fit_on=rows)
    with pytest.raises(InvalidParameter, match="not a number of each row"):
        place(rows, tmp_path, weight=F.explode(F.array("size")))


def test_what_is_no_weight_stops_no_run_that_keeps_and_is_refused_by_one_that_learns(spark, rows, tmp_path, caplog):
    place(rows, tmp_path).count()
    wrong = rows.withColumn("size", F.expr(WRONG))
    assert place(wrong, tmp_path).count() == 2_000
    (told,) = kept(spark, tmp_path)
    count = rows.where("v % 7 in (1, 2, 3, 4)").count()
    assert f"by_key: {count} rows had a weight (size) that is null, negative, NaN or infinite" in caplog.text
    assert told.runs[-1].rows == pytest.approx(rows.where("v % 7 not in (1, 2, 3, 4)").agg(F.sum("v")).first()[0])
    with pytest.raises(InvalidCost, match=f"{count} rows have a weight"):
        place(wrong, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    caplog.clear()
    assert place(rows.withColumn("size", F.lit(None).cast("int")), tmp_path).count() == 2_000
    assert kept(spark, tmp_path)[0].runs[-1].rows == 0.0
    assert "by_key: 2000 rows had a weight" in caplog.text


def test_weights_of_nothing_promise_nothing(spark, rows, learnings, tmp_path):
    place(rows.limit(0), tmp_path).count()
    assert kept(spark, tmp_path)[0].runs == ()
    place(rows.withColumn("size", F.lit(0)), tmp_path).count()
    place(rows.withColumn("size", F.expr("if(user = 1, 1e9, 1e-9)")), tmp_path).count()
    (told,) = kept(spark, tmp_path)
    assert (len(learnings), [it.rows for it in told.runs]) == (1, [0.0, pytest.approx(2e10)])


@pytest.mark.parametrize("slot", [None, "slot"])
def test_an_expression_of_all_columns_is_of_those_of_the_rows(spark, rows, tmp_path, monkeypatch, slot):
    weight = F.length(F.to_json(F.struct("*")))
    total = rows.agg(F.sum(F.length(F.to_json(F.struct(*rows.columns))))).first()[0]
    monkeypatch.setattr(memory, "_handed_out", {})
    assert same(place(rows, tmp_path, weight=weight, slot=slot).drop("slot"), rows)
    hot = rows.withColumn("user", F.expr("if(v % 3 = 0, user, 7)"))
    wanted = evenly.split_by_key(hot, key="user", instances=K, weight=weight)
    assert same(evenly.split_by_key(hot, key="user", instances=K, weight=weight, remember=tmp_path / "split"), wanted)
    (told,), (split,) = kept(spark, tmp_path), kept(spark, tmp_path / "split")
    assert told.runs[0].rows == total
    assert split.runs[0].rows == hot.agg(F.sum(F.length(F.to_json(F.struct(*hot.columns))))).first()[0]


def test_a_sum_is_no_weight_where_nothing_is_left_to_learn_either(rows, tmp_path):
    evenly.by_key(rows, key="user", instances=K, weight="size", remember=tmp_path)
    with pytest.raises(InvalidParameter, match="not a number of each row"):
        evenly.by_key(rows, key="user", instances=K, weight=F.sum("size"), remember=tmp_path)


def test_slots_of_a_folder_are_of_one_mapping_whatever_is_weighed(rows, learnings, tmp_path, caplog):
    sides = [evenly.by_key(rows, key="user", instances=K, weight=it, remember=tmp_path) for it in ("size", "size", None)]
    (told,) = caplog.records
    assert "rows by user get the slots" in told.getMessage()
    assert "rows by user with weight size in" in told.getMessage()
    assert len(learnings) == 1
    other = sides[2].select("user", "slot", F.col("v").alias("w"))
    assert sides[0].join(other, ["user", "slot"]).count() == rows.join(rows.select("user"), "user").count()


@pytest.mark.parametrize("instances", [1, 15, 16, 1_000])
def test_rows_are_weighed_by_instance(spark, instances):
    frame = spark.range(0, 20_000, 1, 5).selectExpr(f"cast(pow(id, 1.5) % {instances} as int) as at", "id as v")
    frame = frame.withColumn("w", F.expr(WRONG))
    weighed = Weighing.of(frame, ("at",), "w", by="by_key")
    weighed = weighed.loaded(weighed.given_to(frame), "at", instances, 3e-7)
    found = read_sums(weighed.agg(*sums(instances)).first(), instances, 3e-7)
    right = frame.where("v % 7 not in (1, 2, 3, 4)").toPandas()
    wanted = np.bincount(right["at"], weights=right["w"], minlength=instances)
    assert found.weighed.loads == pytest.approx(wanted)
    assert found.weighed.rows == pytest.approx(right["w"].sum() ** 2 / (right["w"] ** 2).sum())
    assert found.wrong == 20_000 - len(right)
    assert read_sums(weighed.where("false").agg(*sums(instances)).first(), instances, 3e-7) is None


@pytest.mark.usefixtures("spark")
def test_an_expression_has_one_text_in_every_call():
    def written():
        summed = F.aggregate("items", F.lit(0), lambda total, x_1: total + x_1 + F.col("x_9"))
        return [text_of(it) for it in (summed, F.udf(lambda it: it)("a"), F.col("w") / Decimal("1.50"), F.lit("it's"))]

    assert written() == written()
    assert len(set(written())) == 4
    # A line of this file is no part of what a function takes.
    double = F.udf(lambda it: 2 * it)
    one = text_of(double(F.col("a") + 1) * F.lit("x"))
    assert one == text_of(double(F.col("a") + 1) * F.lit("x"))
    assert "List(a)" in one
    assert text_of(double(F.col("b") + 1)) != text_of(double(F.col("a") + 1))
    assert text_of(F.transform("a", lambda x: x + F.col("x_9"))) != text_of(F.transform("a", lambda x: x + F.col("x_8")))


def test_a_spark_that_cannot_weigh_is_told(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(features.Found, "of", lambda _: features.Found("4.1.0"))
    with pytest.raises(UnsupportedSpark, match=r"remember= with weight= of by_key needs .* 4\.2 or later"):
        place(rows, tmp_path)


def test_the_next_application_places_by_what_was_weighed(spark, rows, tmp_path, monkeypatch):
    evenly.by_key(rows, key="user", instances=K, weight="size", remember=tmp_path).count()
    monkeypatch.setattr(memory, "_handed_out", {})
    evenly.by_key(rows, key="user", instances=K, weight="size", remember=tmp_path).count()
    (told,) = kept(spark, tmp_path)
    assert [it.did for it in told.runs] == ["learnt", "kept"]
