"""Shuffle schedulers: the contract, the baselines' rules, and what each gains in the POSG paper's setting.

Gains are of 12 streams where `facts` used 100: a tolerance is 3 standard errors of a mean of 12, and the errors are
those that 100 streams showed.
"""

from __future__ import annotations

import numpy as np
import pytest

from evenly.costs.base import ReactiveGrouping, ShuffleGrouping
from evenly.errors import InvalidCost, InvalidParameter
from evenly.lab.rivals.shuffle.full_knowledge import FullKnowledge
from evenly.lab.rivals.shuffle.least_work import LeastWork
from evenly.lab.rivals.shuffle.posg import POSG
from evenly.lab.rivals.shuffle.random_choice import RandomChoice
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.rivals.shuffle.shortest_queue import ShortestQueue
from evenly.lab.rivals.shuffle.two_choices import TwoChoices
from evenly.lab.rivals.shuffle.virtual_finish import VirtualFinish
from evenly.lab.simulation.queueing import Stage, constant_arrivals, gap_for, run
from evenly.measures.completion import speedup
from evenly.streams import spread_costs, uniform, zipf
from evenly.testing import check_shuffle_grouping

RUNS = 12
ZIPF = zipf(1.0, 4096)
ALL = {
    "random": lambda: RandomChoice(4, seed=2),
    "two-choices": lambda: TwoChoices(4, seed=2),
    "shortest-queue": lambda: ShortestQueue(4),
    "full-knowledge": lambda: FullKnowledge(4, cost_ms=lambda keys: np.asarray(keys) % 7.0),
    "least-work": lambda: LeastWork(4, cost_ms=lambda keys: np.asarray(keys) % 7.0),
    "posg-cp": lambda: POSG(4),
    "posg-a": lambda: POSG(4, reading="a"),
    "evenly": lambda: VirtualFinish(4),
}


def paper_stage(stream, seed, *, k=5, provisioned_pct=100.0, **options):
    """The paper's default: 32,768 tuples of 4,096 keys, 64 costs from 1 to 64 ms."""
    ranks = stream.draw_ranks(32_768, np.random.default_rng(seed))
    costs = spread_costs(stream.n, seed=seed + 10**6)[ranks]
    arrivals = constant_arrivals(ranks.size, gap_for(costs, k, provisioned_pct=provisioned_pct))
    return Stage.of(ranks, costs, arrivals, instances=k, **options)


def gains(stream, make, *, runs=RUNS, k=5, **options):
    """S_L and messages in every run."""
    out = []
    for seed in range(runs):
        stage = paper_stage(stream, seed, k=k, **options)
        outcome = run(stage, make(seed))
        out.append((speedup(run(stage, RoundRobin(k)).completion_ms, outcome.completion_ms), outcome.messages))
    return np.array(out).T


@pytest.mark.parametrize("name", ALL)
def test_contract(name):
    check_shuffle_grouping(ALL[name])
    grouping = ALL[name]()
    assert grouping.name == name
    assert isinstance(grouping, ShuffleGrouping)
    if name in {"random", "two-choices", "shortest-queue"}:
        assert isinstance(grouping, ReactiveGrouping)


@pytest.mark.parametrize(
    ("reading", "published", "error"), [("a", 0.99, 0.007), ("b", 1.04, 0.006), ("c", 1.08, 0.013), ("cp", 1.17, 0.012)]
)
def test_readings_of_posg_gain_what_the_reproduction_found(reading, published, error):
    gained, messages = gains(ZIPF, lambda seed: POSG(5, reading=reading, seed=seed))
    assert abs(gained.mean() - published) < 3 * error * np.sqrt(100 / RUNS) + 0.01
    assert messages.mean() < 80


@pytest.mark.parametrize(
    ("stream", "provisioned_pct", "wanted", "error"),
    [(ZIPF, 100.0, 2.08, 0.043), (ZIPF, 102.0, 2.32, 0.05), (ZIPF, 105.0, 1.77, 0.03), (uniform(4096), 100.0, 2.03, 0.037)],
)
def test_the_default_scheduler_nearly_reaches_least_work(stream, provisioned_pct, wanted, error):
    gained, messages = gains(stream, lambda _: VirtualFinish(5), provisioned_pct=provisioned_pct)
    assert gained.mean() > wanted - 3 * error * np.sqrt(100 / RUNS)
    assert gained.min() > 1.0
    assert messages.mean() < (330 if stream is ZIPF else 700)


def test_each_part_of_the_default_scheduler_has_its_share():
    whole = gains(ZIPF, lambda _: VirtualFinish(5))[0].mean()
    assert gains(ZIPF, lambda _: VirtualFinish(5, theta=None))[0].mean() < whole - 0.3, "no corrections"
    assert gains(ZIPF, lambda _: VirtualFinish(5, first_report=1024))[0].mean() < whole - 0.2, "no early reports"
    assert gains(ZIPF, lambda _: VirtualFinish(5, pooled=False))[0].mean() < whole, "each instance for itself"
    few = gains(ZIPF, lambda _: VirtualFinish(5))[1].mean()
    assert gains(ZIPF, lambda _: VirtualFinish(5, estimator="matrices"))[1].mean() > few, "matrices need more corrections"


def test_late_messages_cost_the_default_scheduler_little():
    gained = gains(ZIPF, lambda _: VirtualFinish(5))[0].mean()
    assert gains(ZIPF, lambda _: VirtualFinish(5), control_latency_ms=100.0)[0].mean() > 0.95 * gained


@pytest.mark.parametrize("make", [POSG, VirtualFinish, ShortestQueue])
def test_one_instance_gains_and_loses_nothing(make):
    assert gains(ZIPF, lambda _: make(1), runs=1, k=1)[0].tolist() == [1.0]


def test_ten_instances_still_gain():
    assert gains(ZIPF, lambda _: VirtualFinish(10), k=10)[0].mean() > 1.9


def test_instances_that_change_speed_as_in_figure_10():
    """Full knowledge of the backlog gains about 22, POSG 6: the default scheduler must be near the former."""
    ranks = ZIPF.draw_ranks(150_000, np.random.default_rng(1))
    costs = spread_costs(ZIPF.n, seed=1)[ranks]
    arrivals = constant_arrivals(ranks.size, gap_for(costs, 5))
    multipliers = [[1.05, 1.025, 1.0, 0.975, 0.95], [0.90, 0.95, 1.0, 1.05, 1.10]]
    stage = Stage.of(ranks, costs, arrivals, instances=5, multipliers=multipliers, period_starts=[0, 75_000])
    before = run(stage, RoundRobin(5)).completion_ms
    posg = run(stage, POSG(5, reading="c"))
    gained = {
        grouping.name: speedup(before, run(stage, grouping).completion_ms)
        for grouping in (VirtualFinish(5), LeastWork(5, cost_ms=np.asarray))
    }
    assert 10_556 - 400 <= posg.left_round_robin <= 10_998 + 400
    assert gained["evenly"] > speedup(before, posg.completion_ms)
    assert gained["evenly"] > 0.6 * gained["least-work"]


def test_a_far_instance_gets_less_if_its_distance_is_in_the_load_model():
    far = [0.0, 0.0, 0.0, 0.0, 400.0]
    stage = paper_stage(ZIPF, 1, provisioned_pct=130.0, tuple_latency_ms=far)
    blind = run(stage, VirtualFinish(5, theta=None))
    seeing = run(stage, VirtualFinish(5, theta=None, latency_ms=far))
    assert (seeing.assigned == 4).sum() < (blind.assigned == 4).sum()
    assert seeing.completion_ms_mean < blind.completion_ms_mean


def test_shortest_queue_and_two_choices_by_the_obvious_loop():
    for grouping in (ShortestQueue(4), TwoChoices(4, seed=9)):
        candidates = type(grouping)(4, **({"seed": 9} if isinstance(grouping, TwoChoices) else {})).candidates(200)
        waiting = [0] * 4
        for j in range(200):
            wanted = min(candidates[j], key=lambda instance: waiting[instance])
            assert grouping.route([j], 0.0).tolist() == [wanted]
            waiting[wanted] += 1
            if j % 3:
                grouping.acknowledge(j % 4)
                waiting[j % 4] = max(0, waiting[j % 4] - 1)
    assert (candidates[:, 0] != candidates[:, 1]).all()
    with pytest.raises(InvalidParameter):
        grouping.acknowledge(4)


def test_random_shares_are_equal():
    counts = np.bincount(RandomChoice(5, seed=1).route(range(50_000), 0.0))
    assert abs(counts - 10_000).max() < 4 * np.sqrt(50_000 * 0.2 * 0.8)


def test_full_knowledge_keeps_the_sums_of_work_within_one_cost():
    costs = np.random.default_rng(1).integers(1, 30, 1_000).astype(float)
    sent = FullKnowledge(7, cost_ms=np.asarray).route(costs, 0.0)
    loads = np.bincount(sent, costs, 7)
    assert loads.max() - loads.min() <= 29.0


@pytest.mark.parametrize("bad", [[-1.0], [np.nan], [np.inf], [[1.0, 2.0, 3.0]]])
def test_oracles_that_tell_nonsense_are_refused(bad):
    for make in (FullKnowledge, LeastWork):
        with pytest.raises(InvalidCost):
            make(2, cost_ms=lambda _: np.array(bad)).route([1], 0.0)
    for make in (RandomChoice, ShortestQueue, TwoChoices):
        with pytest.raises(InvalidParameter):
            make(0)
