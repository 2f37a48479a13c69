"""`aggregate_by_key(..., balance="time")`: keys that take too long are split, results are those of Spark, times come back."""

import logging

import pandas as pd
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.costs.group_report import GroupMeter
from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.keys.split_mapping import SplitMapping

TOTALS = evenly.Merging(
    partial=lambda rows: (len(rows), int(rows["amount"].sum())),
    merge=lambda partials: pd.DataFrame(
        {"parts": [len(partials)], "rows": [sum(p[0] for p in partials)], "total": [sum(p[1] for p in partials)]}
    ),
    schema="parts int not null, rows bigint not null, total bigint",
)


@pytest.fixture(scope="module")
def visits(spark):
    """A third of the rows of one key, a twentieth of null, others of 30 keys; "slow" has 40 rows and "single" one."""
    user = (
        "case when id < 40 then 'slow' when id = 40 then 'single' when id % 3 = 0 then 'many' when id % 20 = 1 then null "
        "else concat('user ', id % 30) end"
    )
    return spark.range(1_200).selectExpr(f"{user} as user", "id", "id * 31 % 1000 as amount").repartition(3, "id").persist()


@pytest.fixture(scope="module")
def times(visits):
    """A millisecond a row, but for a slow key and one of a single long row."""
    seconds = {"slow": 4.0, "single": 4.0}
    known, meter = evenly.GroupTimes(["user"], ["string"]), GroupMeter()
    for user, key, rows in visits.groupBy("user").agg(F.xxhash64("user"), F.count("*")).collect():
        meter.add(key, rows, seconds.get(user, rows / 1000))
        meter.name(key, seconds.get(user, rows / 1000), repr(user))
    for key, rows in enumerate([1, 3, 10, 30, 100, 300, 1000] * 8):
        meter.add(key, rows, rows / 1000)
    return known.learn([meter.report(0)])


def wanted(visits):
    return sorted(map(tuple, visits.groupBy("user").agg(F.count("*"), F.sum("amount")).collect()), key=repr)


def found(result):
    return sorted(map(tuple, result.drop("parts").collect()), key=repr)


def aggregated(visits, watch, **options):
    return evenly.aggregate_by_key(visits, TOTALS, key="user", instances=4, balance="time", watch=watch, **options)


@pytest.mark.parametrize("batch", ["10000", "7"])
def test_results_are_those_of_spark_before_and_after_times_are_known(spark, visits, times, batch, caplog):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", batch)
    try:
        first, later = evenly.TimeWatch(), evenly.TimeWatch()
        before = aggregated(visits, first)
        assert [field.nullable for field in before.schema] == [True, False, False, True]
        assert not first.ready
        assert found(before) == wanted(visits)
        parts = {row.user: row.parts for row in before.collect()}
        assert [user for user, count in parts.items() if count > 1] == ["many"], "by rows"
        with caplog.at_level(logging.WARNING, "evenly"):
            after = aggregated(visits, later, times=times)
        (told,) = [it.getMessage() for it in caplog.records if "longer than an instance" in it.getMessage()]
        assert "'single' (" in told
        assert "'slow'" not in told
        assert found(after) == wanted(visits)
        parts = {row.user: row.parts for row in after.collect()}
        assert [user for user, count in parts.items() if count > 1] == ["slow"], "by time"
        assert isinstance(later.mapping, SplitMapping)
        assert later.mapping.fitted_loads.sum() == pytest.approx(9.0, rel=0.3)  # seconds
        # Each part is measured as a group of its own, with its own rows.
        for watch, split in ((first, "many"), (later, "slow")):
            key = visits.select(F.xxhash64(F.lit(split))).first()[0]
            rows = [n for it in watch.reports for at, n in zip(it.ids.tolist(), it.rows.tolist(), strict=True) if at == key]
            assert len(rows) > 1
            assert sum(rows) == visits.where(F.col("user") == split).count()
            assert sum(it.all_rows for it in watch.reports) == 1_200
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_a_watch_measures_whatever_is_balanced_and_no_rows_give_no_reports(visits):
    watch = evenly.TimeWatch()
    plain = evenly.aggregate_by_key(visits, TOTALS, key="user", instances=2, watch=watch)
    assert repr(watch).startswith("TimeWatch(nothing measured yet")
    assert found(plain) == wanted(visits)
    assert watch.mapping is None
    assert watch.times.columns == ("user",)
    assert f"{sum(it.groups for it in watch.reports):,} groups" in repr(watch)
    empty = evenly.TimeWatch()
    assert aggregated(visits.limit(0), empty).collect() == []
    assert empty.ready
    assert empty.times.exponent is None


def test_what_makes_no_sense_is_refused_at_the_call(spark, visits, times):
    def refused(message, *aggregates, error=InvalidParameter, df=visits, **options):
        with pytest.raises(error, match=message):
            evenly.aggregate_by_key(df, *(aggregates or (TOTALS,)), key="user", instances=4, **options)

    refused("balance='time' needs to know times", balance="time")
    refused("give balance='time' too", times=times)
    refused("give one of them", balance="time", times=times, mapping=evenly.learn_mapping(visits, key="user", instances=4))
    refused("are for balance='rows'", balance="time", times=times, way="w-choices")
    refused("are for balance='rows'", balance="time", times=times, weight="amount")
    refused("are left to Spark", F.count("*"), balance="time", times=times)
    whole = evenly.Merging(lambda rows: pd.DataFrame({"rows": [len(rows)]}), None, "rows bigint")
    refused("does not merge", whole, balance="time", times=times)
    stream = spark.readStream.format("rate").load().selectExpr("cast(value as string) as user", "value as amount")
    refused("cannot be split", df=stream, balance="time", times=times, error=StreamingMismatch)
