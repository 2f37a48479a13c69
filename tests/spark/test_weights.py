"""What rows count for, instead of one: evened out is that, results are those of plain Spark, and nonsense is refused."""

from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidCost, InvalidParameter, UnknownColumn
from evenly.measures import imbalance_pct

K = 4


@pytest.fixture(scope="module")
def rows(spark):
    """A few keys have long texts, and as many rows as all others."""
    found = spark.range(0, 6_000, 1, 3).selectExpr(
        "pmod(xxhash64(id), 60) as user", "id", "repeat('x', cast(if(pmod(xxhash64(id), 60) < 3, 400, 5) as int)) as `a.text`"
    )
    return found.withColumn("size", F.length("`a.text`")).persist()


def weights(placed, what="size"):
    found = placed.groupBy(F.spark_partition_id().alias("at")).agg(F.sum(what).alias("load")).collect()
    loads = np.zeros(K)
    for row in found:
        loads[row.at] = row.load
    return loads


@pytest.mark.parametrize("weight", [str, lambda size: F.col(size) / 7])
def test_the_weight_of_instances_is_even_and_not_their_rows(rows, weight):
    placed = evenly.by_key(rows, key="user", instances=K, weight=weight("size"), tolerance_pct=None)
    by_rows = evenly.by_key(rows, key="user", instances=K, tolerance_pct=None)
    total = weights(rows).sum()
    heaviest = rows.groupBy("user").agg(F.sum("size").alias("s")).agg(F.max("s")).first()[0]
    least = max(0.0, 100.0 * (heaviest * K / total - 1.0))
    assert imbalance_pct(weights(placed)) < least + 2.0
    assert imbalance_pct(weights(placed)) < imbalance_pct(weights(by_rows)) - 10.0
    assert placed.drop("slot").exceptAll(rows).isEmpty()


def test_a_mapping_tells_loads_of_weights_and_is_the_same_again(rows):
    learnt = evenly.learn_mapping(rows, key="user", instances=K, weight="size")
    assert learnt.fitted_loads.sum() == weights(rows).sum()
    assert learnt.expected_range_pct is not None
    fractions = F.col("size") / 7
    again = [evenly.learn_mapping(rows, key="user", instances=K, weight=fractions) for _ in range(2)]
    assert again[0] == again[1]
    assert again[0].fitted_loads.sum() == pytest.approx(weights(rows).sum() / 7, rel=1e-5)


def test_everything_that_places_by_key_takes_a_weight(rows):
    expected = {row.user: row.n for row in rows.groupBy("user").agg(F.count("*").alias("n")).collect()}
    parts = evenly.split_by_key(rows, key="user", instances=K, weight="size")
    assert parts.drop("part").exceptAll(rows).isEmpty()
    merging = evenly.Merging(lambda part: part[["id"]].count().to_frame("n"), sum, "n long")
    counted = evenly.aggregate_by_key(rows, merging, key="user", instances=K, weight="size")
    assert {row.user: row.n for row in counted.collect()} == expected
    applied = evenly.apply_by_key(
        rows,
        lambda group: group[["user"]].head(1).assign(n=len(group)),
        "user long, n long",
        key="user",
        instances=K,
        weight="size",
    )
    assert {row.user: row.n for row in applied.collect()} == expected


def test_a_diagnosis_is_of_weights(rows):
    found = evenly.diagnose_keys(rows, key="user", instances=K, weight="size")
    assert found.unit == "weight"
    assert found.rows == weights(rows).sum() == sum(found.at[0].rows_by_hash) == sum(found.at[0].rows_by_evenly)
    assert 'weight="size"' in (found.at[0].call or 'weight="size"')
    assert replace(found.at[0], weight="").call is None  # an expression cannot be written down


@pytest.mark.parametrize("wrong", ["null", "-1", "double('NaN')", "cast('Infinity' as float)"])
def test_what_is_no_weight_is_refused_wherever_it_is(spark, wrong):
    df = spark.range(0, 60_000, 1, 2).selectExpr("id % 5 as k", f"if(id in (29999, 59999), {wrong}, 1) as w")
    with pytest.raises(InvalidCost, match="2 rows have a weight that is null, negative, NaN or infinite"):
        evenly.learn_mapping(df, key="k", instances=2, tolerance_pct=50.0, weight="w")


def test_weights_that_are_all_nothing_spread_keys_by_hash(rows):
    learnt = evenly.learn_mapping(rows, key="user", instances=K, weight=F.lit(0))
    assert learnt.expectation is None
    assert learnt.fitted_loads.sum() == 0.0
    assert evenly.learn_mapping(rows.limit(0), key="user", instances=K, weight="size").fitted_loads.sum() == 0.0


def test_mistakes_are_said_at_once(rows):
    with pytest.raises(UnknownColumn, match="'sise'"):
        evenly.by_key(rows, key="user", instances=K, weight="sise")
    for several in (F.sum("size"), F.explode(F.array("size", "id"))):
        with pytest.raises(InvalidParameter, match="not a number of each row"):
            evenly.learn_mapping(rows, key="user", instances=K, weight=several)
    with pytest.raises(InvalidCost, match=r"6000 rows .* \(above 1e\+100\)"):  # their squares would be no numbers
        evenly.learn_mapping(rows, key="user", instances=K, weight=F.lit(1e200))
    with pytest.raises(InvalidParameter, match="of type string"):
        evenly.by_key(rows, key="user", instances=K, weight="a.text")
    with pytest.raises(InvalidParameter, match="must be the name of a column"):
        evenly.by_key(rows, key="user", instances=K, weight=3)
    learnt = evenly.learn_mapping(rows, key="user", instances=K)
    for call in (evenly.by_key, evenly.split_by_key):
        with pytest.raises(InvalidParameter, match="mapping was given"):
            call(rows, key="user", instances=K, mapping=learnt, weight="size")
