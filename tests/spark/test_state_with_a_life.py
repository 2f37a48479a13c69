"""State with a time to live that ends while it is moved to another mapping: gone for the query, and out of its store."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from moved_queries import RESULT, SCHEMA, Query, on_its_instance, remembering
from visiting import ROCKSDB

from evenly.spark.keyed.learning import learn_mapping
from evenly.spark.state.migration import migrate_state
from evenly.spark.state.reading import rows_per_partition

INSTANCES, ROWS = 3, 120
SETTINGS = {
    "spark.sql.shuffle.partitions": str(INSTANCES),
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


@pytest.fixture
def settings(spark):
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def short_lived(df, keys):
    """What a batch has left has ended when the next one begins."""
    return df.groupBy(*keys).transformWithStateInPandas(remembering(1), RESULT, "update", "ProcessingTime")


def visits(path, part, users):
    """Rows of users in turn, in a file."""
    at = np.arange(ROWS)
    named = [f"user {users[number % len(users)]}" for number in at]
    pd.DataFrame({"user": named, "moment": at + ROWS * part, "amount": at % 7}).to_parquet(path / f"{part}.parquet")
    return named


def kept(spark, query):
    return {store.store: sum(store.rows) for store in rows_per_partition(spark, query.checkpoint)}


@pytest.mark.usefixtures("settings")
def test_what_ends_while_it_is_moved_is_gone_and_out_of_its_store(spark, tmp_path):
    first, second = visits(tmp_path, 0, range(40)), visits(tmp_path, 1, range(25, 50))
    rows = spark.read.schema(SCHEMA).parquet(str(tmp_path / "0.parquet"))
    old = learn_mapping(rows, key="user", instances=INSTANCES)
    moved = {name: (getattr(old, name) + 1) % INSTANCES for name in ("buckets", "heavy_instances")}
    new = replace(old, **{name: at.astype(np.int32) for name, at in moved.items()}, version=old.version + 1)
    query = Query(spark, tmp_path, tmp_path / "query", short_lived, "update")
    query.run(old, 0)
    assert kept(spark, query) == {"rows": 40, "moments": ROWS, "amounts": ROWS}
    move = migrate_state(spark, query.checkpoint, key=("user",), slot="slot", old=old, new=new)
    assert move.rows_moved == move.rows
    assert kept(spark, query) == {"rows": 40, "moments": ROWS, "amounts": ROWS}, "a move drops nothing by itself"
    query.run(new, 1)
    counts = {user: rows for *_, rows, _, user in query.answers()}
    assert counts == {**pd.Series(first).value_counts(), **pd.Series(second).value_counts()}
    # Of users 0 to 24 nobody has come since: what they had left was found by the time of its end, on its new instance.
    assert kept(spark, query) == {"rows": 25, "moments": ROWS, "amounts": ROWS}
    assert on_its_instance(query.groups(), new)
