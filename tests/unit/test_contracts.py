"""The contract checks that users can run: ours pass them, and each broken promise is caught."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.lab.rivals.keys.modulo import Modulo
from evenly.lab.rivals.keys.one_instance import OneInstance
from evenly.lab.rivals.keys.universal import Universal
from evenly.sketches import CostSketch, SpaceSaving
from evenly.testing import check_grouping, check_sketch

GROUPINGS = {
    "dkg": lambda: DKG(4),
    "dkg, fine": lambda: DKG(4, theta=0.01, mu=20.0, seed=3),
    "dkg, automatic": lambda: DKG.automatic(4),
    "o-apx": lambda: ExactGreedy(seed=1),
    "universal": lambda: Universal(seed=1),
    "modulo": Modulo,
    "one instance": OneInstance,
}

SKETCHES = {
    "space saving": (lambda: SpaceSaving(8), lambda sketch, keys: sketch.update(keys)),
    "space saving, weighted": (lambda: SpaceSaving(50), lambda sketch, keys: sketch.update(keys, keys % 7 + 1)),
    "cost sketch": (lambda: CostSketch(seed=5), lambda sketch, keys: sketch.update(keys, keys % 64 + 1)),
    "dkg": (lambda: DKG(4), lambda sketch, keys: sketch.fit(keys)),
}


@pytest.mark.parametrize("name", GROUPINGS)
def test_every_grouping_keeps_the_contract(name):
    check_grouping(GROUPINGS[name])


@pytest.mark.parametrize("instances", [1, 3, 8])
def test_the_contract_holds_for_other_numbers_of_instances(instances):
    check_grouping(lambda: DKG(8), instances=instances)


@pytest.mark.parametrize("name", SKETCHES)
def test_every_sketch_keeps_the_contract(name):
    check_sketch(*SKETCHES[name])


@dataclass(frozen=True, eq=False)
class Rerouting(Mapping):
    """A mapping whose answers are spoilt."""

    def assign(self, keys):
        return self.spoil(super().assign(keys))


class ToTwoInstances(Rerouting):
    def spoil(self, assigned):
        assigned = assigned.copy()
        assigned[::2] = (assigned[::2] + 1) % self.instances
        return assigned


class OutOfRange(Rerouting):
    def spoil(self, assigned):
        return assigned + np.int32(1)


class WideIntegers(Rerouting):
    def spoil(self, assigned):
        return assigned.astype(np.int64)


class OneTooFew(Rerouting):
    def spoil(self, assigned):
        return assigned[1:]


class Forgetful(Rerouting):
    """Equal only to itself, so also not to what is read back."""

    def spoil(self, assigned):
        return assigned

    def __eq__(self, other):
        return type(other) is type(self) and super().__eq__(other)

    __hash__ = Rerouting.__hash__


def giving(kind):
    """A DKG whose mapping is of the given kind."""

    class Spoilt(DKG):
        def mapping(self, instances):
            sound = super().mapping(instances)
            return kind(**{name: getattr(sound, name) for name in Mapping.__dataclass_fields__})

    return lambda: Spoilt(4)


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (ToTwoInstances, "a key went to two instances"),
        (OutOfRange, "out of range"),
        (WideIntegers, "int32"),
        (OneTooFew, "one instance per key"),
        (Forgetful, "survive being saved"),
    ],
)
def test_a_mapping_that_breaks_a_promise_is_caught(kind, promise):
    with pytest.raises(AssertionError, match=promise):
        check_grouping(giving(kind))


class LearnsTheLastCall(DKG):
    def fit(self, keys, weights=None):
        self.__init__(self.instances)
        return super().fit(keys, weights)


class DependsOnTheObject(DKG):
    """Every second object maps to rotated instances."""

    made = 0

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        type(self).made += 1
        self.number = type(self).made

    def mapping(self, instances):
        sound = super().mapping(instances)
        return sound if self.number < 3 else replace(sound, version=self.number)


class NeedsTuples(DKG):
    def mapping(self, instances):
        if self.total == 0:
            return replace(super().mapping(instances), buckets=np.zeros(0, np.int32))
        return super().mapping(instances)


@pytest.mark.parametrize(
    ("make", "error", "promise"),
    [
        (lambda: LearnsTheLastCall(4), AssertionError, "two calls of fit"),
        (lambda: DependsOnTheObject(4), AssertionError, "same tuples must give the same mapping"),
        (lambda: NeedsTuples(4), ValueError, "a mapping needs buckets"),
    ],
)
def test_a_learner_that_breaks_a_promise_is_caught(make, error, promise):
    with pytest.raises(error, match=promise):
        check_grouping(make)


class CountsCalls(SpaceSaving):
    def update(self, keys, weights=None):
        super().update([1])
        super().update(keys, weights)


class LosesItsTotal(SpaceSaving):
    @classmethod
    def from_bytes(cls, data):
        summary = super().from_bytes(data)
        summary._state[:] = 0
        return summary


class LosesItsIndex(SpaceSaving):
    """Reads back the same bytes, but finds no counter again."""

    @classmethod
    def from_bytes(cls, data):
        summary = super().from_bytes(data)
        summary._index[:] = 0
        return summary


class DoublesInMerges(SpaceSaving):
    def merge(self, other):
        self._counts *= 2
        return super().merge(other)


@pytest.mark.parametrize(
    ("make", "promise"),
    [
        (CountsCalls, "cut into calls"),
        (LosesItsTotal, "survive being saved"),
        (LosesItsIndex, "go on as the first would"),
        (DoublesInMerges, "merging an empty sketch"),
    ],
)
def test_a_sketch_that_breaks_a_promise_is_caught(make, promise):
    with pytest.raises(AssertionError, match=promise):
        check_sketch(lambda: make(1_000), lambda sketch, keys: sketch.update(keys))


class IgnoresTheOther(DKG):
    def merge(self, other):  # noqa: ARG002
        return self


class MergesNothing(SpaceSaving):
    def merge(self, other):  # noqa: ARG002
        return self


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (check_grouping, (lambda: IgnoresTheOther(4),)),
        (check_sketch, (lambda: MergesNothing(8), lambda sketch, keys: sketch.update(keys))),
    ],
    ids=["grouping", "sketch"],
)
def test_a_merge_that_loses_the_other_is_caught(check, broken):
    with pytest.raises(AssertionError):
        check(*broken)
