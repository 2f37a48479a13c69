"""The protocols that shuffle groupings follow."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from numpy.typing import ArrayLike

from evenly.kernels.types import I32
from evenly.sketches.hashing import Keys


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
