"""When a mapping of keys is worth learning again: when what it would have saved has come to what learning takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenly.kernels.types import F64, I64

LEARNING_S, LEARNING_ROW_S = 0.75, 1e-6
"""What a batch that learns takes longer: some jobs of Spark, and each of its rows read once more."""


@dataclass
class Relearning:
    """One mapping, and the time that batches have lost since it was learnt because keys are not as they were.

    Whoever rents until the rent has come to the price, and then buys, never spends twice what one would who knows how long it
    will be needed. So a mapping whose keys stay as they were is never learnt again, and one that has become bad soon is: after
    at most the time that learning takes. No clock and no Spark; tests/unit/test_relearning.py.

    `promised_pct`: λ that the mapping is expected to have of new rows; what chance or a single heavy key adds to it no other
    mapping takes away.
    """

    promised_pct: float = 0.0
    lost_s: float = 0.0
    takes_s: float = LEARNING_S

    @property
    def due(self) -> bool:
        """Whether the next batch is to learn."""
        return self.lost_s >= self.takes_s

    def tell(self, rows: I64, seconds: F64, *, span_s: float, slots: int) -> None:
        """A batch: rows that each instance had, how long its task ran, and from the first task's begin to the last one's end.

        What is lost is what the fullest instance ran longer than with the rows that were promised, and no more than the tasks
        could have ended sooner on so many slots.
        """
        count = int(rows.sum())
        if not count:
            return
        fullest = int(np.argmax(rows))
        uneven = float(rows[fullest]) * rows.size / count
        excess_s = float(seconds[fullest]) * max(0.0, 1.0 - (1.0 + self.promised_pct / 100.0) / uneven)
        idle_s = span_s - float(seconds.sum()) / min(rows.size, slots)
        self.lost_s += max(0.0, min(excess_s, idle_s))
        self.takes_s = LEARNING_S + LEARNING_ROW_S * count
