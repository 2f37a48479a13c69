"""How often a call of ours speaks with the JVM: what it adds to a job, however short that is.

Each command is a round trip of some tenths of a millisecond, and an operator on a column is ten of them. Counted is a second
call: what is asked once for a session or a frame was asked by the first.
"""

import threading
from contextlib import contextmanager

import numpy as np
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.costs.meter import CostMeter
from evenly.costs.model import CostModel
from evenly.spark.costs.dealing import deal_in_turn
from evenly.spark.costs.row_ids import with_id
from evenly.spark.jvm.changed_keys import keys_changed
from evenly.spark.placing import canary

INSTANCES = 4


@pytest.fixture
def commands(spark, monkeypatch):
    """What this thread sends to the JVM. Others send that an object is forgotten, and what listeners ask."""
    client = type(spark._jvm._gateway_client)
    sent, send, thread = [], client.send_command, threading.get_ident()

    def noted(self, command, *args, **kwargs):
        if threading.get_ident() == thread and not command.startswith("m\n"):
            sent.append(command)
        return send(self, command, *args, **kwargs)

    monkeypatch.setattr(client, "send_command", noted)

    @contextmanager
    def count(most):
        sent.clear()
        yield
        assert 0 < len(sent) <= most

    return count


@pytest.fixture(scope="module")
def rows(spark, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("rows") / "rows")
    spark.range(2_000).selectExpr("id % 500 as user", "id as amount", "cast(id as string) as text").write.parquet(path)
    return spark.read.parquet(path)


@pytest.fixture(scope="module")
def mapping(rows):
    found = evenly.learn_mapping(rows.where("user < 100 or user = 7"), key="user", instances=INSTANCES)
    assert found.heavy_keys.size  # both kinds of tables are looked up
    return found


@pytest.fixture(scope="module")
def costs(spark):
    ids = np.array([row[0] for row in spark.range(500).selectExpr("xxhash64(id)").collect()])
    meter = CostMeter()
    for _ in range(20):
        meter.add(ids, np.random.default_rng(0).exponential(2.0, ids.size) + 1e-3)
    return CostModel(["user"]).learn(meter.report(instance=0))


def same(row):
    return (row.amount,)


def test_spark_is_asked_for_its_hash_by_one_text(spark, commands):
    canary._hashes(spark)
    with commands(20):
        assert canary._hashes(spark) == list(range(len(canary.KEYS)))


def test_learning_from_rows_in_memory(spark, commands):
    held = spark.range(2_000).selectExpr("id % 500 as user").persist()
    held.count()
    evenly.learn_mapping(held, key="user", instances=INSTANCES)
    with commands(100):
        evenly.learn_mapping(held, key="user", instances=INSTANCES)
    held.unpersist()


@pytest.mark.parametrize(("slot", "most"), [("slot", 190), (None, 155)])
def test_placing_by_a_mapping(rows, mapping, commands, slot, most):
    evenly.by_key(rows, key="user", instances=INSTANCES, mapping=mapping, slot=slot)
    with commands(most):
        evenly.by_key(rows, key="user", instances=INSTANCES, mapping=mapping, slot=slot)


@pytest.mark.parametrize(("arrow", "most"), [(False, 260), (True, 250)])
def test_a_grouped_function_by_a_mapping(rows, mapping, commands, arrow, most):
    def apply():
        schema, options = "user long, amount long, text string", {"key": "user", "instances": INSTANCES, "mapping": mapping}
        evenly.apply_by_key(rows, lambda group: group, schema, **options, arrow=arrow)

    apply()
    with commands(most):
        apply()


@pytest.mark.parametrize(("key", "most"), [({"cost_key": "user"}, 120), ({}, 220)])
def test_a_first_run_by_cost(rows, commands, key, most):
    def first():
        evenly.apply_by_cost(rows, same, "amount long", instances=INSTANCES, watch=evenly.CostWatch(), **key)

    first()
    with commands(most):
        first()


def test_a_run_that_is_dealt_by_cost(rows, costs, commands):
    def learnt():
        watch = evenly.CostWatch()
        evenly.apply_by_cost(rows, same, "amount long", cost_key="user", instances=INSTANCES, costs=costs, watch=watch)
        return watch.decision

    assert learnt().by_cost
    with commands(260):
        learnt()


def test_rows_dealt_in_turn(rows, costs, commands):
    def dealt():
        deal_in_turn(with_id(rows, ("user",), order="content"), costs.table, INSTANCES)

    dealt()
    with commands(170):
        dealt()


def test_a_key_that_is_computed_anew_is_looked_for_in_as_few_calls_where_rows_are_wide(spark, commands):
    wide = spark.range(9).select("id", *(F.lit(at).alias(f"c{at}") for at in range(150)))
    placed = wide.transform(evenly.by_key, key="id", instances=INSTANCES)
    for result, most in (
        (placed.distinct(), 230),
        (placed.rollup("id", "slot").count(), 430),
        (placed.unionAll(placed).dropDuplicates(), 390),
        (placed.intersect(placed), 420),
    ):
        with commands(most):
            assert keys_changed(result) == ()
