"""Rows on their way into calls of a user's function, in any process."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from evenly.kernels.types import I64


class Part(NamedTuple):
    """Rows and the calls that they are for: `numbers` has one for each call, `sizes` the rows of each (None: one)."""

    batch: pa.RecordBatch
    numbers: I64
    sizes: I64 | None = None
    ids: I64 | None = None

    def only(self, calls: I64) -> Part:
        """The calls at these positions, which rise."""
        if calls.size == self.numbers.size:
            return self
        chosen = np.zeros(self.numbers.size, np.bool_)
        chosen[calls] = True
        rows = chosen if self.sizes is None else np.repeat(chosen, self.sizes)
        return Part(
            self.batch.filter(pa.array(rows)),
            self.numbers[chosen],
            None if self.sizes is None else self.sizes[chosen],
            None if self.ids is None else self.ids[rows],
        )
