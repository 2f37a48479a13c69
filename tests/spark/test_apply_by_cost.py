"""`apply_by_cost` in batch: every row once, instances with equal work, rows in the order that the objective asks for."""

import sys

import known_costs
import numpy as np
import pytest
from known_costs import KINDS_MS, Placed, kinds_model, loads_ms, model_of
from pyspark import cloudpickle
from pyspark.sql import functions as F

import evenly
from evenly.costs import CostMeter, CostModel
from evenly.costs.turns import in_turn
from evenly.errors import InvalidParameter
from evenly.measures import imbalance_pct
from evenly.spark.costs.candidates import candidate_keys
from evenly.spark.costs.dealing import deal_in_turn
from evenly.spark.costs.options import StageOptions
from evenly.spark.costs.row_ids import content_hash, with_id
from evenly.spark.costs.stage import CallStage, results_of
from evenly.spark.placing.murmur3 import hash_int, slots

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
cloudpickle.register_pickle_by_value(known_costs)

ROWS, INSTANCES = 3_000, 4


def double(row):
    return row.id * 2


def kinds(spark, rows=ROWS):
    """Rows of five kinds, the cheap ones many; kinds come in runs, as recorded rows do."""
    kind = (
        "case when id % 100 < 2 then 0 when id % 100 < 6 then 1 when id % 100 < 20 then 2 when id % 100 < 50 then 3 else 4 end"
    )
    return spark.range(0, rows, 1, 3).selectExpr("id", f"cast({kind} as int) as kind")


@pytest.fixture(scope="module")
def model(spark):
    return kinds_model(spark)


@pytest.fixture
def adaptive_off(spark):
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield
    spark.conf.unset("spark.sql.adaptive.enabled")


def test_without_a_model_nothing_is_run_at_the_call_and_every_row_once_by_the_action(spark, tmp_path):
    def noted(row, folder=str(tmp_path)):
        import os
        from pathlib import Path

        with Path(folder, str(os.getpid())).open("a") as file:
            file.write(f"{row.id}\n")
        return row.id * 2

    watch = evenly.CostWatch()
    persisted = len(spark.sparkContext._jsc.getPersistentRDDs())
    result = kinds(spark).transform(
        evenly.apply_by_cost, function=noted, schema="twice long", cost_key="kind", instances=INSTANCES, watch=watch
    )
    assert list(tmp_path.iterdir()) == []
    assert not watch.ready
    assert watch.decision.reason.startswith("in pieces: nothing is known of costs yet")
    assert "it is filled by the first action" in watch._repr_html_()
    assert sorted(row.twice for row in result.collect()) == [2 * at for at in range(ROWS)]
    called = sorted(int(line) for path in tmp_path.iterdir() for line in path.read_text().split())
    assert called == list(range(ROWS))
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == persisted
    assert watch.ready
    assert watch._repr_html_().count("<rect") == INSTANCES
    assert sum(report.rows for report in watch.reports) == ROWS
    assert len(watch.busy_s) == INSTANCES
    assert watch.costs.expressions == ("kind",)
    assert (watch.costs.rows, watch.costs.batch_rows) == (ROWS, ROWS)


@pytest.mark.parametrize("column", ["current_timestamp()", "uuid()", "rand()"])
@pytest.mark.parametrize("known", [True, False])
def test_an_input_that_differs_each_time_it_is_computed_is_computed_once(spark, model, column, known):
    df = kinds(spark).withColumn("differs", F.expr(column))
    result = evenly.apply_by_cost(df, double, "n long", cost_key="kind", instances=INSTANCES, costs=model if known else None)
    assert sorted(row.n for row in result.collect()) == [2 * at for at in range(ROWS)]


def test_a_row_of_many_that_is_kept_is_kept_once(spark):
    """dropDuplicates keeps whichever row of a key comes first, which after a shuffle is chance."""
    many = spark.range(0, 5 * ROWS, 1, 4).selectExpr(f"id % {ROWS} as id", "rand(1) as x", "cast(id % 5 as int) as kind")
    df = many.repartition(4).dropDuplicates(["id"])
    result = evenly.apply_by_cost(df, double, "n long", cost_key="kind", instances=INSTANCES)
    assert sorted(row.n for row in result.collect()) == [2 * at for at in range(ROWS)]


def test_a_second_call_reads_its_input_anew(spark, tmp_path):
    path = str(tmp_path / "in")
    for day in range(2):
        spark.range(day * 100, day * 100 + 100, 1, 1).selectExpr("id", "cast(id % 5 as int) as kind").write.mode(
            "overwrite"
        ).parquet(path)
        rows = evenly.apply_by_cost(spark.read.parquet(path), double, "n long", cost_key="kind", instances=2).collect()
        assert sorted(row.n for row in rows) == [2 * at for at in range(day * 100, day * 100 + 100)]


def test_every_row_is_run_once_with_a_model_and_nothing_before_the_action(spark, model, tmp_path):
    def marked(row, folder=str(tmp_path)):
        from pathlib import Path

        Path(folder, "called").touch()
        return row.id

    path = tmp_path / "costs.json"
    model.save(path)
    result = evenly.apply_by_cost(kinds(spark), marked, "id long", instances=INSTANCES, costs=path)
    assert not (tmp_path / "called").exists()
    assert sorted(row.id for row in result.collect()) == list(range(ROWS))
    assert (tmp_path / "called").exists()


@pytest.mark.parametrize("routers", [None, 3])
def test_instances_have_the_same_work(spark, model, routers):
    rows = evenly.apply_by_cost(
        kinds(spark), Placed(), Placed.schema, instances=INSTANCES, costs=model, cost_key="kind", routers=routers
    ).collect()
    assert sorted(row.id for row in rows) == list(range(ROWS))
    assert imbalance_pct(loads_ms(rows, INSTANCES)) < 1.0


def test_costs_of_a_key_that_has_another_type_now_are_refused(spark, model, tmp_path):
    """Its ids are other hashes, so no row would find its cost."""
    rows, wide = kinds(spark), kinds(spark).withColumn("kind", F.col("kind").cast("bigint"))
    watch = evenly.CostWatch()
    evenly.apply_by_cost(rows, Placed(), Placed.schema, instances=INSTANCES, costs=model, watch=watch).collect()
    assert (model.types, watch.costs.types) == ((), ("int",))  # one of a file of before is taken for what it is used for
    watch.costs.save(tmp_path / "costs.json")
    with pytest.raises(InvalidParameter, match=r"kind \(int\), and here it is kind \(bigint\).*Cast"):
        evenly.apply_by_cost(wide, Placed(), Placed.schema, instances=INSTANCES, costs=str(tmp_path / "costs.json"))
    small = kinds(spark).withColumn("kind", F.col("kind").cast("smallint"))  # hashed as an int
    assert evenly.apply_by_cost(small, double, "n long", instances=INSTANCES, costs=watch.costs).count() == ROWS
    computed, found = evenly.CostWatch(), evenly.CostWatch()
    evenly.apply_by_cost(rows, double, "n long", cost_key=["kind % 3", "kind"], instances=2, watch=computed).collect()
    assert computed.costs.types == ("int", "int")
    evenly.apply_by_cost(rows, double, "n long", instances=2, watch=found).collect()
    assert len(found.costs.types) == len(found.costs.expressions)


@pytest.mark.usefixtures("adaptive_off")
def test_without_adaptive_execution_too(spark, model):
    rows = evenly.apply_by_cost(kinds(spark), Placed(), Placed.schema, instances=INSTANCES, costs=model).collect()
    assert sorted(row.id for row in rows) == list(range(ROWS))
    assert imbalance_pct(loads_ms(rows, INSTANCES)) < 1.0


def test_spark_alone_does_not_give_them_the_same_work(spark):
    """What the tests above would find if nothing were scheduled."""
    rows = evenly.apply_by_cost(kinds(spark), Placed(), Placed.schema, instances=INSTANCES, pieces=False).collect()
    assert imbalance_pct(loads_ms(rows, INSTANCES)) > 3.0


def plan_of(df):
    return df._jdf.queryExecution().executedPlan().toString()


def test_rows_stay_in_the_jvm_until_the_function_gets_them(spark, model):
    """One exchange, as with `repartition`, and the sort below it is there, though another one follows."""
    df = kinds(spark).withColumn("body", F.repeat(F.lit("x"), 1_000))
    stage = CallStage.of(df, double, "n long", StageOptions(INSTANCES, "completion"))
    plan = plan_of(results_of(stage.by_cost(with_id(df, ("kind",), order="content"), model, report=False, way="in turn")))
    assert (plan.count("MapInArrow"), plan.count("EvalPython"), plan.count("Exchange")) == (1, 0, 1)
    assert plan.index("Sort [__evenly_estimate") < plan.index("Exchange") < plan.index("Sort [(shiftleft")
    assert len(plan) < 10_000


def test_routers_see_the_ids_of_rows_alone(spark, model):
    df = kinds(spark).withColumn("body", F.repeat(F.lit("x"), 1_000))
    plan = plan_of(evenly.apply_by_cost(df, double, "n long", instances=INSTANCES, costs=model, routers=3))
    [routed] = [line for line in plan.splitlines() if "ArrowEvalPython" in line]
    assert "__evenly_id" in routed.split("]")[0]
    assert "body" not in routed.split("]")[0]


@pytest.mark.parametrize(("partitions", "rows"), [(1, 1_000), (5, 1_000), (40, 100), (3, 1), (1, 0)])
def test_rows_are_dealt_in_turn_as_reckoned(spark, partitions, rows):
    """Partition by partition as `turns.in_turn` says, the costliest rows first."""
    costs_s = {key: 0.001 * (key + 1) for key in range(20)}
    table = model_of(spark, costs_s, "key", "long").table
    df = spark.range(0, rows, 1, partitions).selectExpr("id", "id % 25 as key")  # five of the keys were never seen
    keyed = with_id(df, ("key",), order="content")
    told = ("id", "key", "__evenly_at as at", "__evenly_estimate as estimate_s", "spark_partition_id() as instance")
    dealt = deal_in_turn(keyed, table, 7).selectExpr(*told).collect()
    assert sorted(row.id for row in dealt) == list(range(rows))
    of_part = {row.id: row.part for row in df.selectExpr("id", "spark_partition_id() as part").collect()}
    for part in range(partitions):
        here = sorted((row for row in dealt if of_part[row.id] == part), key=lambda row: row.at)
        estimates = [row.estimate_s for row in here]
        assert estimates == sorted(estimates, reverse=True)
        assert [row.instance for row in here] == in_turn(np.arange(len(here)), part, 7).tolist()
    known = [row for row in dealt if row.key < 20]
    assert [row.estimate_s for row in known] == pytest.approx([costs_s[row.key] for row in known])
    others = [row.estimate_s for row in dealt if row.key >= 20]
    assert others == pytest.approx([float(table.costs_s[-1])] * len(others))


def test_columns_of_any_kind_and_name_are_dealt(spark, model):
    df = kinds(spark, 200).selectExpr("*", "map('a', id) as m", "parse_json('[1]') as v", "cast(null as int) as nothing")
    watch = evenly.CostWatch()
    result = evenly.apply_by_cost(df, lambda row: row.m["a"] + row.id, "n long", instances=3, costs=model, watch=watch)
    assert watch.decision.by_cost
    assert sorted(row.n for row in result.collect()) == [2 * at for at in range(200)]
    named = df.selectExpr("*", "id as `a.b`", "id as `back``quote`")  # mapInArrow refuses these names
    dealt = deal_in_turn(with_id(named, ("kind",), order="content"), model.table, 3)
    assert dealt.columns[:7] == named.columns
    assert sorted(row["a.b"] for row in dealt.collect()) == list(range(200))


def test_there_may_be_more_instances_than_rows(spark, model):
    rows = evenly.apply_by_cost(kinds(spark, 5), Placed(), Placed.schema, instances=16, costs=model).collect()
    assert sorted(row.id for row in rows) == list(range(5))


def test_a_row_that_costs_more_than_an_instances_share_is_alone_with_what_fits(spark):
    """Routers of their own parts would each give its instance as much as the others."""
    df = spark.range(0, 1_000, 1, 4).selectExpr("id", "cast(if(id = 7, 0, 4) as int) as kind").persist()
    df.count()
    ids = {row.kind: row.id for row in df.selectExpr("kind", "xxhash64(kind) as id").distinct().collect()}
    meter = CostMeter()
    meter.add(np.full(999, ids[4]), np.full(999, 0.01))
    meter.add(np.array([ids[0]]), np.array([4.0]))
    giant = CostModel("kind").learn(meter.report(instance=0))
    watch = evenly.CostWatch()
    rows = evenly.apply_by_cost(df, Placed(), Placed.schema, instances=INSTANCES, costs=giant, watch=watch).collect()
    df.unpersist()
    assert watch.decision.way == "one router"
    assert watch.decision.gain > 0.1
    beside = {row.instance for row in rows if row.id == 7}
    counts = np.bincount([row.instance for row in rows], minlength=INSTANCES)
    assert counts[beside.pop()] == 1
    assert counts.max() <= 334


def test_many_cheap_rows_go_out_evenly(spark, caplog):
    cheap = model_of(spark, {kind: ms / 1e7 for kind, ms in KINDS_MS.items()})
    cheap.batch_rows = 100_000_000
    watch = evenly.CostWatch()
    with caplog.at_level("INFO", logger="evenly"):
        result = evenly.apply_by_cost(
            kinds(spark).where("id >= 0"), Placed(), Placed.schema, instances=INSTANCES, costs=cheap, watch=watch
        )
    rows = result.collect()
    assert not watch.decision.by_cost
    assert watch.decision.reason.startswith("evenly: dealing by cost saves 0.")
    assert watch.decision.reason in caplog.text
    assert np.ptp(np.bincount([row.instance for row in rows])) <= 3
    assert sum(report.timed for report in watch.reports) == pytest.approx(ROWS / 16, rel=0.05)


def test_completion_runs_short_rows_first_within_an_instance(spark, model):
    rows = evenly.apply_by_cost(
        kinds(spark), Placed(), Placed.schema, instances=INSTANCES, costs=model, objective="completion"
    ).collect()
    assert imbalance_pct(loads_ms(rows, INSTANCES)) < 3.0
    for instance in range(INSTANCES):
        ran = sorted((row.turn, KINDS_MS[row.kind]) for row in rows if row.instance == instance)
        costs = [cost for _, cost in ran]
        assert len(set(costs)) == len(KINDS_MS)
        assert costs == sorted(costs)


def test_arrival_keeps_the_order_of_arrival(spark, model):
    rows = evenly.apply_by_cost(
        kinds(spark), Placed(), Placed.schema, instances=INSTANCES, costs=model, objective="arrival"
    ).collect()
    assert sorted(row.id for row in rows) == list(range(ROWS))
    assert imbalance_pct(loads_ms(rows, INSTANCES)) < 1.0
    for instance in range(INSTANCES):
        ran = sorted((row.turn, row.id) for row in rows if row.instance == instance)
        assert [at for _, at in ran] == sorted(at for _, at in ran)


def test_rows_are_routed_alike_whatever_order_they_come_in(spark, model):
    """So that a router that Spark runs again sends every row where it went before."""
    df = kinds(spark).coalesce(1)
    placed = [
        {
            row.id: row.instance
            for row in evenly.apply_by_cost(each, Placed(), Placed.schema, instances=INSTANCES, costs=model).collect()
        }
        for each in (df, df.sortWithinPartitions(F.col("id").desc()))
    ]
    assert placed[0] == placed[1]


def test_null_is_a_key_and_several_columns_are_one(spark):
    df = spark.range(0, 600, 1, 2).selectExpr("id", "if(id % 3 = 0, null, cast(id % 3 as int)) as kind", "id % 2 as other")
    watch = evenly.CostWatch()
    result = evenly.apply_by_cost(df, double, "twice long", cost_key=["kind", "other + 1"], instances=2, watch=watch)
    assert sorted(row.twice for row in result.collect()) == [2 * at for at in range(600)]
    assert watch.costs.expressions == ("kind", "other + 1")
    assert watch.costs.keys == 6


@pytest.mark.parametrize("known", [True, False])
def test_no_rows_give_no_results(spark, model, known):
    empty = kinds(spark).where("id < 0")
    result = evenly.apply_by_cost(empty, double, "twice long", cost_key="kind", instances=3, costs=model if known else None)
    assert result.collect() == []
    assert result.columns == ["twice"]


def test_rows_of_constant_cost_go_out_evenly_and_are_sampled(spark):
    meter = CostMeter()
    meter.add(np.arange(1_000) % 5, np.full(1_000, 0.001))
    constant = CostModel("kind").learn(meter.report(instance=0))
    assert constant.constant
    watch = evenly.CostWatch()
    result = evenly.apply_by_cost(kinds(spark), Placed(), Placed.schema, instances=INSTANCES, costs=constant, watch=watch)
    rows = result.collect()
    assert sorted(row.id for row in rows) == list(range(ROWS))
    assert np.ptp(np.bincount([row.instance for row in rows])) <= 3
    assert "__evenly_instance" not in result._jdf.queryExecution().toString()
    assert sum(report.rows for report in watch.reports) == ROWS
    assert sum(report.timed for report in watch.reports) == pytest.approx(ROWS / 16, rel=0.05)
    assert sum(report.counted for report in watch.reports) == pytest.approx(ROWS, rel=0.05)
    watch = evenly.CostWatch()
    evenly.apply_by_cost(
        kinds(spark), double, "n long", instances=2, costs=constant, watch=watch, call=evenly.CallOptions(threads=2)
    ).count()
    assert sum(report.counted for report in watch.reports) == ROWS  # threads time every call


def test_columns_that_spark_cannot_hash_are_carried(spark, model):
    df = kinds(spark, 200).selectExpr("*", "map('a', id) as m", "named_struct('x', id, 'y', map(1, 2)) as s")
    result = evenly.apply_by_cost(df, lambda row: row.m["a"] + row.s.x + row.s.y[1], "n long", instances=2, costs=model)
    assert sorted(row.n for row in result.collect()) == [2 * at + 2 for at in range(200)]


def test_the_watch_counts_what_the_instances_did(spark, model):
    watch = evenly.CostWatch()
    evenly.apply_by_cost(kinds(spark), Placed(), Placed.schema, instances=INSTANCES, costs=model, watch=watch).collect()
    assert [report.instance for report in watch.reports] == list(range(INSTANCES))
    assert {report.executor for report in watch.reports} == {watch.reports[0].executor}
    estimated = [report.estimated_s for report in watch.reports]
    assert sum(estimated) == pytest.approx(ROWS / 100 * (2 * 40 + 4 * 20 + 14 * 8 + 30 * 2 + 50 * 1), rel=0.02)
    assert imbalance_pct(estimated) < 1.0
    assert watch.costs.rows == pytest.approx(model.rows + ROWS)
    with pytest.raises(evenly.EvenlyError, match="one for each"):
        evenly.apply_by_cost(kinds(spark), Placed(), Placed.schema, instances=2, costs=model, watch=watch)


def test_slots_lead_to_their_partitions_where_there_is_no_repartition_by_id():
    for partitions in (1, 7, 64):
        reached = hash_int(slots(partitions), np.full(partitions, 42, np.int32)) % partitions
        assert reached.tolist() == list(range(partitions))


def test_the_key_that_tells_the_cost_is_found(spark):
    def work(row):
        total = 0
        for step in range(60_000 if row.kind == 0 else 200):  # so long that a busy machine does not hide it
            total += step
        return total

    df = spark.range(0, 1_200, 1, 2).selectExpr("id", "cast(id % 4 as int) as kind", "cast(id % 7 as int) as noise")
    ranked = evenly.recommend_cost_key(df, work, "total long", candidates=["noise", "id", "kind"], rows=800)
    assert ranked[0].expression == "kind"
    assert "id" not in [predictor.expression for predictor in ranked]
    watch = evenly.CostWatch()
    result = evenly.apply_by_cost(df, work, "total long", instances=2, watch=watch)
    assert result.count() == 1_200
    assert "kind" in watch.costs.expressions[0]


def test_rows_that_differ_by_a_microsecond_in_a_map_are_in_an_order_of_their_own(spark):
    moments = "timestamp_micros(id)", "cast(timestamp_micros(id) as timestamp_ntz)", "if(id = 1, null, timestamp_micros(id))"
    for moment in moments:
        rows = spark.range(4).selectExpr(f"map('at', named_struct('t', {moment})) as m")
        assert rows.select(content_hash(rows)).distinct().count() == 4


@pytest.mark.parametrize(
    "rows",
    [
        "values (cast(null as int), 5), (5, null) as t(a, b)",
        "(select named_struct('a', a, 'b', b) as s from values (cast(null as int), 5), (5, null) as t(a, b))",
        "values (array(1, 2), array(3)), (array(1), array(2, 3)) as t(a, b)",
        "values (array(1), 0), (array(1, null), 0) as t(a, b)",
        "values (array(1, null), 0), (array(null, 1), 0) as t(a, b)",
        "(select named_struct('a', a) as s from values (array('x', null)), (array(null, 'x')) as t(a))",
        "values (array(named_struct('x', 1, 'y', cast(null as int)))), (array(named_struct('x', null, 'y', 1))) as t(a)",
        "values (array(array(1), array(2))), (array(array(1, 2))) as t(a)",
        "values (array(map('k', 1), null)), (array(null, map('k', 1))) as t(a)",
        "values (0.0D, 0), (-0.0D, 0) as t(`a b`, b)",
        "(select map('k', 1) as m, a, b from values (cast(null as int), 5), (5, null) as t(a, b))",
    ],
)
def test_rows_that_differ_are_in_an_order_of_their_own(spark, rows):
    """Else one of them may be lost and the other come twice, where a task runs again that gets them in another order."""
    df = spark.sql(f"select * from {rows}")
    assert df.select(content_hash(df)).distinct().count() == 2


def test_the_largest_numbers_do_not_end_a_job_whose_key_is_looked_for(spark):
    df = spark.sql("select 2147483647 as i, 9223372036854775807L as l, -9223372036854775808L as m, cast(-128 as tinyint) as t")
    assert [key for key in candidate_keys(df) if "(" in key] == [
        f"try_cast(2 * log2(abs(cast(`{name}` as double)) + 1) as int)" for name in "ilmt"
    ]
    assert evenly.apply_by_cost(df, lambda row: row.t, "t int", instances=2, watch=evenly.CostWatch()).count() == 1
    spark.conf.set("spark.sql.parser.quotedRegexColumnNames", "true")
    named = df.selectExpr("i as a").withColumnRenamed("a", "a.b")
    assert evenly.apply_by_cost(named, lambda row: row[0], "t int", instances=2, watch=evenly.CostWatch()).count() == 1
    spark.conf.unset("spark.sql.parser.quotedRegexColumnNames")


POINT = "st_geomfromwkb(unhex(concat('01', '01000000', '000000000000F03F', '000000000000F0', 40 + id)))"


@pytest.mark.parametrize("held", ["map(cast(string(id) as binary), 1)", "array(map(cast(string(id) as binary), 1))", POINT])
def test_rows_of_any_type_have_the_same_order_whenever_they_are_computed(spark, held):
    """A task that runs again deals its rows out as before: else some are lost and others come twice."""
    spark.conf.set("spark.sql.geospatial.enabled", "true")
    rows = spark.range(4).selectExpr(f"{held} as m")
    once, again = (rows.select(content_hash(rows)).collect() for _ in range(2))
    assert once == again
    assert len(set(once)) == 4
    spark.conf.unset("spark.sql.geospatial.enabled")
