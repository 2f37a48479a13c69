import pytest

import evenly
from evenly.errors import InvalidParameter, StreamingMismatch

pytestmark = pytest.mark.spark


def test_rows_are_counted_where_they_are_with_empty_instances(spark):
    rows = spark.range(100).selectExpr("id % 2 as k")
    placed = rows.transform(evenly.by_key, key="k", instances=4)
    found = evenly.placed_rows(placed, instances=4)
    assert sorted(found.rows) == [0, 0, 50, 50]
    assert found.imbalance_pct == 100.0
    held = placed.rdd.mapPartitions(lambda part: [sum(1 for _ in part)]).collect()
    assert list(found.rows) == held
    assert evenly.placed_rows(placed.groupBy("k", "slot").count(), instances=4).rows == tuple(min(it, 1) for it in held)
    assert evenly.placed_rows(placed.limit(0), instances=3).rows == (0, 0, 0)


def test_another_number_of_instances_and_a_stream_are_refused(spark):
    mapping = evenly.learn_mapping(spark.range(100).selectExpr("id as k"), key="k", instances=4)
    placed = spark.range(100).selectExpr("id as k").transform(evenly.by_key, key="k", instances=4, mapping=mapping)
    with pytest.raises(InvalidParameter, match="instances=3, and there are rows in partition 3"):
        evenly.placed_rows(placed, instances=3)
    with pytest.raises(StreamingMismatch, match="placed_rows counts a batch"):
        evenly.placed_rows(spark.readStream.format("rate").load(), instances=3)
