"""Whether an observation has a result: an action of which Spark finds that it has no rows observes nothing."""

import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F

import evenly
from evenly.spark.jvm.observed import is_observed


@pytest.mark.parametrize(("condition", "known"), [("id >= 0", True), ("id < 0", True), ("false", False)])
def test_an_action_that_spark_leaves_out_observes_nothing(spark, condition, known):
    observation, rows = Observation(), spark.range(5)
    rows.observe(observation, F.count(F.lit(1)).alias("rows")).where(condition).collect()
    assert is_observed(observation, rows) == known
    if known:
        assert observation.get == {"rows": 5}


def test_a_watch_of_rows_that_nobody_runs_is_not_ready(spark):
    watch = evenly.CostWatch()
    ran = evenly.apply_by_cost(spark.range(5), lambda row: row.id, "id long", instances=2, watch=watch)
    assert ran.where("false").collect() == []
    assert not watch.ready
    assert watch.reports == ()
