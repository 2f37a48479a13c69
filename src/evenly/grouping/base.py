"""The protocols that groupings follow, and the checks they share."""

from __future__ import annotations

from numbers import Integral
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from evenly.errors import InvalidKeys, InvalidParameter
from evenly.grouping.mapping import Mapping
from evenly.kernels.types import F64, I32, U64
from evenly.sketches.hashing import WRITABLE, Keys

MAX_INSTANCES = 10_000


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


@runtime_checkable
class ShuffleGrouping(Protocol):
    """Sends each tuple wherever there is time for it, whatever its key.

    `evenly.testing.check_shuffle_grouping` is the contract.
    """

    name: str
    instances: int

    def route(self, keys: Keys, now_s: float) -> I32:
        """The instance of every tuple, in order; `now_s` is the caller's clock."""

    @property
    def memory_bytes(self) -> int:
        """The memory that the sender holds."""


@runtime_checkable
class ReactiveGrouping(ShuffleGrouping, Protocol):
    """A shuffle grouping that reacts to the queues of its instances, which the caller reports when it likes."""

    def observe(self, queued: ArrayLike, queued_bytes: ArrayLike | None = None) -> None:
        """Take in how many tuples wait at each instance, and perhaps how many bytes."""


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


def checked_whole(value: int, name: str, least: int, most: int) -> int:
    """`value` if it is a whole number from `least` to `most`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise InvalidParameter(f"{name} must be a whole number from {least} to {most}, got {value!r}")
    return int(value)


def checked_instances(instances: int) -> int:
    """`instances` if it is a whole number from 1 to 10,000."""
    return checked_whole(instances, "instances", 1, MAX_INSTANCES)


def checked_queues(values: ArrayLike, instances: int, name: str) -> F64:
    """A copy of `values`, one number for each instance, finite and not negative."""
    try:
        queues: F64 = np.require(np.array(values, np.float64), requirements=WRITABLE)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"{name} must be numbers, got {values!r}") from error
    if queues.shape != (instances,):
        raise InvalidParameter(f"{name} must have one number for each of {instances} instances, got shape {queues.shape}")
    bad = ~(np.isfinite(queues) & (queues >= 0.0))
    if bad.any():
        at = int(np.argmax(bad))
        raise InvalidParameter(f"{name}[{at}] is {queues[at]}: it must be finite and at least 0")
    return queues


def tuple_count(keys: Keys) -> int:
    """How many tuples there are, for a grouping that does not look at their keys."""
    try:
        return len(keys)
    except TypeError as error:
        raise InvalidKeys(f"keys must be one sequence, got {keys!r}") from error
