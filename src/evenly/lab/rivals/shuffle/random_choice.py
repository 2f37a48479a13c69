"""Random shuffle: each tuple to an instance drawn at random."""

from __future__ import annotations

from copy import deepcopy
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances, checked_queues, tuple_count
from evenly.kernels.types import I32
from evenly.sketches.hashing import Keys, derive


class RandomChoice:
    """Every instance equally likely, whatever was sent before: worse than round-robin, and needs no memory.

    Parameters: `instances`; `seed`. `tests/unit/test_shuffle_schedulers.py` checks the shares.

    >>> RandomChoice(1).route(["a", "b"], 0.0).tolist()
    [0, 0]
    """

    name = "random"

    def __init__(self, instances: int, *, seed: int = 0) -> None:
        self.instances, self.seed = checked_instances(instances), seed
        self._rng = _generator(seed)

    @property
    def memory_bytes(self) -> int:
        return 32

    def of_scheduler(self, index: int, schedulers: int) -> Self:  # noqa: ARG002 - how many there are changes nothing
        """A new one like this, as one of several that share a stream: each draws for itself."""
        one = deepcopy(self)
        one._rng = _generator(self.seed + index)
        return one

    def route(self, keys: Keys, now_s: float) -> I32:  # noqa: ARG002 - the protocol's signature
        """The instance of every tuple."""
        return (self._rng.random(tuple_count(keys)) * self.instances).astype(np.int32)

    def observe(self, queued: ArrayLike, queued_bytes: ArrayLike | None = None) -> None:  # noqa: ARG002
        """Only checked: chance does not react."""
        checked_queues(queued, self.instances, "queued")


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(derive(seed, "random", 2**64))
