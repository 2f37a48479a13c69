"""What `connected.py` does by cost."""

import os
import sys
from pathlib import Path

import numpy as np
from pyspark import cloudpickle

import evenly
from evenly.costs import CostMeter
from evenly.errors import FunctionFailed

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

ROWS = 600


def double(row):
    return {"twice": row.id * 2, "kind": row.kind}


def same(row):
    return row.id


def deadly(row):
    if row.id == 7:
        os._exit(1)
    return row.id


def failing(row):
    raise KeyError(row.id)


def told(spark):
    df = spark.range(0, ROWS, 1, 2).selectExpr("id", "cast(id % 5 as int) as kind")
    results = {"session": type(spark).__module__}
    watch = evenly.CostWatch()
    learnt = evenly.apply_by_cost(df, double, "twice long, kind int", cost_key="kind", instances=2, watch=watch)
    results["ready before"] = watch.ready
    results["learnt"] = sorted(row.twice for row in learnt.collect()) == [2 * at for at in range(ROWS)]
    results["in pieces"] = watch.decision.way == "in pieces" and len(watch.reports) == 5 * 2
    results["reported"] = sum(report.rows for report in watch.reports)
    results["keys"] = watch.costs.keys
    reused = evenly.apply_by_cost(
        df, double, "twice long, kind int", costs=watch.costs, instances=3, call=evenly.CallOptions(on_error="skip")
    )
    results["reused"] = sorted(row.twice for row in evenly.good_rows(reused).collect()) == [2 * at for at in range(ROWS)]
    ids = [row.id for row in df.selectExpr("kind", "xxhash64(kind) as id").distinct().orderBy("kind").collect()]
    meter = CostMeter()
    meter.add(np.repeat(ids, 120), np.repeat([0.05, 0.001, 0.001, 0.001, 0.001], 120))
    model, watch = evenly.CostModel(["kind"]).learn(meter.report(instance=0)), evenly.CostWatch()
    dealt = evenly.apply_by_cost(df, double, "twice long, kind int", costs=model, instances=3, pieces=False, watch=watch)
    results["dealt"] = sorted(row.twice for row in dealt.collect()) == [2 * at for at in range(ROWS)]
    results["decision"] = watch.decision.reason
    results["estimated"] = [report.estimated_s for report in watch.reports]
    try:
        evenly.apply_by_cost(df, double, "twice long", cost_key="kinds", instances=2)
    except evenly.EvenlyError as error:
        results["error"] = str(error)
    watch.costs.save("costs.json")
    given = {"costs": Path("costs.json").absolute().as_uri(), "instances": 2}
    survived = evenly.apply_by_cost(df, deadly, "id long", call=evenly.CallOptions(on_error="skip"), **given).collect()
    results["died"] = [row.error.type for row in survived if row.error is not None]
    results["survived"] = sum(row.id is not None for row in survived)
    try:
        with evenly.worker_errors():
            evenly.apply_by_cost(df, failing, "id long", **given).collect()
    except FunctionFailed as error:
        results["failed"] = str(error)
    return results
