"""What groupings that do not learn from the stream have in common."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from evenly.errors import IncompatibleMerge
from evenly.sketches.hashing import Keys


class Unlearnt:
    """A grouping whose mapping does not depend on the tuples."""

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed

    @property
    def memory_bytes(self) -> int:
        return 0

    def fit(self, keys: Keys, weights: ArrayLike | None = None) -> Self:  # noqa: ARG002 - the protocol's signature
        """Nothing is learnt."""
        return self

    def merge(self, other: Self) -> Self:
        """Nothing is merged, but both must stand for the same mapping."""
        if self.seed != other.seed:
            raise IncompatibleMerge(f"seeds {self.seed} and {other.seed} differ: give both groupings the same")
        return self
