"""Contract checks for groupings, emission policies and sketches: ours pass them, and yours can be put to them too.

Each takes a function that makes a fresh object, and raises AssertionError with the broken promise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

import numpy as np

from evenly.costs.base import ReactiveGrouping, ShuffleGrouping
from evenly.emission.policies.base import Backlogs, Emission
from evenly.keys.base import KeyGrouping, SplittingGrouping
from evenly.keys.mapping import Mapping
from evenly.sketches.hashing import Keys, key_ids
from evenly.streams.synthetic import zipf


class Sketch(Protocol):
    """What every sketch can do."""

    def merge(self, other: Self) -> Self: ...

    def to_bytes(self) -> bytes: ...

    @classmethod
    def from_bytes(cls, data: bytes) -> Self: ...


def check_grouping(make: Callable[[], KeyGrouping], *, instances: int = 4) -> None:
    """One key, one instance; every instance in range; saved and read back the same; any cut of the stream the same."""
    keys = zipf(1.0, 500).draw(20_000, seed=1)
    whole = make().fit(keys).mapping(instances)
    cut = make().fit(keys[:7_000]).fit(keys[7_000:]).mapping(instances)
    assigned = whole.assign(keys)

    assert assigned.dtype == np.int32, "assign must give int32"
    assert assigned.size == keys.size, "assign must give one instance per key"
    assert 0 <= assigned.min() <= assigned.max() < instances, "an instance is out of range"
    _check_one_instance_a_key(keys, assigned)
    assert whole == cut, "two calls of fit must learn what one call learns"
    assert make().fit(keys).mapping(instances) == whole, "the same tuples must give the same mapping"
    assert Mapping.from_json(whole.to_json()) == whole, "a mapping must survive being saved"
    unseen = np.arange(10**9, 10**9 + 1_000)
    elsewhere = whole.assign(unseen)
    assert 0 <= elsewhere.min() <= elsewhere.max() < instances, "a key never seen must have an instance too"

    merged = make().fit(keys[:9_000]).merge(make().fit(keys[9_000:])).mapping(instances)
    _check_one_instance_a_key(keys, merged.assign(keys))
    learnt = whole.fitted_loads.sum()
    assert np.isclose(merged.fitted_loads.sum(), learnt), "a merge must hold what both learners have seen"
    assert make().mapping(instances).assign(keys).size == keys.size, "nothing learnt must still route every key"
    assert make().fit(keys).memory_bytes >= 0, "memory_bytes must tell what the learner holds"


def _check_one_instance_a_key(keys: np.ndarray, assigned: np.ndarray) -> None:
    pairs = np.unique(np.stack([keys, assigned]), axis=1).shape[1]
    assert pairs == np.unique(keys).size, "a key went to two instances"


def check_splitting_grouping(make: Callable[[], SplittingGrouping]) -> None:
    """Every instance in range; any cut of the stream the same; only the keys that it names on several instances.

    `make` gives a sender that is ready to route.
    """
    keys = zipf(1.0, 500).draw(20_000, seed=1)
    sender = make()
    whole = sender.route(keys)
    cut = make()
    in_parts = np.concatenate([cut.route(part) for part in np.array_split(keys, 7)])

    assert sender.needs_merge, "a grouping that splits keys must say that a merge is needed"
    _check_instances(whole, keys.size, sender.instances)
    assert np.array_equal(in_parts, whole), "how the stream is cut into calls must not matter"
    assert np.array_equal(make().route(keys), whole), "the same tuples must be sent to the same instances"
    assert cut.route(keys[:0]).size == 0, "no tuples must be sent nowhere"

    split = sender.split_keys()
    if split is not None:
        others = keys[::-1].copy()
        both, sent = np.concatenate([keys, others]), np.concatenate([whole, make().route(others)])
        single = ~np.isin(key_ids(both), split)
        _check_one_instance_a_key(both[single], sent[single])
    before = sender.memory_bytes
    sender.route(np.arange(200_000))
    assert sender.memory_bytes == before, "memory must not grow with the number of keys"


def check_shuffle_grouping(make: Callable[[], ShuffleGrouping]) -> None:
    """Every instance in range; any cut of the stream the same, also after an observation of the queues."""
    keys = zipf(1.0, 500).draw(5_000, seed=1)
    sender, cut, again = make(), make(), make()
    for observed in range(3):
        if observed and isinstance(sender, ReactiveGrouping):
            queued = np.arange(sender.instances) * 7 % 5 * 1_000.0
            for one in (sender, cut, again):
                assert isinstance(one, ReactiveGrouping)
                one.observe(queued)
        now_s = float(observed)
        whole = sender.route(keys, now_s)
        in_parts = np.concatenate([cut.route(part, now_s) for part in np.array_split(keys, 7)])
        _check_instances(whole, keys.size, sender.instances)
        assert np.array_equal(in_parts, whole), "how the stream is cut into calls must not matter"
        assert np.array_equal(again.route(keys, now_s), whole), "the same observations must give the same instances"
    assert sender.route(keys[:0], 3.0).size == 0, "no tuples must be sent nowhere"
    assert sender.memory_bytes == again.memory_bytes >= 0, "memory_bytes must tell what the sender holds"


def _check_instances(sent: np.ndarray, tuples: int, instances: int) -> None:
    assert sent.dtype == np.int32, "route must give int32"
    assert sent.size == tuples, "route must give one instance per tuple"
    assert 0 <= sent.min() <= sent.max() < instances, "an instance is out of range"


def check_sketch(make: Callable[[], Sketch], update: Callable[[Sketch, Keys], None]) -> None:
    """Bytes and back; the same tuples in any cut give the same bytes; a merge with nothing changes nothing."""
    keys = zipf(1.0, 500).draw(10_000, seed=2)
    whole, cut = make(), make()
    update(whole, keys)
    for part in np.array_split(keys, 7):
        update(cut, part)
    saved = whole.to_bytes()
    assert cut.to_bytes() == saved, "how the stream is cut into calls must not matter"
    again = type(whole).from_bytes(saved)
    assert again.to_bytes() == saved, "a sketch must survive being saved"
    update(again, keys)
    update(whole, keys)
    assert again.to_bytes() == whole.to_bytes(), "a sketch read back must go on as the first would"
    first, second = make(), make()
    update(first, keys[:4_000])
    update(second, keys[4_000:])
    alone = first.to_bytes()
    assert first.merge(second).to_bytes() != alone, "a merge must hold what both sketches have seen"
    before = whole.to_bytes()
    assert whole.merge(make()).to_bytes() == before, "merging an empty sketch must change nothing"


def check_emission(make: Callable[[], Emission]) -> None:
    """A queue in range whatever their number; the same backlogs, the same choices; what is shown stays unchanged.

    A policy that calls itself work-conserving must not choose an empty queue while another has tuples.
    """
    rng = np.random.default_rng(1)
    policy, again = make(), make()
    for turn in range(400):
        queues = 1 if turn % 20 == 0 else int(rng.integers(2, 65))
        tuples = rng.integers(0, 50, queues) * (rng.random(queues) < rng.choice([0.0, 0.1, 0.5, 1.0]))
        sizes, heads, speeds = tuples * rng.integers(1, 9, queues), rng.integers(0, 9, queues), rng.choice([1.0, 10.0], queues)
        seen = Backlogs.of(tuples, sizes_bytes=sizes, heads=heads, speeds=speeds)
        before = [array.copy() for array in (seen.tuples, seen.sizes_bytes, seen.heads, seen.speeds) if array is not None]
        chosen = policy.choose(seen)
        assert type(chosen) is int, "choose must give a plain int"
        assert 0 <= chosen < queues, f"queue {chosen} is out of range: there are {queues}"
        assert again.choose(seen) == chosen, "the same backlogs must give the same choices"
        after = [array for array in (seen.tuples, seen.sizes_bytes, seen.heads, seen.speeds) if array is not None]
        assert all(map(np.array_equal, before, after)), "choose must not change what it is shown"
        if policy.work_conserving and tuples.any():
            assert tuples[chosen] > 0, "an empty queue was chosen while another had tuples"
