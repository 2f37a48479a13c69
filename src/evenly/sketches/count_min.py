"""What a tuple costs, learnt in bounded memory: a pair of Count-Min matrices with the same hashes."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.errors import EmptyStream, IncompatibleMerge, InvalidParameter
from evenly.kernels import count_min as kernels
from evenly.kernels.types import F64
from evenly.sketches import codec
from evenly.sketches.hashing import Keys, UniversalHash, key_ids
from evenly.sketches.weights import checked_weights

KIND = "cost-sketch"


class CostSketch:
    """The matrices F (tuples counted) and W (their cost summed) of POSG (Rivetti et al., 2016).

    - frequency(key) is never below the number of tuples seen with that key;
    - cost(key) = W / F in the row of least F, so it lies between the least and the greatest cost seen;
    - a key whose least F is 0 was surely never seen: it is given the mean cost of all tuples.

    `tests/property/test_count_min.py` proves them, also across merges. Costs are in whatever unit the
    caller measures, the same for all.

    Parameters: `rows` and `columns`, at least 1; `seed`. The paper's precision gives them by
    `CostSketch.for_precision(epsilon=0.05, delta=0.1)`: 4 x 55.
    """

    def __init__(self, rows: int = 4, columns: int = 55, *, seed: int = 0) -> None:
        if rows < 1 or columns < 1:
            raise InvalidParameter(f"rows and columns must be at least 1, got {rows} x {columns}")
        hashes = [UniversalHash(columns, seed=seed, row=row) for row in range(rows)]
        self.rows, self.columns, self.seed = rows, columns, seed
        self._a = np.array([h.a for h in hashes], np.uint64)
        self._b = np.array([h.b for h in hashes], np.uint64)
        self._cells = np.zeros((rows, columns, 2))

    @classmethod
    def for_precision(cls, *, epsilon: float, delta: float, seed: int = 0) -> Self:
        """Rows and columns for an over-estimate of at most epsilon x total with probability 1 - delta."""
        if not 0.0 < epsilon < 1.0 or not 0.0 < delta < 1.0:
            raise InvalidParameter(f"epsilon and delta must lie between 0 and 1, got {epsilon} and {delta}")
        return cls(math.ceil(math.log2(1.0 / delta)), math.ceil(math.e / epsilon), seed=seed)

    @property
    def tuples(self) -> float:
        """How many tuples were seen."""
        return float(self._cells[0, :, 0].sum())

    @property
    def mean_cost(self) -> float:
        """The mean cost of all tuples seen."""
        if self.tuples == 0:
            raise EmptyStream("no tuple was seen, so there is no mean cost: update the sketch first")
        return float(self._cells[0, :, 1].sum()) / self.tuples

    @property
    def memory_bytes(self) -> int:
        return self._cells.nbytes + self._a.nbytes + self._b.nbytes

    @property
    def matrices(self) -> tuple[F64, F64]:
        """Copies of F and W, each rows x columns."""
        return self._cells[:, :, 0].copy(), self._cells[:, :, 1].copy()

    def update(self, keys: Keys, costs: ArrayLike) -> None:
        """Take in tuples with their measured costs."""
        ids = key_ids(keys)
        kernels.update(ids, checked_weights(costs, ids.size, what="costs"), self._a, self._b, self._cells)

    def frequency(self, keys: Keys) -> F64:
        """How often each key was seen, at most."""
        return kernels.frequency(key_ids(keys), self._a, self._b, self._cells)

    def cost(self, keys: Keys, *, unseen: float | None = None) -> F64:
        """What a tuple of each key is expected to cost; `unseen` (or the mean) for keys never seen."""
        fallback = self.mean_cost if unseen is None else unseen
        return kernels.estimate(key_ids(keys), self._a, self._b, self._cells, fallback)

    def merge(self, other: CostSketch) -> Self:
        """Take in what another sketch of the same shape and seed has seen."""
        if (self.rows, self.columns, self.seed) != (other.rows, other.columns, other.seed):
            raise IncompatibleMerge(
                f"a {self.rows} x {self.columns} sketch with seed {self.seed} cannot take in a "
                f"{other.rows} x {other.columns} one with seed {other.seed}: make them alike"
            )
        self._cells += other._cells
        return self

    def to_bytes(self) -> bytes:
        """The sketch as bytes that do not depend on Python's pickle."""
        return codec.pack(KIND, seed=np.array(str(self.seed)), cells=self._cells)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The sketch that `to_bytes` was called on."""
        parts = codec.unpack(KIND, data, "seed", "cells")
        rows, columns, _ = parts["cells"].shape
        sketch = cls(rows, columns, seed=int(str(parts["seed"])))
        sketch._cells[:] = parts["cells"]
        return sketch
