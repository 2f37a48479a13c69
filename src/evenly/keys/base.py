"""The protocols that key groupings follow."""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

from numpy.typing import ArrayLike

from evenly.kernels.types import I32, U64
from evenly.keys.mapping import Mapping
from evenly.sketches.hashing import Keys


@runtime_checkable
class KeyGrouping(Protocol):
    """Learns from keys, on any number of machines, and then says which instance each key belongs to.

    `evenly.testing.check_grouping` is the contract as a test that any implementation can be put to.
    """

    name: str

    def fit(self, keys: Keys, weights: ArrayLike | None = None) -> Self:
        """Take in tuples; may be called any number of times."""

    def merge(self, other: Self) -> Self:
        """Take in what another learner of the same parameters has seen."""

    def mapping(self, instances: int) -> Mapping:
        """The mapping of keys to 0 .. instances - 1 for what has been seen so far."""

    @property
    def memory_bytes(self) -> int:
        """The memory that the learner holds."""


@runtime_checkable
class SplittingGrouping(Protocol):
    """Sends a key to one of several instances, tuple by tuple, so what is computed by key must be merged afterwards.

    One object serves one sender: it knows only what it has sent itself. Senders that are made with the same
    parameters have the same candidates for a key. `evenly.testing.check_splitting_grouping` is the contract.
    """

    name: str
    needs_merge: bool
    instances: int

    def route(self, keys: Keys) -> I32:
        """The instance of every tuple, in order; the next call goes on from there."""

    def split_keys(self) -> U64 | None:
        """The ids of all keys that may be on several instances; None where any key may be."""

    @property
    def memory_bytes(self) -> int:
        """The memory that the sender holds; it does not grow with the number of keys."""


class LearnsThrough:
    """A key grouping that learns through another one and places what that has learnt in its own way."""

    def __init__(self, learner: KeyGrouping) -> None:
        self._learner = learner

    @property
    def memory_bytes(self) -> int:
        return self._learner.memory_bytes

    def fit(self, keys: Keys, weights: ArrayLike | None = None) -> Self:
        """Learn from tuples; each weighs 1, or what `weights` says."""
        self._learner.fit(keys, weights)
        return self

    def merge(self, other: Self) -> Self:
        """Take in what another learner with the same parameters has seen."""
        self._learner.merge(other._learner)
        return self
