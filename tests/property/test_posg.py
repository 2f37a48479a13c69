"""POSG and the default scheduler: state machines, whole runs against a plain event simulator, and faults of messages."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenly.kernels import virtual_finish_instances as kernels
from evenly.lab.rivals.shuffle.posg import POSG, READINGS, PosgState
from evenly.lab.rivals.shuffle.posg_messages import SyncRequest
from evenly.lab.rivals.shuffle.virtual_finish import VirtualFinish
from evenly.lab.simulation.compiled import COMPILED
from evenly.lab.simulation.plain import plain
from evenly.lab.simulation.queueing import Stage, run

SEEDS = st.integers(0, 2**32 - 1)
SWITCHES = st.fixed_dictionaries(
    {
        "theta": st.sampled_from([None, 0.0, 1.0, 4.0]),
        "estimator": st.sampled_from(["table", "matrices"]),
        "pooled": st.booleans(),
        "speeds": st.booleans(),
        "floored": st.booleans(),
        "first_report": st.sampled_from([1, 4]),
        "latency_ms": st.sampled_from([None, 1.0]),
    }
)

TIED = {
    "theta": 4.0,
    "estimator": "table",
    "pooled": False,
    "speeds": True,
    "floored": True,
    "first_report": 4,
    "latency_ms": 1,
}
"""As in the other examples, a tuple is heard of when it reaches its instance, and another message comes just then."""


UNIT_MS = 125.0
"""An eighth of a second: whole numbers of it are exact in seconds, and groupings are told the time in seconds."""


def small_stage(seed: int, *, tuples: int = 250) -> Stage:
    """Whole numbers of a unit, so that sums are exact and ties are many."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 5))
    return Stage.of(
        rng.zipf(1.5, tuples) % 40,
        rng.integers(0, 7, tuples) * rng.integers(0, 2, tuples) * UNIT_MS,
        np.cumsum(rng.integers(0, 3, tuples)) * UNIT_MS,
        instances=k,
        multipliers=rng.choice([1.0, 2.0], (2, k)),
        period_starts=[0, tuples // 2],
        tuple_latency_ms=rng.integers(0, 3, k) * UNIT_MS,
        control_latency_ms=rng.integers(0, 9, k) * UNIT_MS,
    )


def agree(stage: Stage, grouping) -> None:
    """The compiled run of a grouping is the plain one."""
    fast, slow = run(stage, grouping), plain(stage, grouping, 5_000.0)
    assert type(grouping) in COMPILED
    np.testing.assert_array_equal(fast.assigned, slow.assigned)
    np.testing.assert_array_equal(fast.completion_ms, slow.completion_ms)
    for told in ("grouping", "messages", "left_round_robin", "first_run"):
        assert getattr(fast, told) == getattr(slow, told)
    np.testing.assert_array_equal(fast.matrices, slow.matrices)


@settings(max_examples=20)
@given(SEEDS, st.sampled_from(sorted(READINGS)), st.integers(1, 12), st.sampled_from([0.0, 0.3, 10.0]), st.integers(1, 60))
@example(8610466, "a", 5, 0.3, 30)
def test_a_compiled_run_is_what_the_two_machines_do(seed, reading, window, tolerance, patience):
    stage = small_stage(seed)
    options = {"reading": reading, "rows": 2, "columns": 5, "window": window, "tolerance": tolerance, "patience": patience}
    agree(stage, POSG(stage.instances, **options))


@settings(max_examples=20)
@given(SEEDS, SWITCHES, st.sampled_from([2, 8, 30]))
@example(2147384831, TIED, 2)
def test_a_compiled_run_is_what_the_default_scheduler_and_its_instances_do(seed, switches, window):
    stage = small_stage(seed)
    latency_ms = None if switches["latency_ms"] is None else np.arange(stage.instances) * UNIT_MS
    agree(stage, VirtualFinish(stage.instances, **{**switches, "latency_ms": latency_ms}, rows=2, columns=12, window=window))


def parts(stage: Stage, seed: int, schedulers: int) -> Stage:
    """The same stage, whose tuples arrive at several schedulers."""
    work = stage.work
    sources = np.random.default_rng(seed).integers(0, schedulers, stage.keys.size)
    sources[:schedulers] = np.arange(schedulers)
    return Stage.of(
        stage.keys,
        work.costs_ms,
        work.arrivals_ms,
        instances=stage.instances,
        multipliers=work.multipliers,
        period_starts=work.period_starts,
        tuple_latency_ms=work.tuple_latency_ms,
        control_latency_ms=work.control_latency_ms,
        sources=sources,
    )


@settings(max_examples=25)
@given(SEEDS, st.sampled_from(sorted(READINGS)), st.integers(1, 12), st.integers(2, 3))
@example(2012474466, "cp", 1, 2)
def test_several_schedulers_hear_what_concerns_them(seed, reading, window, count):
    """An instance of POSG answers the scheduler that asked, and sends its matrices to all."""
    stage = parts(small_stage(seed), seed, count)
    agree(stage, POSG(stage.instances, reading=reading, rows=2, columns=5, window=window, tolerance=0.3, patience=40))


@settings(max_examples=25)
@given(SEEDS, SWITCHES, st.sampled_from([2, 8, 30]), st.integers(2, 3))
def test_several_default_schedulers_are_corrected_each_for_itself(seed, switches, window, count):
    stage = parts(small_stage(seed), seed, count)
    latency_ms = None if switches["latency_ms"] is None else np.arange(stage.instances) * UNIT_MS
    agree(stage, VirtualFinish(stage.instances, **{**switches, "latency_ms": latency_ms}, rows=2, columns=12, window=window))


@given(SEEDS, SWITCHES, st.integers(1, 3))
def test_many_tuples_at_once_are_the_same_as_one_after_the_other(seed, switches, count):
    rng = np.random.default_rng(seed)
    scheduler = VirtualFinish(2, **{**switches, "latency_ms": None}, schedulers=count, rows=2, columns=12, window=8)
    keys, costs, ends = rng.integers(0, 30, 80), rng.integers(0, 9, 80) * 1.0, np.cumsum(rng.integers(0, 9, 80)) * 1.0
    tickets = np.stack([ends + rng.integers(-9, 9, 80), np.zeros(80), costs + 1.0], axis=1)
    tickets[:9, 0] = np.nan
    sources = rng.integers(0, count, 80)
    at_once = scheduler.instance(0).execute(keys, costs, ends, tickets, sources)
    one = scheduler.instance(0)
    each = [m for j in range(80) for m in one.execute(keys[j : j + 1], costs[j], ends[j], tickets[j], sources[j])]
    assert len(at_once) == len(each) > 0
    for together, alone in zip(at_once, each, strict=True):
        assert type(together) is type(alone)
        for name in vars(alone):
            np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


@given(SEEDS, st.sampled_from(sorted(READINGS)), st.integers(1, 9), st.sets(st.integers(0, 39), max_size=5))
def test_many_tuples_at_once_are_the_same_to_an_instance_of_posg(seed, reading, window, asked):
    rng = np.random.default_rng(seed)
    keys, costs, ends = rng.integers(0, 9, 40), rng.integers(0, 9, 40) * 1.0, np.cumsum(rng.integers(0, 9, 40)) * 1.0
    requests = [(place, SyncRequest(place + 1, float(place))) for place in sorted(asked)]
    scheduler = POSG(2, reading=reading, rows=2, columns=5, window=window, tolerance=0.4)
    at_once = scheduler.instance(1).execute(keys, costs, ends, requests)
    one = scheduler.instance(1)
    each = [
        message
        for j in range(40)
        for message in one.execute(keys[j : j + 1], costs[j], ends[j], [(0, r) for place, r in requests if place == j])
    ]
    assert [type(message) for message in at_once] == [type(message) for message in each]
    for together, alone in zip(at_once, each, strict=True):
        for name in vars(alone):
            np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


class Faulty:
    """A channel that loses, doubles and holds back messages, by a seed."""

    def __init__(self, seed: int, deliver) -> None:
        self.rng, self.deliver, self.held = random.Random(seed), deliver, []

    def send(self, message) -> None:
        self.held.extend([message] * self.rng.choice([0, 1, 1, 2]))
        self.rng.shuffle(self.held)
        while self.held and self.rng.random() < 0.6:
            self.deliver(self.held.pop())


@given(SEEDS, st.sampled_from(sorted(READINGS)), st.integers(1, 4), st.integers(-1, 3))
def test_posg_is_never_stuck_whatever_happens_to_messages(seed, reading, k, silent):
    """Faults for 1,500 tuples, with an instance that may never speak; then a good channel leads to RUN."""
    scheduler = POSG(k, reading=reading, rows=2, columns=5, window=4, tolerance=0.5, patience=50)
    instances = [scheduler.instance(i) for i in range(k)]
    rng = np.random.default_rng(seed)
    channel = Faulty(seed, scheduler.receive)
    reached = set()
    lasted = 0
    for j in range(2_000):
        before = scheduler.state, scheduler.epoch
        keys = rng.integers(0, 9, 1)
        chosen = int(scheduler.route(keys, 0.0)[0])
        assert 0 <= chosen < k
        for message in instances[chosen].execute(keys, float(keys[0]), float(j), scheduler.requests):
            if j >= 1_500:
                scheduler.receive(message)
            elif chosen != silent:
                channel.send(message)
        lasted = lasted + 1 if (scheduler.state, scheduler.epoch) == before else 0
        waits = scheduler.state is PosgState.WAIT_ALL
        assert not waits or lasted <= 50, "a reply is awaited for ever"
        if j >= 1_500:
            reached.add(scheduler.state)
    assert scheduler.state is not PosgState.ROUND_ROBIN
    assert PosgState.RUN in reached
    assert np.isfinite(scheduler.sent_ms).all()


@example(1219, {"pooled": False, "estimator": "table", "first_report": 4, "theta": 0.0, "speeds": False, "floored": True}, 4, 1)
@given(SEEDS, SWITCHES, st.integers(1, 4), st.integers(-1, 3))
def test_the_default_scheduler_always_has_an_instance_whatever_happens_to_messages(seed, switches, k, silent):
    scheduler = VirtualFinish(k, **{**switches, "latency_ms": None}, rows=2, columns=12, window=8)
    instances = [scheduler.instance(i) for i in range(k)]
    rng = np.random.default_rng(seed)
    channel = Faulty(seed, scheduler.receive)
    for j in range(600):
        keys = rng.integers(0, 50, 1)
        now_ms = float(j) if j % 10 else float(rng.integers(-100, j + 1))  # a clock that steps back
        chosen = int(scheduler.route_at(keys.view(np.uint64), now_ms)[0])
        assert 0 <= chosen < k
        for message in instances[chosen].execute(keys, float(keys[0]), now_ms + float(keys[0]), scheduler.tickets[0]):
            if chosen != silent:
                channel.send(message)
    assert np.isfinite(scheduler.finish_ms).all()
    assert (scheduler.speeds > 0.0).all()


@given(SEEDS, st.integers(1, 60))
def test_the_table_of_heavy_keys_is_exact_for_keys_it_never_let_go(seed, distinct):
    """The cost of a key in the table is a mean of its own costs, and totals are of all tuples."""
    rng = np.random.default_rng(seed)
    cost_of = rng.integers(1, 50, distinct).astype(float)
    scheduler = VirtualFinish(2, window=10_000, first_report=500)
    instance = scheduler.instance(0)
    keys = rng.integers(0, distinct, 500)
    said = [instance.execute([key], cost_of[key], 0.0, np.array([np.nan, 0.0, 0.0])) for key in keys]
    (report,) = said[-1]
    assert said[:-1] == [[]] * 499
    held = report.table[:, kernels.SEEN] > 0
    assert len(set(report.keys[held].tolist())) == held.sum() <= 108
    means = report.table[held, kernels.COST] / report.table[held, kernels.SEEN]
    np.testing.assert_allclose(means, cost_of[report.keys[held].astype(int)])
    assert report.sums[kernels.TOTAL] == cost_of[keys].sum()
    assert instance.memory_bytes <= 2 * 4 * 54 * 8 + 10 * 8
