"""A first run in pieces: every row once, in the piece that the rule says, whatever order rows come in; told by slots."""

import sys

import known_costs
import numpy as np
import pytest
from known_costs import Placed, kinds_model
from pyspark import cloudpickle
from pyspark.sql import functions as F

import evenly
from evenly.costs.rounds import ROUNDS, piece_of, shares
from evenly.errors import InvalidParameter
from evenly.spark.costs.dealing import deal_in_pieces
from evenly.spark.costs.row_ids import content_hash

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
cloudpickle.register_pickle_by_value(known_costs)

ROWS, INSTANCES = 600, 3


def frame(spark, rows=ROWS):
    return spark.range(0, rows, 1, 4).selectExpr("id", "cast(id % 5 as int) as kind")


def in_pieces(df, function, schema, **more):
    return evenly.apply_by_cost(df, function, schema, instances=INSTANCES, pieces=True, **more)


def test_every_row_is_run_once_and_told_by_the_slot_that_ran_it(spark):
    watch = evenly.CostWatch()
    result = in_pieces(frame(spark), Placed(), Placed.schema, cost_key="kind", watch=watch)
    assert watch.decision.way == "in pieces"
    assert not watch.decision.by_cost
    plan = result._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange") == 1
    rows = result.collect()
    assert sorted(row.id for row in rows) == list(range(ROWS))
    counts = np.bincount([row.instance for row in rows]).reshape(ROUNDS, INSTANCES)
    assert np.abs(counts - ROWS / INSTANCES * shares(INSTANCES).reshape(ROUNDS, INSTANCES) * INSTANCES).max() <= 6
    assert np.ptp(counts.sum(axis=0)) <= 4  # one for each partition of the input
    assert len(watch.reports) == ROUNDS * INSTANCES
    assert watch.busy_s.size >= INSTANCES
    assert watch.busy_s.sum() == pytest.approx(sum(report.busy_s for report in watch.reports))
    assert (watch.costs.rows, watch.costs.batch_rows, watch.costs.keys) == (ROWS, ROWS, 5)


def test_rows_are_in_the_piece_that_the_rule_says(spark):
    df = frame(spark)
    sent = df.select("id", F.spark_partition_id().alias("part"), content_hash(df).alias("order")).collect()
    told = {
        row.id: row.piece for row in deal_in_pieces(df, INSTANCES).select("id", F.spark_partition_id().alias("piece")).collect()
    }
    expected = {}
    for part in range(4):
        here = sorted((row.order, row.id) for row in sent if row.part == part)
        expected |= dict(zip([key for _, key in here], piece_of(np.arange(len(here)), part, INSTANCES).tolist(), strict=True))
    assert told == expected


def test_rows_go_to_the_same_piece_in_whatever_order_they_come(spark):
    """So that a task that Spark runs again sends every row where it went before."""
    df = frame(spark).coalesce(1)
    placed = [
        {row.id: row.instance for row in in_pieces(each, Placed(), Placed.schema).collect()}
        for each in (df, df.sortWithinPartitions(F.col("id").desc()))
    ]
    assert placed[0] == placed[1]


def test_frames_of_any_columns(spark):
    doubled = spark.range(40).selectExpr("id as a", "id + 1 as a", "map('x', id) as m")
    assert sorted(row.n for row in in_pieces(doubled, lambda row: row[1], "n long").collect()) == list(range(1, 41))
    assert in_pieces(spark.range(7).select(), lambda _: 1, "n long").count() == 7
    assert in_pieces(frame(spark).where("id < 0"), lambda _: 1, "n long", watch=evenly.CostWatch()).collect() == []


def test_rows_of_thousands_of_columns_are_planned(spark):
    """Spark's stack overflowed: it works out what an order is called behind each step, operand by operand."""
    wide = spark.range(9).selectExpr("id", *(f"{at} as c{at}" for at in range(2_000)))
    plan = deal_in_pieces(wide, INSTANCES)._jdf.queryExecution().executedPlan()
    assert len(wide.columns) == plan.output().size()


@pytest.mark.parametrize("more", [{"call": evenly.CallOptions(threads=2)}, {"objective": "arrival"}])
def test_where_small_pieces_lose_rows_go_out_evenly(spark, more):
    watch = evenly.CostWatch()
    rows = in_pieces(frame(spark, 60), lambda row: row.id, "id long", cost_key="kind", watch=watch, **more).collect()
    assert len(rows) == 60
    assert watch.decision.reason.startswith("evenly: nothing is known of costs yet; small pieces are not for")
    assert len(watch.reports) == INSTANCES


def test_what_is_known_is_dealt_by_cost_and_nothing_else_is_taken(spark):
    watch = evenly.CostWatch()
    in_pieces(frame(spark), Placed(), Placed.schema, costs=kinds_model(spark), watch=watch)
    assert watch.decision.by_cost
    empty = evenly.CostWatch()
    in_pieces(frame(spark), Placed(), Placed.schema, costs=evenly.CostModel(("kind",)), watch=empty)
    assert empty.decision.way == "in pieces"
    with pytest.raises(InvalidParameter, match="pieces must be True, False or None, got 'always'"):
        evenly.apply_by_cost(frame(spark), Placed(), Placed.schema, instances=2, pieces="always")


def test_a_first_run_goes_in_pieces_unless_fewer_instances_than_slots_were_asked_for(spark):
    """More calls at a time than instances would be a surprise."""
    slots = spark.sparkContext.defaultParallelism
    for instances, way in ((slots, "in pieces"), ("auto", "in pieces"), (slots - 1, "evenly")):
        watch = evenly.CostWatch()
        ran = evenly.apply_by_cost(frame(spark, 60), Placed(), Placed.schema, cost_key="kind", instances=instances, watch=watch)
        assert watch.decision.way == way
        assert ran.count() == 60
        assert len(watch.reports) == (ROUNDS * slots if way == "in pieces" else slots - 1)
    whole = evenly.CostWatch()
    evenly.apply_by_cost(frame(spark, 60), Placed(), Placed.schema, instances=slots, pieces=False, watch=whole)
    assert whole.decision.way == "evenly"
