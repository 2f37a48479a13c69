"""Dataflows on Spark's micro-batches: which tasks there are, how long a batch takes, and the plan for a rate."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from evenly.dataflow.files import parse_dataflow
from evenly.dataflow.subjects import Subject
from evenly.errors import DoesNotFit, InvalidModel, InvalidParameter
from evenly.planning.micro_batches import (
    CurvePoint,
    EngineCosts,
    FrameCost,
    MeasuredEdge,
    SlotCurve,
    SparkModels,
    plan_on_spark,
)
from evenly.planning.micro_batches.fitting import Sizes, least_squares, profile_curve, slope
from evenly.planning.micro_batches.settings import executors, settings_on_spark, source_on_spark
from evenly.planning.micro_batches.steps import Counts, Steps
from evenly.planning.model_files import models_yaml, parse_models, read_models, read_spark_models
from evenly.planning.models import PerformanceModel, Point

ENGINE = EngineCosts(
    2, 1.0, batch_s=0.5, stage_s=0.1, sink_s=0.2, task_s=0.05, moved_row_s=1e-4, kept_row_s=2e-4, worker_s=0.07
)
FREE = EngineCosts(2)


def flow(edges, *, operators="abcd", sinks="k", name="flow", **fields):
    """Operators of rows called a, b, c, d behind a source s, with these edges; `fields` has what one of them has beside."""
    given = {one: f", {fields[one]}" if one in fields else "" for one in operators}
    rows = [f'  {one}: {{kind: row, function: "x:{one}", schema: "id long"{given[one]}}}' for one in operators]
    ends = [f"  {one}: {{kind: sink, format: noop}}" for one in sinks]
    return parse_dataflow(
        "\n".join([f"dataflow: {name}", "operators:", "  s: {kind: source, format: rate}", *rows, *ends, "edges:", *edges])
    )


def shuffled(start, end, **more):
    return f"  - {{from: {start}, to: {end}, grouping: shuffle{''.join(f', {key}: {value}' for key, value in more.items())}}}"


def forward(start, end, where=""):
    return f'  - {{from: {start}, to: {end}, where: "{where}"}}' if where else f"  - [{start}, {end}]"


def curve(name, *rates, cpu_row_s=0.0, longest_row_s=0.0):
    """Rates of 1, 2, 4, … threads."""
    points = tuple(CurvePoint(2**at, rate, cpu_row_s) for at, rate in enumerate(rates))
    return SlotCurve(name, points, 2, longest_row_s, 100.0)


def models(*curves, engine=FREE, **edges):
    return SparkModels(engine, {one.name: one for one in curves}, edges)


LINE = [shuffled("s", "a"), shuffled("a", "b"), forward("b", "k")]
DIAMOND = [
    shuffled("s", "a"),
    shuffled("a", "b"),
    shuffled("a", "c"),
    shuffled("b", "d"),
    shuffled("c", "d"),
    forward("d", "k"),
]


def test_tasks_end_at_a_shuffle_and_where_rows_are_persisted():
    steps = Steps(flow(DIAMOND))
    # What `b` and `c` give is dealt out together: one step makes it, with tasks of each.
    assert [step.operators for step in steps.steps] == [("s",), ("a",), ("b", "c"), ("d", "k")]
    assert [step.kept for step in steps.steps] == [[], ["a"], [], []]
    assert [len(step.sent) for step in steps.steps] == [0, 0, 2, 0]
    assert steps.tasks(3) == {"s": 3, "a": 3, "b": 3, "c": 3, "d": 3, "k": 3}
    assert [steps.tasks_of(step, steps.tasks(3)) for step in steps.steps] == [3, 3, 6, 3]
    # Rows that leave `a` are persisted once, and shuffled twice by tasks of their own.
    assert steps.counts(3) == Counts(stages=6, turns=7, sinks=1, file_sinks=0, moved=5.0, kept=1.0, workers=4)


def test_tasks_of_two_kinds_in_a_step_take_their_times_one_after_the_other():
    edges = [
        shuffled("s", "a", instances=4),
        shuffled("s", "b", instances=2),
        shuffled("a", "c"),
        shuffled("b", "c"),
        forward("c", "k"),
    ]
    known = models(curve("a", 100), curve("b", 50), curve("c", 1000))
    found = plan_on_spark(flow(edges, operators="abc"), known, rate=1, slots=4, trigger_s=10)
    assert [stage.operators for stage in found.stages] == [("s",), ("a", "b"), ("c", "k")]
    assert found.stages[1].seconds(400) == pytest.approx(400 / 100 / 4 + 400 / 50 / 2)  # two slots have no task of `b`
    assert found.stages[1].binding == "b"


def test_what_is_grouped_by_key_is_one_shuffle_as_in_most_batches():
    keyed = "  - {from: a, to: b, grouping: key, columns: id}"
    steps = Steps(flow([shuffled("s", "a"), keyed, forward("b", "k")], operators="ab"))
    assert [step.kept for step in steps.steps] == [[], [], []]
    assert steps.counts(3) == Steps(flow([shuffled("s", "a"), shuffled("a", "b"), forward("b", "k")], operators="ab")).counts(3)


def test_an_edge_to_every_instance_brings_each_row_as_often():
    everywhere = "  - {from: a, to: b, grouping: duplicate, instances: 3}"
    line = flow([shuffled("s", "a"), everywhere, forward("b", "k")], operators="ab")
    known = models(curve("a", 100), curve("b", 50))
    found = plan_on_spark(line, known, rate=1, slots=3, trigger_s=10)
    assert found.stages[-1].rows_in == {"b": 3.0, "k": 3.0}
    assert found.stages[-1].seconds(100) == pytest.approx(100 / 50)
    half = plan_on_spark(line, replace(known, edges={"flow": {("a", "b"): MeasuredEdge(0.5)}}), rate=1, slots=3, trigger_s=10)
    assert half.stages[-1].rows_in["b"] == 1.5


def test_forward_edges_go_on_in_the_same_tasks():
    steps = Steps(flow([forward("s", "a"), forward("a", "b", "id > 1"), forward("b", "k")], operators="ab"))
    assert [step.operators for step in steps.steps] == [("s", "a", "b", "k")]
    apart = Steps(
        flow([forward("s", "a"), forward("s", "b", "id > 1"), forward("a", "k"), forward("b", "l")], operators="ab", sinks="kl")
    )
    assert [step.operators for step in apart.steps] == [("s",), ("a", "k"), ("b", "l")]
    assert apart.steps[0].kept == ["s"]


def test_branches_that_meet_without_a_shuffle_are_one_step_with_the_tasks_of_both():
    edges = [
        shuffled("s", "a", instances=3),
        shuffled("s", "b", instances=5),
        forward("a", "c", "id > 1"),
        forward("b", "c"),
        forward("c", "k"),
    ]
    steps = Steps(flow(edges, operators="abc"))
    assert [step.operators for step in steps.steps] == [("s",), ("a", "b", "c", "k")]
    assert steps.tasks(2)["c"] == 8
    found = plan_on_spark(
        flow(edges, operators="abc"), models(curve("a", 100), curve("b", 50), curve("c", 1000)), rate=1, slots=2, trigger_s=10
    )
    # 8 tasks on 2 slots: 4 turns of an eighth of the rows. Tasks with `a` are others than those with `b`, and `c` is in all.
    assert found.batch_s(100) == pytest.approx((100 / 100 + 100 / 50 + 200 / 1000) * 4 / 8)


def test_stages_one_after_the_other_and_what_spark_needs():
    found = plan_on_spark(
        flow(LINE, operators="ab"), models(curve("a", 100), curve("b", 50), engine=ENGINE), rate=10, slots=2, trigger_s=10
    )
    source, first, second = found.stages
    assert (source.operators, first.operators, second.operators) == (("s",), ("a",), ("b", "k"))
    rows = 100
    assert first.seconds(rows) == pytest.approx(0.22 + rows / 2 * (1 / 100 + 1e-4))
    assert second.seconds(rows) == pytest.approx(0.22 + rows / 2 * (1 / 50 + 1e-4))
    assert found.batch_s(rows) == pytest.approx(0.5 + 0.2 + 0.15 + first.seconds(rows) + second.seconds(rows))
    assert found.batch_s(found.peak_rate * 10) == pytest.approx(10)
    assert (found.first_to_break, found.rows_per_batch) == ("b", 100)
    assert found.completion_s_mean == pytest.approx(5 + found.batch_s(100))
    assert found.completion_s_p99 == pytest.approx(9.9 + found.batch_s(100))


def test_a_stage_is_never_shorter_than_its_longest_row():
    found = plan_on_spark(
        flow(LINE, operators="ab"), models(curve("a", 100, longest_row_s=3.0), curve("b", 50)), rate=1, slots=2, trigger_s=10
    )
    assert [stage.seconds(4) for stage in found.stages] == [0.0, 3.0, pytest.approx(4 / 100)]
    assert found.batch_s(0) == 0.0


def test_in_one_worker_one_thread_walks_through_all_and_with_threads_the_slowest_decides():
    edges = [shuffled("s", "a"), forward("a", "b"), forward("b", "k")]
    known = models(curve("a", 100, 200, 400, cpu_row_s=1e-3), curve("b", 50, 90, cpu_row_s=1e-3))
    walked = plan_on_spark(flow(edges, operators="ab"), known, rate=1, slots=2, trigger_s=10, allocation="lsa")
    assert walked.threads == {"a": 1, "b": 1}
    assert walked.batch_s(200) == pytest.approx(100 * (1 / 100 + 1 / 50))
    flowing = plan_on_spark(flow(edges, operators="ab"), known, rate=1, slots=2, trigger_s=10)
    assert flowing.threads == {"a": 4, "b": 2}
    assert flowing.batch_s(200) == pytest.approx(100 / 90)
    computing = models(curve("a", 100, 110, cpu_row_s=9e-3), curve("b", 50, 100, cpu_row_s=3e-3))
    both = plan_on_spark(flow(edges, operators="ab"), computing, rate=1, slots=2, trigger_s=10)
    assert both.batch_s(200) == pytest.approx(100 * (9e-3 + 3e-3))  # one core for both
    assert both.first_to_break == "a"


def test_a_worker_in_the_same_tasks_begins_when_the_first_ten_thousand_rows_are_made():
    edges = [shuffled("s", "a"), forward("a", "b", "id > 1"), forward("b", "k")]
    waiting = models(curve("a", 100), curve("b", 80))
    found = plan_on_spark(flow(edges, operators="ab"), waiting, rate=1, slots=2, trigger_s=10)
    assert found.batch_s(200) == pytest.approx(100 / 100 + 100 / 80)
    assert found.batch_s(60_000) == pytest.approx(30_000 / 80 + 10_000 / 100)
    computing = models(curve("a", 100, cpu_row_s=1e-2), curve("b", 80, cpu_row_s=1 / 80))
    both = plan_on_spark(flow(edges, operators="ab"), computing, rate=1, slots=2, trigger_s=10)
    assert both.batch_s(60_000) == pytest.approx(30_000 * (1 / 100 + 1 / 80))  # one core for both
    assert both.first_to_break == "b"


def test_rows_on_an_edge_are_those_that_were_measured():
    told = [shuffled("s", "a"), shuffled("a", "b", selectivity=0.5), forward("b", "k")]
    known = models(curve("a", 100), curve("b", 50))
    assert plan_on_spark(flow(told, operators="ab"), known, rate=1, slots=1, trigger_s=10).batch_s(100) == pytest.approx(1 + 1)
    measured = replace(known, edges={"flow": {("a", "b"): MeasuredEdge(3.0, "")}})
    assert plan_on_spark(flow(told, operators="ab"), measured, rate=1, slots=1, trigger_s=10).batch_s(100) == pytest.approx(
        1 + 6
    )


def test_threads_are_those_of_the_description_or_where_a_slot_carries_most():
    edges = [shuffled("s", "a"), shuffled("a", "b"), forward("b", "k")]
    described = flow(edges, operators="ab", a="threads: 3", b="threads: auto")
    found = plan_on_spark(
        described, models(curve("a", 100, 200, 400), curve("b", 100, 180, 181)), rate=1, slots=1, trigger_s=10
    )
    assert found.threads == {"a": 3, "b": 2}  # 4 threads carry hardly more than 2
    assert found.between == ("a",)
    assert found.batch_s(300) == pytest.approx(1 + 300 / 180)  # between the points by straight line
    applied = found.applied()
    assert (applied.by_name["a"].threads, applied.by_name["b"].threads, applied.by_name["s"].threads) == (3, 2, None)


def test_the_fewest_slots_or_the_shortest_trigger_that_hold_the_rate():
    known = models(curve("a", 100), curve("b", 100), engine=ENGINE)
    line = flow(LINE, operators="ab")
    found = plan_on_spark(line, known, rate=200)
    assert found.trigger_s == 10
    assert found.holds
    assert found.peak_rate >= 220
    fewer = plan_on_spark(line, known, rate=200, slots=found.slots - 1, trigger_s=10)
    assert fewer.peak_rate < 220
    quick = plan_on_spark(line, known, rate=200, slots=20)
    assert quick.trigger_s == 2
    assert plan_on_spark(line, known, rate=200, slots=20, trigger_s=1).peak_rate < 220
    none = plan_on_spark(line, known, rate=2000, slots=2)
    assert (none.trigger_s, none.holds, none.completion_s_p99) == (60, False, math.inf)
    highest = plan_on_spark(line, known, slots=4, trigger_s=20)
    assert highest.rate == highest.peak_rate
    assert highest.batch_s(highest.rows_per_batch) == pytest.approx(20)


def test_batches_one_after_the_other_have_an_asymptote():
    found = plan_on_spark(
        flow(LINE, operators="ab"), models(curve("a", 100), curve("b", 100), engine=ENGINE), rate=50, slots=2, trigger_s=10
    )
    endless = replace(found, trigger_s=None)
    assert endless.peak_rate == pytest.approx(2 / (2 / 100 + 2e-4))
    rows = endless.rows_per_batch
    assert endless.batch_s(rows) * 50 == pytest.approx(rows)
    assert endless.interval_s == pytest.approx(endless.batch_s(rows))
    assert "50 rows/s" in endless._repr_html_()
    above = replace(endless, rate=1000.0)
    assert "below the planned one" in above._repr_html_()
    assert (above.rows_per_batch, above.interval_s, above.completion_s_mean) == (math.inf, math.inf, math.inf)


def test_what_cannot_be_planned_is_said():
    line = flow(LINE, operators="ab")
    known = models(curve("a", 100), curve("b", 100), engine=ENGINE)
    with pytest.raises(InvalidModel, match=r"'b' was not measured on Spark \(measured: a\).*evenly profile FLOW --on spark"):
        plan_on_spark(line, models(curve("a", 100)), rate=1)
    with pytest.raises(InvalidModel, match="evenly profile --engine"):
        plan_on_spark(line, replace(known, engine=None), rate=1)
    with pytest.raises(DoesNotFit, match=r"no number of slots holds 5 rows/s at a trigger of 1 s.*longer --trigger"):
        plan_on_spark(line, known, rate=5, trigger_s=1.0)
    with pytest.raises(DoesNotFit, match="longer --trigger"):
        plan_on_spark(line, known, trigger_s=0.5)
    for wrong in (
        {"rate": 0},
        {"rate": math.inf},
        {"rate": 1e308},
        {"rate": math.nan},
        {"slots": 0},
        {"trigger_s": 0},
        {"allocation": "sam"},
        {"headroom_pct": -1},
    ):
        with pytest.raises(InvalidParameter):
            plan_on_spark(line, known, **{"rate": 1, **wrong})


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: EngineCosts(0), "at least 1 slot"),
        (lambda: EngineCosts(1, 0.0), "cores_per_slot"),
        (lambda: EngineCosts(1, batch_s=-1.0), "batch_s"),
        (lambda: EngineCosts(1, stage_s=math.nan), "stage_s"),
        (lambda: SlotCurve("x", ()), "1 thread first"),
        (lambda: SlotCurve("x", (CurvePoint(2, 1.0),)), "1 thread first"),
        (lambda: SlotCurve("x", (CurvePoint(1, 1.0), CurvePoint(1, 1.0))), "ascend"),
        (lambda: SlotCurve("x", (CurvePoint(1, 0.0),)), "rows_per_s"),
        (lambda: SlotCurve("x", (CurvePoint(1, 1.0, -1.0),)), "cpu_row_s"),
        (lambda: SlotCurve("x", (CurvePoint(1, 1.0),), 0), "slots"),
        (lambda: SlotCurve("x", (CurvePoint(1, 1.0),)).at(0), "at least 1 thread"),
    ],
)
def test_impossible_measurements_are_refused(made, said):
    with pytest.raises(InvalidModel, match=said):
        made()


def test_settings_carry_the_plan_out():
    found = plan_on_spark(flow(LINE, operators="ab"), models(curve("a", 100), curve("b", 100)), rate=10, slots=6, trigger_s=5)
    assert executors(found) == (2, 4)
    settings = settings_on_spark(found)
    assert settings["spark.executor.pyspark.memory"] == "500m"  # 100 MiB and a quarter more for each of 4 slots
    assert (settings["spark.sql.shuffle.partitions"], settings["spark.dynamicAllocation.enabled"]) == ("6", "false")
    assert source_on_spark(found) == {"maxOffsetsPerTrigger": "1500", "trigger": "5 seconds"}
    with pytest.raises(InvalidParameter):
        executors(found, 0)


def test_what_was_measured_is_kept_beside_other_models(tmp_path):
    paper = PerformanceModel("parse", (Point(1, 310.0, 84.7, 35.6),))
    known = models(
        curve("a", 100, 200, cpu_row_s=1e-3, longest_row_s=0.25),
        engine=ENGINE,
        clicks={("s", "a"): MeasuredEdge(0.5, "id > 3")},
    )
    known = replace(known, frames={"f": FrameCost("f", 1e-6, 0.25, 2, 1, 16, 256, 200, 100, "here", Subject("frame", "x:f"))})
    kept = FrameCost("k", 1e-6, 0.5, 2, 0, 0, 256, 20, keys=20, late=3, merges=True)
    known = replace(known, frames={**known.frames, "k": kept})
    path = tmp_path / "models.yaml"
    path.write_text(models_yaml([paper], known))
    assert read_models(path)["parse"] == paper
    assert read_spark_models(path) == known
    path.write_text(models_yaml([paper]))  # a file from before
    assert "spark" not in path.read_text()
    assert read_spark_models(path) == SparkModels()
    path.write_text("spark: {engine: {slots: 2}}")
    assert len(read_models(path)) == 0
    assert read_spark_models(path).engine == EngineCosts(2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("about: x", "line 1: a file of performance models needs 'models', or 'spark'"),
        ("spark:\n  engine: {slots: 0}", "line 2: slots must be a whole number"),
        ("spark:\n  engine: {slots: 1, speed: 2}", "line 2: the costs of Spark itself has no 'speed'"),
        (
            "spark:\n  operators:\n    a: {points: [{threads: 2, rows_per_s: 1}]}",
            "line 3: the curve of 'a' needs a point with 1",
        ),
        ("spark:\n  edges:\n    f: [{from: a, to: b}]", "line 3: an edge needs 'rows'"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path, text, said):
    path = tmp_path / "models.yaml"
    path.write_text(text)
    with pytest.raises(InvalidModel, match=said):
        read_spark_models(path)


def test_old_files_need_no_section_for_spark():
    assert list(parse_models("models: {source: {static: {cpu_pct: 10, mem_pct: 1}}}")) == ["source"]


def test_least_squares_finds_costs_and_none_below_zero():
    counts = [(1, 1, 0), (1, 2, 0), (1, 2, 1000), (1, 5, 0)]
    assert least_squares(counts, [0.3, 0.4, 0.6, 0.7]) == pytest.approx([0.2, 0.1, 2e-4])
    falling = least_squares([(1, 1), (1, 2), (1, 3)], [0.6, 0.5, 0.4])
    assert falling == pytest.approx([0.5, 0.0])
    with pytest.raises(InvalidModel, match="measure more"):
        least_squares([(1, 2)], [0.5])
    with pytest.raises(InvalidModel, match="does not occur"):
        least_squares([(1, 0), (1, 0)], [0.5, 0.5])


def test_threads_grow_until_two_in_a_row_carry_no_more():
    asked = []

    def measured(threads):
        asked.append(threads)
        return CurvePoint(threads, 100.0 * min(threads, 8))

    assert [point.threads for point in profile_curve(measured)] == [1, 2, 4, 8, 16, 32]
    assert asked == [1, 2, 4, 8, 16, 32]
    assert [point.threads for point in profile_curve(measured, most_threads=5)] == [1, 2, 4]
    assert [point.threads for point in profile_curve(measured, given=3)] == [1, 3]
    assert [point.threads for point in profile_curve(measured, given=1)] == [1]


def test_the_slope_leaves_out_what_every_size_takes():
    assert slope((100, 1.5), (300, 2.5)) == pytest.approx(0.005)
    assert slope((100, 3.0), (300, 2.4)) == pytest.approx(0.008)  # disturbed: its own time for a row, never below 0


def test_sizes_follow_what_was_measured():
    sizes = Sizes(2.0, 0.01)
    assert sizes.pair(1) == (20, 100)
    assert not sizes.enough(1, 80, 0.05)  # faster than was thought
    few, many = sizes.pair(1)
    assert many - few == 800  # ten times as many at most
    assert sizes.enough(1, 800, 0.7)
    sizes.found(1, 1e-3)
    assert sizes.pair(4) == (800, 4000)


def framed(*edges, name="f"):
    """A source, the operator of Spark itself `f`, operators a and b, a sink."""
    text = "\n".join(
        [
            "dataflow: framed",
            "operators:",
            "  s: {kind: source, format: rate}",
            f'  {name}: {{kind: frame, function: "x:f"}}',
            *(f'  {one}: {{kind: row, function: "x:{one}", schema: "id long"}}' for one in "ab"),
            "  k: {kind: sink, format: noop}",
            "edges:",
            *edges,
        ]
    )
    return parse_dataflow(text)


BEHIND = [forward("s", "f"), forward("f", "a"), shuffled("a", "b"), forward("b", "k")]


def test_an_operator_of_spark_itself_computes_beside_the_workers_in_its_tasks():
    known = replace(
        models(curve("a", 100), curve("b", 1000), engine=ENGINE),
        frames={"f": FrameCost("f", row_s=1 / 50, fixed_s=0.3, slots=2)},
    )
    found = plan_on_spark(framed(*BEHIND), known, rate=1, slots=2, trigger_s=10)
    assert (found.unmeasured, found.frames) == ((), ("f",))
    assert any("the rows of f -> a were not measured" in doubt for doubt in found.doubts)
    first = found.stages[0]
    assert (first.operators, first.binding) == (("s", "f", "a"), "f")
    assert first.fixed_s == pytest.approx(0.1 + 0.05 + 0.07 + 0.3)
    # `a` waits for the first 10,000 rows, or all, and then runs beside `f`, which is the slower of the two.
    assert first.seconds(200) == pytest.approx(first.fixed_s + 100 / 50 + 100 / 100)
    assert plan_on_spark(framed(*BEHIND), replace(known, frames={}), rate=1, slots=2, trigger_s=10).unmeasured == ("f",)


def test_one_that_shuffles_its_rows_ends_tasks_and_its_rows_out_are_those_that_were_measured():
    grouped = FrameCost("f", row_s=0.01, fixed_s=0.4, slots=2, shuffles=1, sample=100, left=50, left_of_half=25)
    known = replace(
        models(curve("a", 100), curve("b", 1000), engine=ENGINE, framed={("f", "a"): MeasuredEdge(0.5, "")}),
        frames={"f": grouped},
    )
    found = plan_on_spark(framed(*BEHIND), known, rate=1, slots=2, trigger_s=10)
    assert [stage.operators for stage in found.stages] == [("s",), ("f", "a"), ("b", "k")]
    own = found.stages[1]
    assert own.fixed_s == pytest.approx(0.4 + 0.07)  # its own stage and tasks are in what was measured
    assert own.seconds(200) == pytest.approx(own.fixed_s + 100 * 0.01 + 50 / 100)
    assert own.binding == "f"
    assert own.rows_in == {"f": 1.0, "a": 0.5}
    assert any("copies of 100" in doubt for doubt in found.doubts)
    persisted = framed(*BEHIND, forward("s", "b", "id > 1"))
    twice = plan_on_spark(persisted, known, rate=1, slots=2, trigger_s=10)
    # What is before it is persisted, so it is read by tasks of their own.
    assert [len(step.sent) for step in Steps(persisted, None, {"f": grouped}).steps][1] == 1
    assert twice.stages[1].fixed_s == pytest.approx(own.fixed_s + 0.1 + 0.05)


def test_what_shuffles_says_what_it_rests_on():
    alike = FrameCost("f", 0.01, slots=2, shuffles=1, sample=100, left=80, left_of_half=40)
    assert len(alike.doubts(2)) == 1
    assert "with 2 slots" in alike.doubts(3)[1]
    fewer = replace(alike, left_of_half=50)
    assert "1 for each of 50, 0.8 of 100" in fewer.doubts(2)[1]
    assert replace(fewer, shuffles=0).doubts(3) == ()
    for wrong in ({"row_s": -1.0}, {"fixed_s": math.inf}, {"slots": 0}, {"shuffles": -1}):
        with pytest.raises(InvalidModel):
            replace(alike, **wrong)


def test_state_is_a_step_behind_its_shuffle_and_says_what_it_rests_on():
    text = """
dataflow: stateful
operators:
  s: {kind: source, format: rate}
  a: {kind: row, function: "x:a", schema: "id long"}
  f: {kind: state, function: "x:f"}
  b: {kind: row, function: "x:b", schema: "id long"}
  k: {kind: sink, format: noop}
edges:
  - [s, a]
  - {from: a, to: f, grouping: key, columns: id, instances: 4}
  - [f, b]
  - [b, k]
"""
    flow = parse_dataflow(text)
    known = models(curve("a", 100), curve("b", 1000), engine=ENGINE, stateful={("f", "b"): MeasuredEdge(0.5, "")})
    assert plan_on_spark(flow, known, rate=1, slots=2, trigger_s=10).unmeasured == ("f",)
    cost = FrameCost("f", row_s=0.01, fixed_s=0.4, slots=2, sample=100, left=50, keys=20, late=3)
    found = plan_on_spark(flow, replace(known, frames={"f": cost}), rate=1, slots=2, trigger_s=10)
    assert (found.unmeasured, found.frames) == ((), ("f",))
    assert [stage.operators for stage in found.stages] == [("s", "a"), ("f", "b", "k")]
    nothing = plan_on_spark(flow, replace(known, frames={"f": replace(cost, row_s=0.0, fixed_s=0.0)}), rate=1, slots=2)
    own, without = found.stages[1], nothing.stages[1]
    assert own.fixed_s == pytest.approx(without.fixed_s + 0.4)
    assert own.binding == "f"
    assert own.seconds(200) - without.seconds(200) >= 0.4 + 0.9 * 200 * 0.01 / 2 - 100 / 1000 / 2
    said = " ".join(found.doubts)
    assert all(it in said for it in ("while it kept 20 keys", "it was 50 for 100", "3 rows came too late"))
    assert "with 2 slots" in " ".join(cost.doubts(3))
    assert len(replace(cost, left=100, late=0).doubts(2)) == 1


def test_where_spark_merges_partitions_a_plan_says_so():
    merged = FrameCost("f", 0.01, slots=2, shuffles=1, sample=100, left=100, left_of_half=50, merges=True)
    assert "give the edge behind it `grouping: shuffle`" in merged.doubts(2)[1]


def test_a_model_of_another_operator_of_spark_is_refused():
    was = FrameCost("f", 0.01, of=Subject("frame", "x:other"))
    known = replace(models(curve("a", 100), curve("b", 1000)), frames={"f": was})
    with pytest.raises(InvalidModel, match=r"the model of 'f' was measured of the function x:other"):
        plan_on_spark(framed(*BEHIND), known, rate=1, slots=2, trigger_s=10)
