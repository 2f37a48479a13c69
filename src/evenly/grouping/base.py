"""The protocol that every key grouping follows, and the checks they share."""

from __future__ import annotations

from numbers import Integral
from typing import Protocol, Self, runtime_checkable

from numpy.typing import ArrayLike

from evenly.errors import InvalidParameter
from evenly.grouping.mapping import Mapping
from evenly.sketches.hashing import Keys

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


def checked_instances(instances: int) -> int:
    """`instances` if it is a whole number from 1 to 10,000."""
    whole = isinstance(instances, Integral) and not isinstance(instances, bool)
    if not whole or not 1 <= instances <= MAX_INSTANCES:
        raise InvalidParameter(f"instances must be a whole number from 1 to {MAX_INSTANCES}, got {instances!r}")
    return int(instances)
