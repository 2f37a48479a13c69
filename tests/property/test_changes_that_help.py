"""What the drift controller rests on: λ of any mapping from what is told of a batch, bursts, chance, promises; and all."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenly.errors import DamagedData, InvalidParameter, NewerFormat
from evenly.keys.controller import BatchLoad, DriftController
from evenly.keys.dkg import DKG, KeyCounts
from evenly.keys.promises import MOST_CHANGES, MOST_MOVES, Outcome, Promises
from evenly.keys.stretches import Stretch, chance_pct, sample_for, steady_counts
from evenly.keys.told import Told
from evenly.lab.simulation.controlled import AFTER, KeyedBatch, controlled, learnt_from
from evenly.measures import imbalance_pct
from evenly.sealed import sealed

KEYS = 2_000
IDS = (np.arange(KEYS, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
ZIPF = 1.0 / np.arange(1, KEYS + 1)


def batch(shares, rows, rng):
    drawn = rng.multinomial(rows, shares / shares.sum())
    return KeyedBatch(IDS[drawn > 0], drawn[drawn > 0].astype(float))


def stream(shares_of, batches, *, rows=20_000, seed=0):
    rng = np.random.default_rng(seed)
    return [batch(shares_of(number), rows, rng) for number in range(batches)]


def all_told(keyed, learner):
    buckets = np.bincount(learner.buckets_of(keyed.ids), keyed.counts, learner.bucket_count)
    return KeyCounts(buckets, keyed.ids, keyed.counts)


def with_heavy(share, since, until=10**9):
    """Zipf keys, and of batches since … to before until one more with this share of all rows."""
    heavy = ZIPF.copy()
    heavy[-1] = ZIPF.sum() * share / (1.0 - share)
    return lambda number: heavy if since <= number < until else ZIPF


@given(st.integers(0, 10**6), st.sampled_from([2, 5, 16]))
def test_λ_of_a_mapping_that_did_not_place_the_rows_is_known(seed, instances):  # noqa: PLC2401 - the measure's name
    rng = np.random.default_rng(seed)
    learner = DKG.automatic(instances, ids="xxhash64")
    one, other = batch(ZIPF, 3_000, rng), batch(rng.permutation(ZIPF), 2_000, rng)
    for mapping in (learner.mapping(), learnt_from([one], instances), learnt_from([other], instances)):
        stretch = Stretch(all_told(other, learner))
        assert stretch.imbalance_pct(mapping) == pytest.approx(other.imbalance_pct(mapping))
        both = Stretch(all_told(one, learner), 1, 2.0).with_next(Stretch(all_told(other, learner), 1, 3.0))
        exact = imbalance_pct(one.loads(mapping) + other.loads(mapping))
        assert both.imbalance_pct(mapping) == pytest.approx(exact)
        assert (both.rows, both.batches, both.seconds) == (5_000, 2, 5.0)
    assert Stretch(all_told(one, learner), 1, 2.0).with_next(stretch).seconds is None


@given(st.integers(0, 10**6), st.sampled_from([4, 32, 200]))
def test_what_is_told_of_a_batch_says_λ_nearly(seed, instances):  # noqa: PLC2401 - the measure's name
    rng = np.random.default_rng(seed)
    learner = DKG.automatic(instances, ids="xxhash64")
    keyed = batch(ZIPF, 50_000, rng)
    told = Told.of(learner, instances=instances).counts(keyed.ids, keyed.counts, learner)
    assert told.buckets.sum() == pytest.approx(50_000)
    mapping = learnt_from([batch(rng.permutation(ZIPF), 50_000, rng)], instances)
    assert Stretch(told).imbalance_pct(mapping) == pytest.approx(keyed.imbalance_pct(mapping), rel=0.2, abs=2.0)


@given(st.lists(st.integers(0, 400), min_size=3, max_size=8), st.integers(100, 20_000))
def test_a_key_that_comes_and_goes_counts_for_its_median_and_others_for_what_they_have(rows, steady):
    learner = DKG.automatic(4, ids="xxhash64")
    ids = np.array([10, 11, 12], np.uint64)
    stretches = []
    for burst in rows:
        counts = np.array([burst, steady, 50_000 - burst - steady], float)
        stretches.append(Stretch(KeyCounts(np.bincount(learner.buckets_of(ids), counts, learner.bucket_count), ids, counts)))
    found = steady_counts(stretches, learner)
    weights = dict(zip(found.ids.tolist(), found.counts.tolist(), strict=True))
    assert 0.0 <= weights[10] <= sum(rows) + 1e-6
    assert weights[11] == pytest.approx(len(rows) * steady)
    assert found.buckets.min() >= 0.0
    if np.count_nonzero(rows) <= (len(rows) - 1) // 2 and np.mean(rows) > 50.0:
        assert weights[10] == 0.0, "it was there in few of them"
    if len(set(rows)) == 1:
        assert weights[10] == pytest.approx(sum(rows))


def test_a_key_of_which_nothing_is_told_may_have_had_what_the_least_told_one_had():
    """Else a key at the edge of what is told would look as if it came and went."""
    learner = DKG.automatic(4, ids="xxhash64")
    edge, other = np.array([5], np.uint64), np.array([6], np.uint64)
    buckets = np.bincount([5, 6], [900.0, 950.0], learner.bucket_count)
    stretches = [Stretch(KeyCounts(buckets, ids, np.array([900.0]))) for ids in (edge, other, other, other)]
    found = steady_counts(stretches, learner)
    assert found.buckets.sum() == pytest.approx(4 * buckets.sum())


@pytest.mark.parametrize(("instances", "rows"), [(4, 1_000), (8, 20_000), (64, 50_000)])
def test_chance_alone_gives_about_what_is_said_and_a_sample_of_that_size_has_it(instances, rows):
    rng = np.random.default_rng(3)
    seen = [imbalance_pct(rng.multinomial(rows, np.full(instances, 1.0 / instances))) for _ in range(200)]
    assert 0.4 * chance_pct(instances, rows) < np.mean(seen) < chance_pct(instances, rows)
    assert chance_pct(instances, sample_for(instances, 7.0)) == pytest.approx(7.0)


OUTCOMES = st.lists(
    st.tuples(st.sampled_from([2, 8]), st.floats(0.1, 300.0), st.floats(-300.0, 300.0), st.integers(1, 10)), max_size=80
)


@given(OUTCOMES, st.lists(st.floats(0.0, 1e4), max_size=20))
def test_promises_are_bounded_stay_in_range_and_are_read_back(told, moves):
    promises = Promises()
    for span, promised, outcome, age in told:
        promises.tried(span, promised, outcome, age=age)
        promises.changed(Outcome(2, promised, 0.0, 0.0, max(outcome, 0.0), 3), span)
    for seconds in moves:
        promises.moved(seconds)
    assert len(promises.changes) <= MOST_CHANGES
    assert all(0.0 <= promises.trust(span) <= 1.0 for span in (2, 8))
    assert 1.0 <= promises.life <= 200.0
    assert 0.0 <= promises.move_s(5.0) <= 1e4
    again = Promises.from_json(promises.to_json(), source="here")
    assert again.to_json() == promises.to_json()
    assert (again.trust(2), again.life, again.move_s(5.0)) == (promises.trust(2), promises.life, promises.move_s(5.0))


@given(st.lists(st.floats(0.1, 1.0), min_size=60, max_size=60))
def test_promises_that_are_not_kept_are_trusted_less_and_less_and_kept_ones_more(ratios):
    kept, broken = Promises(), Promises()
    for ratio in ratios:
        kept.tried(2, 10.0, 10.0 * max(ratio, 0.6), age=1)
        broken.tried(2, 10.0, -10.0 * ratio, age=1)
    assert broken.trust(2) < Promises().trust(2) < kept.trust(2)
    assert kept.trust(8) == Promises().trust(8), "each way of learning has its own"


def test_how_long_gains_last_is_learnt_and_what_moves_took_too():
    lasting, fading = Promises(), Promises()
    for age in [*range(1, 11)] * 30:
        lasting.tried(2, 10.0, 9.0, age=age)
        fading.tried(2, 10.0, 9.0 if age <= 5 else 1.0, age=age)
    assert fading.life < 5.0 < Promises().life < lasting.life
    assert Promises().move_s(5.0) == 5.0
    for _ in range(MOST_MOVES + 1):
        lasting.moved(1.0)
    assert lasting.move_s(5.0) == pytest.approx(1.0, abs=0.5)


def test_a_record_that_is_damaged_or_of_a_later_release_is_refused():
    text = Promises().to_json()
    for wrong in ("", "{}", text[:-3], text.replace('"young": [0.0', '"young": [1.0')):
        with pytest.raises(DamagedData):
            Promises.from_json(wrong, source="promises.json")
    content = {name: value for name, value in json.loads(text).items() if not name.startswith(("format", "checksum"))}
    for bad in ({"moves_s": ["x"]}, {"trust": {"2": [1.0]}}, {"old": [-1.0, 0.0]}, {"changes": [{}]}, {"young": [1e400, 0.0]}):
        with pytest.raises(DamagedData, match=r"promises\.json"):
            Promises.from_json(sealed({**content, **bad}, kind="evenly.promises", version=1), source="promises.json")
    with pytest.raises(NewerFormat):
        Promises.from_json(sealed(content, kind="evenly.promises", version=2), source="promises.json")


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.sampled_from([2, 4, 8, 32]), st.sampled_from([2_000, 20_000]), st.floats(0.0, 1.3))
def test_a_stream_that_does_not_drift_is_never_changed(seed, instances, rows, alpha):
    found = controlled(stream(lambda _: ZIPF**alpha, 40, rows=rows, seed=seed), instances)
    assert found.changes == ()
    assert found.last == 0


@settings(max_examples=3)
@given(st.integers(0, 10**6))
def test_rows_of_keys_that_never_come_again_are_never_followed(seed):
    """Any mapping fits the rows that it was learnt from, and none fits others."""
    rng = np.random.default_rng(seed)
    batches = [KeyedBatch(rng.integers(1, 2**63, 60).astype(np.uint64), np.full(60, 100.0)) for _ in range(40)]
    assert controlled(batches, 8).changes == ()


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.sampled_from([4, 8]), st.sampled_from([0.05, 0.2]))
def test_a_heavy_key_that_stays_is_followed_soon_and_every_change_helps(seed, instances, share):
    found = controlled(stream(with_heavy(share, 12), 36, seed=seed), instances)
    kept = found.kept_pct[14:].mean()
    if kept - found.kept_pct[:10].mean() > 25.0:
        assert found.changes
        assert 14 <= found.changes[0].batch <= 18
    assert all(change.gain > 0.0 for change in found.changes)


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_a_key_that_comes_in_a_burst_is_left_alone(seed, length):
    assert controlled(stream(with_heavy(0.1, 12, 12 + length), 30, seed=seed), 8).changes == ()


@pytest.mark.parametrize("over", [1, 20])
def test_keys_that_change_places_at_once_or_slowly_are_followed_and_every_change_helps(over):
    turned = np.roll(ZIPF, KEYS // 3)

    def shares(number):
        part = min(1.0, max(0.0, (number - 10) / over))
        return (1.0 - part) * ZIPF + part * turned

    found = controlled(stream(shares, 50, rows=60_000), 8)
    assert found.changes
    assert found.changes[0].batch <= 14 + over
    assert all(change.gain > 0.0 and change.batches == AFTER for change in found.changes)
    assert found.imbalances_pct[-8:].mean() < 0.5 * found.kept_pct[-8:].mean()


def test_a_query_begun_by_hash_is_balanced_at_once():
    found = controlled(stream(lambda _: ZIPF, 20), 8, first=0)
    assert [change.batch for change in found.changes] == [2]
    assert found.changes[0].after_pct < 0.4 * found.changes[0].kept_pct


def test_a_change_must_save_more_than_it_costs():
    batches = stream(with_heavy(0.05, 12), 30)
    assert controlled(batches, 8, batch_s=60.0).changes
    assert controlled(batches, 8, batch_s=0.01).changes == ()


def replayed(batches, promises):
    mapping = learnt_from(batches[:2], 8)
    controller = DriftController(mapping, promises=promises)
    for number, keyed in enumerate(batches[2:], 2):
        decision = controller.observe(BatchLoad(keyed.loads(mapping), all_told(keyed, controller.learner)))
        if decision.mapping is not None:
            return number
    return None


def test_what_was_learnt_of_promises_before_a_restart_counts_after_it():
    batches = stream(with_heavy(0.05, 12), 22)
    kept, broken = Promises(), Promises()
    for age in [*range(1, 11)] * 30:
        kept.tried(2, 10.0, 10.0, age=age)
        for span in (2, 8):
            broken.tried(span, 10.0, 0.0, age=age)
    assert replayed(batches, Promises()) in range(15, 19)
    assert replayed(batches, Promises.from_json(kept.to_json(), source="")) in range(15, 18)
    assert replayed(batches, Promises.from_json(broken.to_json(), source="")) is None


def test_of_no_batches_there_is_nothing_to_replay():
    with pytest.raises(InvalidParameter, match="first"):
        controlled(stream(lambda _: ZIPF, 2), 4)
