"""Planning: models, allocation, mapping, machines and prediction, on the paper's numbers."""

from __future__ import annotations

import math

import pytest

from evenly.dataflow import Dataflow, Edge, Operator
from evenly.dataflow.files import shipped_dataflow
from evenly.errors import DoesNotFit, InvalidModel, InvalidParameter
from evenly.lab.papers.model_driven.ours import large_dataflow
from evenly.planning import (
    AZURE_D,
    Assumptions,
    Catalogue,
    MachineSize,
    Models,
    PerformanceModel,
    Point,
    compare_pairs,
    completion_at,
    highest_rate,
    merge_runs,
    models_yaml,
    plan,
    read_catalogue,
    read_models,
    rehearse,
    replan,
    shipped_models,
)
from evenly.planning.machines import parse_machines
from evenly.planning.model_files import parse_models
from evenly.planning.network import crossing_rate
from evenly.planning.plan import planned
from evenly.planning.rehearsal import RehearsalOptions, observed_rate
from evenly.planning.spark_settings import source_options, spark_settings, stages

MODELS = shipped_models()
SLOT_AWARE = Assumptions("slot-aware")


def threads_of(one, operator):
    return sorted((bundle.threads for bundle in one.placement.by_operator[operator]), reverse=True)


def test_a_model_answers_and_says_on_what():
    table = MODELS["azure_table"]
    measured = table.at(10)
    assert (measured.rate, measured.cpu_pct, measured.mem_pct, measured.basis) == (10.0, 11.22, 3.45, "measured")
    between = table.at(3)
    assert (between.rate, between.basis) == (5.625, "interpolated")
    near = table.at(7, lookup="nearest")
    assert (near.rate, near.basis) == (10.0, "nearest")
    assert table.at(6, lookup="nearest").rate == 5.0
    assert table.at(70).basis == "synthetic"
    assert (table.at(500).rate, table.at(500).basis) == (36.0, "beyond")
    assert table.best.threads == 60
    assert table.fewest_for(5.1).threads == 10
    with pytest.raises(InvalidModel, match="carries at most 40 tuples/s, not 41"):
        table.fewest_for(41.0)
    assert (MODELS["sink"].at(1).basis, MODELS["sink"].at(1).at_rate(1e9)) == ("static", (10.0, 2.0))
    assert measured.at_rate(5.0) == pytest.approx((5.61, 1.725))
    with pytest.raises(InvalidModel, match="at least 1 thread, got 0"):
        table.at(0)


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ((), "needs a point with 1 thread"),
        ((Point(2, 5.0, 1.0, 1.0),), "needs a point with 1 thread"),
        ((Point(1, 5.0, 1.0, 1.0), Point(1, 6.0, 1.0, 1.0)), "must ascend"),
        ((Point(1, 0.0, 1.0, 1.0),), "must be above 0, got 0.0"),
        ((Point(1, 5.0, 101.0, 1.0),), "from 0 to 100 %"),
    ],
)
def test_a_bad_model_is_refused(points, said):
    with pytest.raises(InvalidModel, match=said):
        PerformanceModel("bad", points)


def test_models_survive_being_written_and_read(tmp_path):
    several = PerformanceModel(
        "x", (Point(1, 2.0, 3.0, 4.0, rates=(1.0, 2.0, 3.0)), Point(2, 5.0, 3.0, 4.0, "synthetic")), "ours"
    )
    path = tmp_path / "models.yaml"
    path.write_text(models_yaml([several, MODELS["source"]]), encoding="utf-8")
    read = read_models(path)
    assert read["x"] == several
    assert read["source"].is_static
    assert read["source"].points == MODELS["source"].points


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models:\n  x:\n    points:\n      - {threads: 1, rate: 0, cpu_pct: 1, mem_pct: 1}", "line 4: a rate must be above 0"),
        ("models:\n  x:\n    points:\n      - {threads: 1, cpu_pct: 1, mem_pct: 1}", "line 4: a point needs either a rate"),
        (
            "models:\n  x:\n    points:\n      - {threads: 0, rate: 1, cpu_pct: 1, mem_pct: 1}",
            "line 4: threads must be a whole",
        ),
        (
            "models:\n  x:\n    points:\n      - {threads: 2, rate: 1, cpu_pct: 1, mem_pct: 1}",
            "line 3: .*a point with 1 thread",
        ),
        ("models:\n  x: {static: {cpu_pct: 101, mem_pct: 1}}", "line 2: cpu_pct must be at least 0 and at most 100, got 101"),
        ("models:\n  x: {about: a}", "line 2: the model 'x' needs either points or static"),
        ("models: 3", "line 1: models must be names with values, got 3"),
    ],
)
def test_an_error_in_a_model_file_names_the_line(text, said):
    with pytest.raises(InvalidModel, match=said):
        parse_models(text)


def test_an_unknown_model_is_named():
    with pytest.raises(InvalidModel, match="no performance model 'x': there are azure_blob"):
        MODELS["x"]
    assert "x" not in MODELS
    assert len(MODELS) == 7


@pytest.mark.parametrize(
    ("pair", "rate", "allocated", "slots"),
    [
        (("lsa", "rsm"), 50, 7, 7),
        (("lsa", "rsm"), 100, 13, 13),
        (("lsa", "rsm"), 200, 25, 28),
        # As the paper's text has it a thread counts what it uses alone, and then more slots are needed than published.
        (("lsa", "rsm-alone"), 50, 7, 8),
        (("lsa", "rsm-alone"), 100, 13, 15),
        (("lsa", "rsm-alone"), 200, 25, 29),
        (("mba", "sam"), 50, 4, 4),
        (("mba", "sam"), 100, 7, 7),
        (("mba", "sam"), 200, 15, 15),
    ],
)
def test_the_published_slots_of_the_linear_dataflow(pair, rate, allocated, slots):
    made = plan(shipped_dataflow("linear"), MODELS, rate, allocation=pair[0], mapping=pair[1])
    assert (made.placement.allocation.slots, made.placement.slots) == (allocated, slots)
    assert made.placement.extra_slots == slots - allocated


def test_the_published_threads_and_bundles():
    lsa, mba = (
        plan(shipped_dataflow("linear"), MODELS, 100.0, allocation=name, mapping="dsm").placement for name in ("lsa", "mba")
    )
    assert (lsa.allocation.by_operator["blob"].threads, round(lsa.allocation.by_operator["blob"].mem_pct)) == (50, 1196)
    assert (mba.allocation.by_operator["blob"].threads, round(mba.allocation.by_operator["blob"].mem_pct)) == (170, 326)
    assert threads_of(plan(shipped_dataflow("diamond"), MODELS, 100.0), "table") == [60, 60, 40]


def test_dsm_deals_threads_in_turn():
    made = plan(shipped_dataflow("linear"), MODELS, 100.0, mapping="dsm")
    totals = [sum(one.threads for one in held) for held in made.placement.by_slot.values()]
    assert max(totals) - min(totals) <= 1
    assert threads_of(made, "blob") == [25, 25, 24, 24, 24, 24, 24]


def test_the_mismatch_of_equal_shares_and_its_removal():
    made = plan(shipped_dataflow("diamond"), MODELS, 100.0, assumptions=Assumptions("shuffle"))
    assert sorted(100.0 * one.part for one in made.prediction.shares["table"]) == pytest.approx([25.0, 37.5, 37.5])
    assert (made.prediction.rate, made.prediction.binding.operator, made.holds) == (80.0, "table", False)
    aware = planned(made.placement, MODELS, SLOT_AWARE)
    assert sorted(100.0 * one.part for one in aware.prediction.shares["table"]) == pytest.approx([20.0, 40.0, 40.0])
    assert aware.prediction.rate == pytest.approx(100.0)
    assert aware.holds


def test_the_published_plan_of_twenty_slots():
    five = AZURE_D.take([("D3", 5)])
    published = Assumptions("slot-aware", "nearest", "none")
    made = highest_rate(shipped_dataflow("linear"), MODELS, five, mapping="dsm", step=10.0, assumptions=published)
    assert made.rate == 280.0
    assert made.prediction.rate == pytest.approx(200.0)
    by_line = planned(made.placement, MODELS, Assumptions("slot-aware", "interpolated", "none"))
    assert by_line.prediction.rate == pytest.approx(270.0, abs=1.0)
    sam = highest_rate(shipped_dataflow("linear"), MODELS, five, step=10.0)
    assert threads_of(sam, "blob") == [50] * 9 + [20]


def test_the_highest_rate_fits_and_a_little_more_does_not():
    hosts = AZURE_D.take([("D3", 2), ("D1", 1)])
    made = highest_rate(shipped_dataflow("star"), MODELS, hosts, assumptions=SLOT_AWARE)
    assert made.placement.slots == 9
    assert made.prediction.rate >= made.rate * (1 - 1e-9)
    with pytest.raises(DoesNotFit):
        plan(shipped_dataflow("star"), MODELS, made.rate * 1.01, machines=hosts)
    with pytest.raises(DoesNotFit, match="add machines"):
        highest_rate(shipped_dataflow("grid"), MODELS, AZURE_D.take([("D1", 1)]), step=50.0)
    with pytest.raises(InvalidParameter, match="above 0, got -1"):
        highest_rate(shipped_dataflow("star"), MODELS, hosts, step=-1.0)


def test_a_fixed_set_that_is_too_small_says_what_is_needed():
    with pytest.raises(DoesNotFit, match="need 15 slots by MBA, and the machines have 8"):
        plan(shipped_dataflow("linear"), MODELS, 200.0, machines=AZURE_D.take([("D3", 2)]))


@pytest.mark.parametrize(
    ("slots", "sizes"),
    [(1, ["D1"]), (2, ["D2"]), (3, ["D3"]), (7, ["D3", "D3"]), (9, ["D3", "D3", "D1"]), (10, ["D3", "D3", "D2"])],
)
def test_machines_are_taken_as_published(slots, sizes):
    cluster = AZURE_D.acquire(slots)
    assert [one.size.name for one in cluster.machines] == sizes
    assert cluster.slots == slots


def test_a_catalogue_of_ones_own_has_prices(tmp_path):
    path = tmp_path / "machines.yaml"
    path.write_text("machines:\n  small: {slots: 2, price_per_hour: 0.5}\n  large: {slots: 8, price_per_hour: 1.5}\n")
    cluster = read_catalogue(path).acquire(11)
    assert cluster.named() == "1 × large, 1 × large" or cluster.named() == "2 × large"
    assert cluster.price_per_hour == 3.0
    assert AZURE_D.acquire(3).price_per_hour is None
    path.write_text("machines:\n  small: {slots: 0}\n")
    with pytest.raises(InvalidParameter, match="line 2: slots must be a whole number from 1"):
        read_catalogue(path)
    assert parse_machines(["D3=5", "D1=1"]) == [("D3", 5), ("D1", 1)]
    with pytest.raises(InvalidParameter, match="such as D3=5, got 'D3'"):
        parse_machines(["D3"])
    with pytest.raises(InvalidParameter, match="no machine of size 'D9'"):
        AZURE_D.take([("D9", 1)])
    with pytest.raises(InvalidParameter, match="at least one size"):
        Catalogue(())
    with pytest.raises(InvalidParameter, match="from 1 to 1000000 slots, got 0"):
        Catalogue((MachineSize("none", 0),))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"allocation": "guess"}, "no allocation 'guess'"),
        ({"mapping": "guess"}, "no mapping 'guess'"),
        ({"allocation": "lsa"}, "SAM places bundles, and LSA makes none"),
        ({"rate": 0.0}, "above 0 tuples/s and finite, got 0.0"),
        ({"rate": math.inf}, "got inf"),
        ({"rate": 1e12}, "more than 1,000,000 times the 30 that threads carry"),
    ],
)
def test_a_question_that_has_no_answer_is_refused(options, said):
    with pytest.raises(InvalidParameter, match=said):
        plan(shipped_dataflow("linear"), MODELS, **{"rate": 10.0, **options})


@pytest.mark.parametrize("options", [("guess",), ("shuffle", "guess"), ("shuffle", "nearest", "guess")])
def test_assumptions_are_checked(options):
    with pytest.raises(InvalidParameter, match="got 'guess'"):
        Assumptions(*options)


def test_cores_that_bundles_share_limit_the_rate():
    half = Models([PerformanceModel("half", (Point(1, 10.0, 60.0, 1.0),)), MODELS["source"], MODELS["sink"]])
    operators = [Operator(name, "half") for name in "ab"]
    ends = (Operator("source", kind="source"), *operators, Operator("sink", kind="sink"))
    flow = Dataflow("two", ends, (Edge("source", "a"), Edge("a", "b"), Edge("b", "sink")))
    made = plan(flow, half, 5.0, mapping="dsm", machines=AZURE_D.take([("D1", 1)]))
    free, shared = (planned(made.placement, half, Assumptions(contention=name)).prediction for name in ("none", "machine"))
    assert free.rate == 10.0
    assert shared.rate == pytest.approx(80.0 / 12.0)
    assert "core" in shared.binding.why


def test_an_operator_that_nothing_reaches_gets_one_thread():
    ends = (Operator("source", kind="source"), Operator("a", "pi"), Operator("sink", kind="sink"))
    made = plan(Dataflow("none", ends, (Edge("source", "a", 0.0), Edge("a", "sink"))), MODELS, 10.0, assumptions=SLOT_AWARE)
    assert made.placement.allocation.by_operator["a"].threads == 1
    assert made.prediction.rate == math.inf


def test_repeated_measurements_give_an_interval():
    points = (Point(1, 100.0, 50.0, 5.0, rates=(95.0, 100.0, 105.0)),)
    models = Models([*MODELS.values(), PerformanceModel("pi", points)])
    ends = (Operator("source", kind="source"), Operator("a", "pi"), Operator("sink", kind="sink"))
    flow = Dataflow("one", ends, (Edge("source", "a"), Edge("a", "sink")))
    found = plan(flow, models, 100.0, assumptions=Assumptions("slot-aware", contention="none")).prediction
    off = 4.303 * 5.0 * math.sqrt(4.0 / 3.0)
    assert (found.low, found.rate, found.high) == pytest.approx((100.0 - off, 100.0, 100.0 + off))
    sure = plan(flow, MODELS, 100.0, assumptions=SLOT_AWARE).prediction
    assert sure.low == sure.rate == sure.high


def test_runs_of_one_operator_are_merged():
    runs = [PerformanceModel("x", (Point(1, rate, 10.0, 1.0), Point(2, 2 * rate, 20.0, 2.0))) for rate in (9.0, 11.0)]
    runs.append(PerformanceModel("x", (Point(1, 10.0, 40.0, 1.0),)))
    assert merge_runs(runs).points == (Point(1, 10.0, 20.0, 1.0, rates=(9.0, 11.0, 10.0)),)
    with pytest.raises(InvalidModel, match="no runs"):
        merge_runs([])


def test_a_larger_rate_moves_few_threads():
    running = plan(shipped_dataflow("linear"), MODELS, 100.0)
    found = replan(running.placement, MODELS, 110.0)
    assert found.moved < found.moved_afresh
    assert (found.started, found.stopped) == (21, 0)
    same = replan(running.placement, MODELS, 100.0)
    assert (same.moved, same.started, same.stopped) == (0, 0, 0)
    with pytest.raises(InvalidParameter, match="allocate with mba, not lsa"):
        replan(plan(shipped_dataflow("linear"), MODELS, 9.0, allocation="lsa", mapping="dsm").placement, MODELS, 10.0)


def test_near_slots_send_less_between_machines():
    plain, near = (plan(shipped_dataflow("grid"), MODELS, 100.0, mapping=name).placement for name in ("sam", "sam-near"))
    crossing = [crossing_rate(list(one.placed), one.allocation, one.cluster) for one in (plain, near)]
    assert crossing[1] < 0.75 * crossing[0]
    assert plain.slots == near.slots


@pytest.mark.parametrize("part", [0.5, 0.8, 0.95])
def test_the_queueing_estimate_is_near_the_rehearsal(part):
    made = plan(shipped_dataflow("linear"), MODELS, 100.0, assumptions=SLOT_AWARE)
    told = completion_at(made, 100.0 * part, arrival_cv=0.0)
    seen = rehearse(made.placement, MODELS, 100.0 * part, assumptions=SLOT_AWARE)
    assert seen.stable
    assert told.mean_ms == pytest.approx(seen.completion_ms_mean, rel=0.1)
    assert told.p99_ms == pytest.approx(seen.completion_ms_p99, rel=0.15)


def test_beyond_the_peak_no_completion_time_is_promised():
    made = plan(shipped_dataflow("linear"), MODELS, 100.0, assumptions=SLOT_AWARE)
    assert completion_at(made, 101.0).mean_ms == math.inf
    assert completion_at(made, 50.0, hop_ms=10.0).mean_ms > completion_at(made, 50.0).mean_ms
    with pytest.raises(InvalidParameter, match="at least 0"):
        completion_at(made, 50.0, hop_ms=-1.0)


@pytest.mark.parametrize("name", ["linear", "diamond", "star"])
def test_a_rehearsal_holds_the_planned_rate_and_breaks_beyond(name):
    made = plan(shipped_dataflow(name), MODELS, 100.0, assumptions=SLOT_AWARE)
    held = rehearse(made.placement, MODELS, 100.0, assumptions=SLOT_AWARE)
    assert held.stable
    for seen, told in zip(held.slot_usage, made.slot_usage, strict=True):
        assert seen.cpu_pct == pytest.approx(told.cpu_pct, abs=6.0)
    assert not rehearse(made.placement, MODELS, 108.0, assumptions=SLOT_AWARE).stable
    assert not rehearse(made.placement, MODELS, 100.0, assumptions=Assumptions("shuffle")).stable


@pytest.mark.parametrize("routing", ["shuffle", "slot-aware"])
def test_what_is_observed_is_what_was_predicted(routing):
    for made in compare_pairs(shipped_dataflow("star"), MODELS, 50.0):
        seen, told = observed_rate(made.placement, MODELS, assumptions=Assumptions(routing))
        assert seen == pytest.approx(told.rate, rel=0.06), made.pair


def test_a_rehearsal_is_repeatable_and_its_options_are_checked():
    made = plan(shipped_dataflow("star"), MODELS, 20.0)
    first, again = (rehearse(made.placement, MODELS, 20.0, options=RehearsalOptions(seed=3)) for _ in range(2))
    assert first.slopes == again.slopes
    with pytest.raises(InvalidParameter, match=r"cv of 0 to 0.5"):
        RehearsalOptions(cv=2.0)


def test_the_spark_settings_carry_the_plan():
    made = plan(shipped_dataflow("linear"), MODELS, 200.0)
    settings = spark_settings(made)
    assert (settings["spark.executor.instances"], settings["spark.executor.cores"]) == ("4", "4")
    assert settings["spark.sql.shuffle.partitions"] == str(made.placement.slots)
    assert settings["spark.dynamicAllocation.enabled"] == "false"
    parts = ("spark.executor.memory", "spark.executor.memoryOverhead", "spark.executor.pyspark.memory")
    assert sum(int(settings[part].removesuffix("m")) for part in parts) == 4 * 3.5 * 1024
    assert source_options(made, trigger_s=10.0, headroom_pct=10.0)["maxOffsetsPerTrigger"] == "2200"
    assert {one["operator"]: one["tasks"] for one in stages(made)}["blob"] == 7
    with pytest.raises(InvalidParameter, match="above 0"):
        spark_settings(made, trigger_s=0.0)


def test_a_large_dataflow_is_planned_whole():
    flow = large_dataflow(1_000)
    made = plan(flow, MODELS, 700.0, assumptions=SLOT_AWARE)
    assert len(flow.operators) == 1_002
    assert made.placement.slots > 9_000
    assert sum(one.threads for one in made.placement.placed) == made.placement.allocation.threads
    assert made.holds
