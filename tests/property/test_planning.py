"""What planning promises, for any dataflow, any models and any rate."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.dataflow import Dataflow, Edge, Operator
from evenly.errors import DoesNotFit
from evenly.planning import AZURE_D, Assumptions, Models, PerformanceModel, Point, plan, replan, static_model
from evenly.planning.allocation import LSA, MBA
from evenly.planning.mapping import SAM
from evenly.planning.network import crossing_rate
from evenly.planning.plan import PAIRS, planned
from evenly.planning.prediction import shares_of, usage_at

SLOT_AWARE = Assumptions("slot-aware")


@st.composite
def performance_models(draw, name):
    """Any points; cpu and memory of a slot anything up to 100 %."""
    threads = sorted(draw(st.sets(st.integers(2, 40), max_size=4)))
    percent = st.floats(0.0, 100.0)
    points = [Point(count, draw(st.floats(0.5, 200.0)), draw(percent), draw(percent)) for count in (1, *threads)]
    return PerformanceModel(name, tuple(points))


@st.composite
def rising_models(draw, name):
    """Models whose cpu and memory do not fall with more threads."""
    made = draw(performance_models(name))
    cpu, memory = (sorted(getattr(point, part) for point in made.points) for part in ("cpu_pct", "mem_pct"))
    points = [Point(p.threads, p.rate, c, m) for p, c, m in zip(made.points, cpu, memory, strict=True)]
    return PerformanceModel(name, tuple(points))


@st.composite
def cases(draw, models=performance_models):
    """A dataflow of up to six operators without cycles, with models for them."""
    count = draw(st.integers(1, 6))
    names = [f"o{place}" for place in range(count)]
    edges = [Edge("source", names[0])]
    for place in range(1, count):
        starts = draw(st.sets(st.sampled_from(["source", *names[:place]]), min_size=1, max_size=2))
        edges += [Edge(start, names[place], draw(st.sampled_from([0.25, 0.5, 1.0, 2.0]))) for start in sorted(starts)]
    left = {edge.start for edge in edges}
    edges += [Edge(name, "sink") for name in names if name not in left or name == names[-1]]
    ends = (Operator("source", kind="source"), *(Operator(name, name) for name in names), Operator("sink", kind="sink"))
    known = [static_model("source", cpu_pct=10.0, mem_pct=1.0), static_model("sink", cpu_pct=10.0, mem_pct=2.0)]
    known += [draw(models(name)) for name in names]
    return Dataflow("drawn", ends, tuple(edges)), Models(known)


RATES = st.floats(0.5, 80.0)


@given(cases(), RATES, st.sampled_from(PAIRS))
def test_every_thread_is_placed_once_on_a_slot_there_is(case, rate, pair):
    flow, models = case
    made = plan(flow, models, rate, allocation=pair[0], mapping=pair[1]).placement
    placed: Counter[str] = Counter()
    for one in made.placed:
        placed[one.operator] += one.threads
        assert 0 <= one.slot < made.cluster.slots
        assert one.threads >= 1
    assert placed == {need.operator: need.threads for need in made.allocation.needs}
    assert made.slots == made.allocation.slots + made.extra_slots


@given(cases(), RATES)
def test_sam_promises_no_more_of_a_slot_than_there_is_and_mixes_few(case, rate):
    flow, models = case
    made = plan(flow, models, rate).placement
    for held in made.by_slot.values():
        assert sum(one.cpu_pct for one in held) <= 100.0 + 1e-6
        assert sum(one.mem_pct for one in held) <= 100.0 + 1e-6
    mixed = sum(len({one.operator for one in held}) > 1 for held in made.by_slot.values())
    assert mixed <= sum(need.rest is not None for need in made.allocation.needs)


@given(cases(), RATES)
def test_sam_takes_no_slot_that_it_does_not_need(case, rate):
    flow, models = case
    made = plan(flow, models, rate).placement
    assert made.slots == max(made.allocation.slots, SAM.least_slots(made.allocation))
    if made.extra_slots:
        with pytest.raises(DoesNotFit):
            SAM.place(made.allocation, AZURE_D.acquire(made.slots - 1))


@given(cases(), RATES, st.sampled_from(["lsa", "mba"]), st.sampled_from(["rsm", "rsm-alone"]))
def test_rsm_promises_no_slots_memory_and_no_machines_cpu_twice(case, rate, allocation, mapping):
    flow, models = case
    made = plan(flow, models, rate, allocation=allocation, mapping=mapping).placement
    used = [0.0] * len(made.cluster.machines)
    for slot, held in made.by_slot.items():
        assert sum(one.mem_pct for one in held) <= 100.0 + 1e-6
        used[made.cluster.machine_of[slot]] += sum(one.cpu_pct for one in held)
    for cpu, machine in zip(used, made.cluster.machines, strict=True):
        assert cpu <= 100.0 * machine.slots + 1e-6


@given(cases(), RATES)
def test_dsm_balances_the_number_of_threads(case, rate):
    flow, models = case
    made = plan(flow, models, rate, mapping="dsm").placement
    counts = [sum(one.threads for one in held) for held in made.by_slot.values()]
    assert max(counts) - min(counts) <= 1


@given(cases(), RATES, st.sampled_from(["machine", "slot", "none"]))
def test_with_slot_aware_routing_mba_with_sam_carries_the_planned_rate(case, rate, contention):
    flow, models = case
    made = plan(flow, models, rate, assumptions=Assumptions("slot-aware", contention=contention))
    assert made.prediction.rate >= rate * (1.0 - 1e-6)
    assert made.prediction.binding.rate == made.prediction.rate == min(one.rate for one in made.prediction.limits)
    for used in made.slot_usage:
        assert used.cpu_pct <= 100.0 + 1e-6


@given(cases(), RATES)
def test_every_bundle_of_mba_can_carry_what_it_is_to(case, rate):
    flow, models = case
    for need in MBA.allocate(flow, models, rate).needs:
        model = models[flow.by_name[need.operator].model_name]
        assert sum(one.rate for one in need.bundles) == pytest.approx(need.rate)
        for bundle in need.bundles:
            assert model.at(bundle.threads).rate >= bundle.rate * (1.0 - 1e-9)


@given(cases(), RATES, RATES, st.sampled_from([LSA, MBA]))
def test_threads_never_decrease_with_the_rate(case, one, other, algorithm):
    flow, models = case
    low, high = (algorithm.allocate(flow, models, rate) for rate in sorted((one, other)))
    for less, more in zip(low.needs, high.needs, strict=True):
        assert less.threads <= more.threads


@given(cases(rising_models), RATES, RATES, st.sampled_from([LSA, MBA]))
def test_slots_never_decrease_with_the_rate_where_more_threads_use_more(case, one, other, algorithm):
    flow, models = case
    low, high = (algorithm.allocate(flow, models, rate) for rate in sorted((one, other)))
    assert low.slots <= high.slots


@given(cases(), RATES, st.sampled_from(PAIRS), st.sampled_from(["shuffle", "slot-aware"]))
def test_shares_add_up_and_usage_grows_with_the_rate(case, rate, pair, routing):
    flow, models = case
    made = plan(flow, models, rate, allocation=pair[0], mapping=pair[1])
    shares = shares_of(made.placement, models, Assumptions(routing))
    for found in shares.values():
        assert sum(one.part for one in found) == pytest.approx(1.0)
    half, whole = (usage_at(made.placement, shares, part * rate)[0] for part in (0.5, 1.0))
    for less, more in zip(half, whole, strict=True):
        assert less.cpu_pct <= more.cpu_pct + 1e-9
        assert less.mem_pct <= more.mem_pct + 1e-9


@given(cases(), RATES, st.sampled_from(PAIRS))
def test_what_each_slot_can_carry_is_never_less_than_equal_shares(case, rate, pair):
    """Without shared cores: shares by what bundles carry are the best there are, unless the plan reserved others."""
    flow, models = case
    made = plan(flow, models, rate, allocation=pair[0], mapping=pair[1])
    if pair[1] == "sam":
        return
    by = [
        planned(made.placement, models, Assumptions(name, contention="none")).prediction.rate
        for name in ("shuffle", "slot-aware")
    ]
    assert by[1] >= by[0] * (1.0 - 1e-9)


@given(cases(), RATES, RATES)
def test_a_replan_moves_no_more_than_a_fresh_plan_and_takes_no_more_slots(case, before, after):
    flow, models = case
    running = plan(flow, models, before).placement
    found = replan(running, models, after)
    fresh = plan(flow, models, after)
    assert found.moved <= found.moved_afresh
    assert found.placement.slots == fresh.placement.slots
    threads: Counter[str] = Counter()
    for held in found.placement.by_slot.values():
        assert sum(one.cpu_pct for one in held) <= 100.0 + 1e-6
        assert sum(one.mem_pct for one in held) <= 100.0 + 1e-6
        threads.update({one.operator: 0 for one in held})
        for one in held:
            threads[one.operator] += one.threads
    assert threads == {need.operator: need.threads for need in fresh.placement.allocation.needs}
    assert planned(found.placement, models, SLOT_AWARE).prediction.rate >= after * (1.0 - 1e-6)


@given(cases(), RATES)
def test_the_same_rate_moves_nothing(case, rate):
    flow, models = case
    found = replan(plan(flow, models, rate).placement, models, rate)
    assert (found.moved, found.started, found.stopped) == (0, 0, 0)


@given(cases(), RATES)
def test_near_sam_has_sams_slots_and_bundles_and_no_more_traffic(case, rate):
    flow, models = case
    plain, near = (plan(flow, models, rate, mapping=name).placement for name in ("sam", "sam-near"))

    def contents(made):
        return Counter(tuple(sorted((one.operator, one.threads) for one in held)) for held in made.by_slot.values())

    assert contents(plain) == contents(near)
    crossing = [crossing_rate(list(one.placed), one.allocation, one.cluster) for one in (plain, near)]
    assert crossing[1] <= crossing[0] + 1e-6


@given(st.integers(1, 400))
def test_machines_have_enough_slots_and_at_most_one_to_spare(slots):
    cluster = AZURE_D.acquire(slots)
    assert cluster.slots == slots
    assert 0 <= sum(one.size.slots for one in cluster.machines) - slots <= 1


@given(st.lists(st.floats(1.0, 100.0), min_size=2, max_size=20))
def test_an_interval_holds_its_mean_and_vanishes_without_spread(rates):
    mean = sum(rates) / len(rates)
    low, high = Point(1, mean, 1.0, 1.0, rates=tuple(rates)).interval()
    assert low <= mean + 1e-9
    assert high >= mean - 1e-9
    assert Point(1, mean, 1.0, 1.0, rates=(mean,) * 3).interval() == pytest.approx((mean, mean))
