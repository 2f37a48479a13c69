"""DKG for operators whose cost grows with the square of a key's tuples, such as joins within a group."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels import distinct
from evenly.kernels.types import F64, U64
from evenly.keys.dkg import DKG
from evenly.sketches import codec

KIND = "dkg-quadratic"
_REGISTERS = 64


class QuadraticDKG(DKG):
    """DKG where a key with f tuples costs f² (section 5.2 of the paper, and the better estimate that it suggests).

    A heavy key costs its guaranteed count squared. What a bucket of light keys costs cannot be known from its
    number of tuples L alone: `buckets="squared"` takes L², as the paper did, which is far too much for a bucket of
    many keys; `buckets="distinct"` (the default) counts the distinct keys d of each bucket with a HyperLogLog of
    64 bytes (error about 13 %) and takes L²/d, the cost if its keys are alike. `tests/property/test_quadratic.py`
    measures what that gains on the paper's Zipf-1 streams.

    The weights of its mapping are these costs.
    """

    name = KIND

    def __init__(self, instances: int, *, buckets: Literal["distinct", "squared"] = "distinct", **parameters: Any) -> None:
        super().__init__(instances, **parameters)
        if buckets not in ("distinct", "squared"):
            raise InvalidParameter(f"buckets must be 'distinct' or 'squared', got {buckets!r}")
        if buckets == "distinct" and self.half_life is not None:
            raise InvalidParameter(
                f"counts of distinct keys do not forget, and half_life is {self.half_life}: leave it out, "
                "or use buckets='squared'"
            )
        self.estimate: Literal["distinct", "squared"] = buckets
        self._registers = np.zeros((self.bucket_count, _REGISTERS), np.uint8)

    @property
    def memory_bytes(self) -> int:
        return super().memory_bytes + self._registers.nbytes

    def _add(self, ids: U64, loads: F64, weights: F64 | None) -> None:
        super()._add(ids, loads, weights)
        distinct.update(ids, np.uint64(self.a), np.uint64(self.b), self._registers)

    def merge(self, other: DKG) -> Self:
        """Take in what another learner with the same parameters has seen."""
        super().merge(other)
        if isinstance(other, QuadraticDKG):  # nothing else has the same parameters
            np.maximum(self._registers, other._registers, out=self._registers)
        return self

    def _parameters(self) -> tuple[object, ...]:
        return (*super()._parameters(), self.estimate)

    def to_bytes(self) -> bytes:
        """The learner as bytes that do not depend on Python's pickle."""
        learner = np.frombuffer(super().to_bytes(), np.uint8)
        return codec.pack(KIND, learner=learner, registers=self._registers, estimate=np.array(self.estimate))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The learner that `to_bytes` was called on; it goes on from there."""
        parts = codec.unpack(KIND, data, "learner", "registers", "estimate")
        learner = super().from_bytes(parts["learner"].tobytes())
        learner.estimate = "squared" if str(parts["estimate"]) == "squared" else "distinct"
        learner._registers[:] = parts["registers"]
        return learner

    def _costs(self, keys: U64, weights: F64, sparse: F64) -> tuple[F64, F64]:
        """Squares, for a bucket shared out among its keys."""
        return weights**2, sparse**2 / self._light_keys(keys)

    def _light_keys(self, heavy: U64) -> F64:
        """How many keys share what is left in each bucket."""
        if self.estimate == "squared":
            return np.ones(self.bucket_count)
        found = distinct.estimate(self._registers) - np.bincount(self.buckets_of(heavy), minlength=self.bucket_count)
        return np.maximum(found, 1.0)
