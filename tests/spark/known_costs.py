"""Cost models that tests write down instead of measuring: what is asserted must not depend on the clock."""

from functools import cache

import numpy as np
from pyspark import TaskContext

from evenly.costs import CostMeter, CostModel

KINDS_MS = {0: 40, 1: 20, 2: 8, 3: 2, 4: 1}


def model_of(spark, costs_s, expression="kind", kind="int", times=50):
    """A model that has seen every key often enough to believe its cost."""
    ids = _ids(spark, tuple(costs_s), kind)
    meter = CostMeter()
    for key, cost_s in costs_s.items():
        meter.add(np.full(times, ids[key]), np.full(times, cost_s))
    return CostModel((expression,)).learn(meter.report(instance=0))


@cache
def _ids(spark, keys, kind):
    hashed = spark.createDataFrame([(key,) for key in keys], f"key {kind}").selectExpr("key", "xxhash64(key) as id")
    return {row.key: row.id for row in hashed.collect()}


def kinds_model(spark):
    """A thousand times as costly as they are, so that dealing a few of them pays."""
    return model_of(spark, {kind: float(ms) for kind, ms in KINDS_MS.items()})


class Placed:
    """Says where and in which turn a row was run: columns `id`, `kind`, `instance`, `turn`."""

    schema = "id long, kind int, instance int, turn int"

    def __init__(self):
        self.turn = 0

    def __call__(self, row):
        self.turn += 1
        return row.id, row.kind, TaskContext.get().partitionId(), self.turn


def loads_ms(rows, instances):
    """The work of each instance, by the costs written down."""
    loads = np.zeros(instances)
    for row in rows:
        loads[row.instance] += KINDS_MS[row.kind]
    return loads
