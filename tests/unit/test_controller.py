"""When the controller changes a mapping, and when it leaves it alone."""

import numpy as np
import pytest

from evenly.errors import InvalidParameter
from evenly.keys.controller import BatchLoad, DriftController
from evenly.keys.dkg import DKG, KeyCounts
from evenly.measures import imbalance_pct, instance_loads

INSTANCES = 4


def ids_of(weights, rows, seed):
    """A batch of rows whose keys 0, 1, 2, … have these weights, as ids that are hashes."""
    rng = np.random.default_rng(seed)
    shares = np.asarray(weights, float)
    keys = rng.choice(shares.size, size=rows, p=shares / shares.sum()).astype(np.uint64)
    return (keys + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)


def counts_of(ids):
    learner = DKG.automatic(INSTANCES, ids="xxhash64")
    keys, counts = np.unique(ids, return_counts=True)
    buckets = np.bincount(learner.buckets_of(ids), minlength=learner.bucket_count).astype(float)
    return KeyCounts(buckets, keys, counts.astype(float))


def load_of(mapping, ids):
    return BatchLoad(instance_loads(mapping.assign_ids(ids), INSTANCES), counts_of(ids))


def learnt(ids):
    return DKG.automatic(INSTANCES, ids="xxhash64").fit_ids(ids).mapping()


STEADY = 1.0 / np.arange(1, 501)
TURNED = STEADY[::-1]


def follow(controller, weights, batches, *, seed=0, rows=20_000, change=True):
    """What the controller decides, batch by batch; a change comes into force at once."""
    decisions = []
    for number in range(batches):
        decision = controller.observe(load_of(controller.mapping, ids_of(weights, rows, seed + number)))
        decisions.append(decision)
        if decision.mapping is not None and change:
            controller.changed(decision.mapping, expected_pct=decision.expected_pct)
    return decisions


def changes(decisions):
    return [decision for decision in decisions if decision.mapping is not None]


def test_a_steady_stream_is_left_alone():
    controller = DriftController(learnt(ids_of(STEADY, 50_000, 99)))
    assert changes(follow(controller, STEADY, 30)) == []


def test_a_stream_that_turns_is_mended_within_the_budget():
    first = learnt(ids_of(STEADY, 50_000, 99))
    controller = DriftController(first, budget_pct=20.0)
    follow(controller, STEADY, 5)
    decisions = changes(follow(controller, TURNED, 25, seed=50))
    assert decisions
    assert all(0.0 < decision.moved_load_pct <= 20.0 for decision in decisions)
    assert all(decision.expected_pct < decision.now_pct for decision in decisions)
    ids = ids_of(TURNED, 50_000, 7)
    before = imbalance_pct(instance_loads(first.assign_ids(ids), INSTANCES))
    after = imbalance_pct(instance_loads(controller.mapping.assign_ids(ids), INSTANCES))
    assert before > 15.0
    assert after < 6.0
    assert controller.mapping.version == 1 + len(decisions)


def test_a_mapping_made_without_rows_is_replaced_whatever_the_budget():
    controller = DriftController(DKG.automatic(INSTANCES, ids="xxhash64").mapping(), budget_pct=1.0)
    decisions = changes(follow(controller, STEADY, 12))
    assert len(decisions) == 1
    assert decisions[0].moved_load_pct > 1.0


def test_nothing_is_decided_before_the_second_batch_or_on_a_few_rows():
    unlearnt = DKG.automatic(INSTANCES, ids="xxhash64").mapping()
    eager = DriftController(unlearnt, patience=1)
    assert changes(follow(eager, STEADY, 1)) == [], "no candidate is judged by what it was learnt from"
    assert changes(follow(eager, STEADY, 1))
    patient = DriftController(unlearnt, patience=2)
    assert changes(follow(patient, STEADY, 2)) == []
    assert changes(follow(patient, STEADY, 1))
    few = DriftController(unlearnt)
    assert changes(follow(few, STEADY, 10, rows=20)) == []


def test_a_key_too_heavy_for_any_mapping_does_not_make_it_flap():
    weights = np.concatenate([[600.0], np.ones(400)])
    controller = DriftController(learnt(ids_of(weights, 50_000, 99)))
    assert changes(follow(controller, weights, 40)) == []


def shuffled(seed):
    return np.random.default_rng(seed).permutation(STEADY)


def test_changes_that_bring_nothing_become_rare_and_come_again_when_they_do():
    """A stream that turns around after every change is never mended by one, until it stays as it is."""
    controller = DriftController(learnt(ids_of(STEADY, 50_000, 99)), budget_pct=100.0)
    at, turns = [], 1
    for number in range(130):
        decision = controller.observe(load_of(controller.mapping, ids_of(shuffled(turns), 10_000, number)))
        if decision.mapping is not None:
            controller.changed(decision.mapping, expected_pct=decision.expected_pct)
            at.append(number)
            turns += number < 70
    assert 2 <= len([number for number in at if number < 70]) <= 12
    assert [number for number in at if 70 <= number < 130]
    ids = ids_of(shuffled(turns), 50_000, 7)
    assert imbalance_pct(instance_loads(controller.mapping.assign_ids(ids), INSTANCES)) < 8.0


def test_a_refused_change_is_not_asked_for_again_at_once():
    controller = DriftController(DKG.automatic(INSTANCES, ids="xxhash64").mapping(), patience=2)
    assert follow(controller, STEADY, 3, change=False)[-1].mapping is not None
    controller.refused()
    assert changes(follow(controller, STEADY, 4, change=False)) == []
    assert changes(follow(controller, STEADY, 3, change=False))


def test_rows_under_older_mappings_teach_but_do_not_judge():
    controller = DriftController(DKG.automatic(INSTANCES, ids="xxhash64").mapping())
    for number in range(10):
        decision = controller.observe(BatchLoad(np.zeros(INSTANCES), counts_of(ids_of(STEADY, 4_000, number))))
        assert decision.mapping is None
    assert changes(follow(controller, STEADY, 3))


def test_the_same_batches_give_the_same_decisions():
    first, second = (follow(DriftController(learnt(ids_of(STEADY, 9_000, 1))), TURNED, 8) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"threshold_pct": 0.0}, "threshold_pct"),
        ({"budget_pct": 101.0}, "budget_pct"),
        ({"patience": 0}, "patience"),
        ({"move_s": -1.0}, "move_s"),
    ],
)
def test_parameters_out_of_range_are_refused(options, word):
    with pytest.raises(InvalidParameter, match=word):
        DriftController(learnt(ids_of(STEADY, 1_000, 1)), **options)


def test_a_mapping_of_other_buckets_and_loads_of_other_instances_are_refused():
    other = DKG(INSTANCES, ids="xxhash64").mapping()
    with pytest.raises(InvalidParameter, match="buckets"):
        DriftController(other)
    controller = DriftController(learnt(ids_of(STEADY, 1_000, 1)))
    with pytest.raises(InvalidParameter, match="3 loads came for 4"):
        controller.observe(BatchLoad(np.ones(3), counts_of(ids_of(STEADY, 10, 1))))


@pytest.mark.parametrize("threshold_pct", [0.5, 5.0, 1e9, float("inf")])
def test_odd_batches_are_taken_in(threshold_pct):
    """Of no rows, of one key, of keys that are not told, of very different sizes."""
    controller = DriftController(learnt(ids_of(STEADY, 5_000, 1)), threshold_pct=threshold_pct)
    nothing = KeyCounts(np.zeros(controller.learner.bucket_count), np.zeros(0, np.uint64), np.zeros(0))
    one = np.full(30_000, 7, np.uint64)
    untold = KeyCounts(counts_of(one).buckets, nothing.ids, nothing.counts)
    for number in range(12):
        rows = load_of(controller.mapping, ids_of(STEADY, 10 ** (1 + number % 5), number))
        for batch in (BatchLoad(np.zeros(INSTANCES), nothing), rows, load_of(controller.mapping, one), rows):
            assert np.isfinite(controller.observe(batch).expected_pct)
        loads = instance_loads(controller.mapping.assign_ids(one), INSTANCES)
        assert controller.observe(BatchLoad(loads, untold, 0.0)).now_pct >= 0.0
    controller.changed(controller.mapping)
    controller.moved(0.0)
    assert controller.kept_pct is None


def test_one_instance_has_nothing_to_balance():
    ids = ids_of(STEADY, 5_000, 1)
    learner = DKG.automatic(1, ids="xxhash64").fit_ids(ids)
    controller = DriftController(learner.mapping())
    buckets = np.bincount(learner.buckets_of(ids), minlength=learner.bucket_count).astype(float)
    counts = KeyCounts(buckets, np.unique(ids), np.unique(ids, return_counts=True)[1].astype(float))
    for _ in range(10):
        assert controller.observe(BatchLoad(np.array([5_000.0]), counts)).mapping is None
