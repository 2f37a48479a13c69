"""What an emission policy sees and says: the backlogs of the queues that share a link, and which of them may send next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_numbers
from evenly.errors import InvalidParameter
from evenly.kernels.types import F64

Numbers = float | F64
"""A number, or an array with one for each queue."""


@dataclass(frozen=True, eq=False)
class Backlogs:
    """The queues of one link as they stand: one place each. Made by `Backlogs.of`, which checks everything.

    `tuples` and `sizes_bytes` are what waits; `heads` says when the tuple in front arrived, on any clock, and is infinite
    where nothing waits; `speeds` is what each queue can send, in bytes per second or in any other unit.

    >>> Backlogs.of([3, 0, 5]).tuples.tolist()
    [3.0, 0.0, 5.0]
    """

    tuples: F64
    sizes_bytes: F64
    heads: F64 | None
    speeds: F64

    @classmethod
    def of(
        cls,
        tuples: ArrayLike,
        *,
        sizes_bytes: ArrayLike | None = None,
        heads: ArrayLike | None = None,
        speeds: ArrayLike | None = None,
    ) -> Self:
        """Without `sizes_bytes` every tuple has one byte; without `speeds` all queues are equally fast."""
        waiting = checked_numbers(tuples, "tuples", None, each="queue")
        if waiting.size == 0:
            raise InvalidParameter("there is no queue to choose from: give the backlog of at least one")
        sizes = waiting if sizes_bytes is None else checked_numbers(sizes_bytes, "sizes_bytes", waiting.size, each="queue")
        fast = np.ones(waiting.size) if speeds is None else checked_numbers(speeds, "speeds", waiting.size, each="queue")
        if not fast.all():
            at = int(np.argmin(fast))
            raise InvalidParameter(f"speeds[{at}] is {fast[at]}: a link that sends has a speed above 0")
        return cls(waiting, sizes, None if heads is None else _arrivals(heads, waiting), fast)

    @property
    def queues(self) -> int:
        """How many queues there are."""
        return self.tuples.size


@runtime_checkable
class Emission(Protocol):
    """Chooses which queue of a link may send next.

    `work_conserving` says that it never chooses an empty queue while another has something to send. The number of
    queues may differ from call to call. `evenly.testing.check_emission` is the contract as a test.
    """

    name: str
    work_conserving: bool

    def choose(self, backlogs: Backlogs) -> int:
        """The queue that may send next, 0 to queues - 1."""


class Ranked(ABC):
    """A policy that chooses the largest of a number that each queue has, the lowest queue of equals.

    `rank` is plain arithmetic, so that it serves arrays of all queues (`choose`) and the numbers of one queue alike. The
    leader of a link calls it with numbers, because that costs a tenth of making arrays of them.
    """

    name: str

    @abstractmethod
    def rank(self, tuples: Numbers, sizes_bytes: Numbers, heads: Numbers | None, speeds: Numbers) -> Numbers:
        """What the chosen queue has most of, for one queue or for all; only queues that are not empty are chosen by it."""

    def choose(self, backlogs: Backlogs) -> int:
        """The queue with the largest rank of those that are not empty."""
        ranks = self.rank(backlogs.tuples, backlogs.sizes_bytes, backlogs.heads, backlogs.speeds)
        return int(np.argmax(np.where(backlogs.tuples > 0.0, ranks, -np.inf)))


def known(heads: Numbers | None, name: str) -> Numbers:
    """When the heads arrived, for a policy that cannot do without."""
    if heads is None:
        raise InvalidParameter(f"{name} chooses by when the heads arrived: give Backlogs.of(…, heads=…)")
    return heads


def _arrivals(heads: ArrayLike, waiting: F64) -> F64:
    try:
        array = np.array(heads, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"heads must be times, got {heads!r}") from error
    if array.shape != waiting.shape:
        raise InvalidParameter(f"heads must have one time for each of {waiting.size} queues, got shape {array.shape}")
    array[waiting == 0.0] = np.inf
    bad = ~np.isfinite(array) & (waiting > 0.0)
    if bad.any():
        at = int(np.argmax(bad))
        raise InvalidParameter(f"heads[{at}] is {array[at]}: a queue with tuples has a head that arrived at some time")
    return array
