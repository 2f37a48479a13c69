"""The protocols that shuffle groupings follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

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


@runtime_checkable
class AcknowledgedGrouping(ShuffleGrouping, Protocol):
    """A shuffle grouping that hears of the end of each tuple that it sent."""

    def acknowledge(self, instance: int, tuples: int = 1) -> None:
        """Take in that an instance has ended some tuples."""


class TellingInstance(Protocol):
    """What runs beside an instance and tells schedulers of what it executes."""

    def execute(self, keys: Keys, costs_ms: ArrayLike, ended_ms: ArrayLike, carried: Any, sources: ArrayLike) -> Sequence[Any]:
        """Take in tuples that have been executed; what it gives must be delivered.

        A message goes to the scheduler of the tuple, or to all of them if it has a true attribute `to_all`.
        """


@runtime_checkable
class MessagingGrouping(ShuffleGrouping, Protocol):
    """A shuffle grouping with something of its own beside each instance; messages are plain values that the caller delivers."""

    @property
    def carried(self) -> Any:
        """What must travel with the tuples of the last `route`, to be given to `execute` with them."""

    def instance(self, index: int) -> TellingInstance:
        """What must run beside an instance."""

    def receive(self, message: Any) -> None:
        """Take in what an instance says."""
