"""How many rows to learn from, and which: as few as say enough, whether or not it is known how many there are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_LEAST_WANTED = 250_000
"""Fewer are not worth a coarser mapping: so many cost some tenths of a second of one core."""
_MOST_UNCOUNTED = 5_000_000
_PER_TASK = 62_500
_MOST_READ = 500_000
"""Ids and places of so many rows are 8 MB, as much as the sums of 65,536 fine buckets."""


def rows_wanted(instances: int, tolerance_pct: float) -> int:
    """How many rows a sample needs so that it adds at most about `tolerance_pct` to λ.

    A sample of m rows spread evenly over k instances has an imbalance of about sqrt(2 ln k · k / m) by chance alone.
    """
    return max(_LEAST_WANTED, math.ceil(2.0 * math.log(max(instances, 2)) * instances / (tolerance_pct / 100.0) ** 2))


@dataclass(frozen=True)
class Sampling:
    """A sample of `wanted` rows (None: every row), of `most` rows at the most (None: not known), or `exactly` so many."""

    wanted: int | None
    most: int | None = None
    exactly: bool = False

    @property
    def stands(self) -> int | None:
        """How many rows each row of the sample stands for, if that is one number: 1 where all are taken."""
        if self.wanted is None or (self.most is not None and self.most <= self.wanted):
            return 1
        return self.most // self.wanted if self.most is not None and self.exactly else None

    @property
    def least(self) -> int:
        """Fewer rows in the sample show that there are not as many as was said; 0 where that is no matter."""
        return 0 if self.wanted is None or self.stands in (None, 1) else self.wanted // 2

    @property
    def is_small(self) -> bool:
        """Whether the sample is known to have so few rows that they can be read one by one."""
        return self.stands is not None and self.most is not None and self.most / self.stands <= _MOST_READ

    def uncounted(self) -> Sampling:
        """The same where nothing is known of the number of rows."""
        return replace(self, most=None, exactly=False)

    @property
    def tasks(self) -> int | None:
        """In how many tasks to sum the sample as it is. None: it may be large, so sum it where it is read.

        Summing rows by key before they are shuffled is a second pass over them, and of a small sample leaves almost as many.
        """
        if self.wanted is None or self.wanted > _MOST_UNCOUNTED:
            return None
        rows = self.wanted if self.most is None else min(self.wanted, self.most)
        return max(1, math.ceil(rows / _PER_TASK))
