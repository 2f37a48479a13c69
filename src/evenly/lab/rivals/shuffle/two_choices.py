"""The power of two choices: the less crowded of two instances drawn at random."""

from __future__ import annotations

from copy import deepcopy
from typing import Self

import numpy as np

from evenly.kernels.types import I32
from evenly.lab.rivals.shuffle.shortest_queue import ShortestQueue
from evenly.sketches.hashing import derive


class TwoChoices(ShortestQueue):
    """Draws two different instances for each tuple and sends it where fewer are not yet acknowledged.

    `tests/unit/test_shuffle_schedulers.py` holds it against the obvious loop.

    Parameters: `instances`; `seed`.

    >>> TwoChoices(1).route(range(2), 0.0).tolist()
    [0, 0]

    Mitzenmacher, "The power of two choices in randomized load balancing", 2001.
    """

    name = "two-choices"

    def __init__(self, instances: int, *, seed: int = 0) -> None:
        super().__init__(instances)
        self.seed = seed
        self._rng = _generator(seed)

    def of_scheduler(self, index: int, schedulers: int) -> Self:  # noqa: ARG002 - how many there are changes nothing
        """A new one like this, as one of several that share a stream: each draws for itself."""
        one = deepcopy(self)
        one._rng = _generator(self.seed + index)
        return one

    def candidates(self, count: int) -> I32:
        """Two instances for each of the next tuples."""
        drawn = self._rng.random((count, 2))
        first = (drawn[:, 0] * self.instances).astype(np.int32)
        step = 1 + (drawn[:, 1] * (self.instances - 1)).astype(np.int32)
        return np.stack([first, (first + step) % self.instances], axis=1).astype(np.int32)


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(derive(seed, "two-choices", 2**64))
