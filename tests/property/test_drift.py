"""Forgetting, detecting and mending: every promise of `evenly.keys.drift` and of DKG's half-life."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.errors import InvalidParameter
from evenly.keys.dkg import DKG
from evenly.keys.drift import detect, rebuild
from evenly.measures import imbalance_pct, instance_loads
from evenly.streams import zipf


def drifted(seed, *, instances=6, half_life=5_000.0):
    """A mapping for one stream, and a learner that has since seen another with other heavy keys."""
    learner = DKG.automatic(instances, seed=seed, half_life=half_life)
    learner.fit(zipf(1.0, 2_000).draw(20_000, seed=seed))
    mapping = learner.mapping()
    recent = zipf(1.0, 2_000).draw(20_000, seed=seed + 1)
    return learner.fit(recent), mapping, recent


@given(st.integers(1, 400), st.floats(1.0, 200.0))
def test_a_tuple_weighs_half_after_a_half_life(tuples, half_life):
    learner = DKG(2, theta=0.01, half_life=half_life).fit(np.array([7])).fit(np.full(tuples, 8))
    expected = [0.5 ** (tuples / half_life), sum(0.5 ** (age / half_life) for age in range(tuples))]
    assert learner.guaranteed(np.array([7, 8], np.uint64)) == pytest.approx(expected)
    assert learner.total == pytest.approx(sum(expected))


@given(st.lists(st.integers(0, 5_000), max_size=5), st.sampled_from([1.0, 3.0, 70.0, 1e6]))
def test_forgetting_does_not_depend_on_how_the_stream_is_cut(cuts, half_life):
    keys = zipf(1.0, 300).draw(5_000, seed=9)
    cut = DKG(4, half_life=half_life)
    for part in np.split(keys, sorted(cuts)):
        cut.fit(part)
    assert cut.to_bytes() == DKG(4, half_life=half_life).fit(keys).to_bytes()


def test_a_forgetting_learner_goes_on_after_it_is_saved_and_merges_at_its_own_age():
    keys = zipf(1.0, 300).draw(6_000, seed=9)
    learner = DKG(4, half_life=100.0).fit(keys[:3_000])
    again = DKG.from_bytes(learner.to_bytes())
    assert again.fit(keys[3_000:]).mapping() == learner.fit(keys[3_000:]).mapping()
    other = DKG(4, half_life=100.0).fit(np.full(50, 7))
    together = learner.total + other.total
    assert learner.merge(other).total == pytest.approx(together)


@pytest.mark.parametrize("half_life", [0.0, 0.5, -1.0, np.inf, np.nan])
def test_a_half_life_out_of_range_is_refused(half_life):
    with pytest.raises(InvalidParameter, match=str(half_life)):
        DKG(4, half_life=half_life)


def test_a_stable_stream_needs_no_rebuild_and_a_changed_one_does():
    learner, mapping, _ = drifted(1)
    assert detect(learner, mapping).rebuild
    assert not detect(learner, learner.mapping()).rebuild


def test_the_estimate_of_the_mapping_in_force_is_near_what_recent_tuples_meet():
    learner, mapping, recent = drifted(2, half_life=3_000.0)
    met = imbalance_pct(instance_loads(mapping.assign(recent[-10_000:]), mapping.instances))
    assert detect(learner, mapping).now_pct == pytest.approx(met, abs=12.0)


@given(st.integers(0, 30), st.sampled_from([0.0, 0.5, 2.0, 5.0, 30.0, 100.0]))
def test_a_rebuild_keeps_its_budget_and_lists_every_key_that_moves(seed, budget):
    learner, mapping, recent = drifted(seed)
    renewed = rebuild(learner, mapping, budget_pct=budget)
    assert renewed.moved_load_pct <= budget + 1e-9
    assert renewed.moved_load_pct == pytest.approx(100.0 * sum(move.load for move in renewed.moves) / learner.total)
    assert renewed.mapping.version == mapping.version + 1

    keys = np.unique(recent)
    ids = keys.view(np.uint64)
    before, after = mapping.assign(keys), renewed.mapping.assign(keys)
    moved_keys = {move.item: move.target for move in renewed.moves if move.kind == "key"}
    moved_buckets = {move.item: move.target for move in renewed.moves if move.kind == "bucket"}
    own = set(renewed.mapping.heavy_keys.tolist()) | set(mapping.heavy_keys.tolist())
    for key, bucket, old, new in zip(ids.tolist(), learner.buckets_of(ids).tolist(), before, after, strict=True):
        expected = moved_keys.get(key, old) if key in own else moved_buckets.get(bucket, old)
        assert new == expected


@given(st.integers(0, 30))
def test_a_rebuild_mends_most_of_the_imbalance(seed):
    learner, mapping, recent = drifted(seed)
    renewed = rebuild(learner, mapping, budget_pct=100.0)
    before = imbalance_pct(instance_loads(mapping.assign(recent[-8_000:]), mapping.instances))
    after = imbalance_pct(instance_loads(renewed.mapping.assign(recent[-8_000:]), mapping.instances))
    assert renewed.mapping.fitted_imbalance_pct <= detect(learner, mapping).now_pct + 1e-9
    assert after < max(8.0, 0.6 * before)


def test_rebuilding_what_is_balanced_moves_nothing():
    learner = DKG.automatic(4).fit(zipf(0.5, 2_000).draw(50_000, seed=3))
    assert rebuild(learner, learner.mapping()).moves == ()


def test_a_learner_with_other_buckets_is_refused():
    learner, mapping, _ = drifted(1)
    for other in (DKG.automatic(6, seed=99), DKG(6)):
        with pytest.raises(InvalidParameter, match="buckets"):
            rebuild(other, mapping)
    for bad in ({"budget_pct": -1.0}, {"budget_pct": 101.0}, {"slack_pct": -0.5}):
        with pytest.raises(InvalidParameter, match=str(next(iter(bad.values())))):
            rebuild(learner, mapping, **bad)
    with pytest.raises(InvalidParameter, match="nan"):
        detect(learner, mapping, threshold_pct=float("nan"))
