"""What a streaming query knows of costs from one batch to the next, and after a restart: each batch counts once."""

from __future__ import annotations

from collections.abc import Callable

from evenly.costs.model import CostModel
from evenly.costs.scheduler import CostScheduler


class BatchMemory:
    """Which scheduler a batch begins with, and whether what it leaves is kept. No Spark and no files: those are handed in.

    The one that the batch before left, if it is at hand. At a start, and for a batch that is run again, what was saved below
    the batch's number: whatever an earlier try of it measured counts for nothing. Costs that cannot be saved end no query: the
    next save has them too, and until then a restart begins with older ones. tests/property/test_batch_memory.py runs batches
    that fail, are run again and are not saved, in any order.
    """

    def __init__(self, instances: int, model: CostModel) -> None:
        self._instances, self._model = instances, model
        self._held: CostScheduler | None = None
        self._unsaved = False

    def begin(self, batch_id: int, saved_below: Callable[[int], CostScheduler | None]) -> CostScheduler:
        """The scheduler for a batch. `saved_below` reads the last one that was saved below a batch's number."""
        held = self._held
        if held is None or held.last_batch is None or held.last_batch >= batch_id:
            held = self._fitting(saved_below(batch_id))
        self._held = held
        return held

    def saved(self) -> None:
        """What the batch left is written."""
        self._unsaved = False

    def not_saved(self) -> bool:
        """It could not be written. True if that is news."""
        news, self._unsaved = not self._unsaved, True
        return news

    def _fitting(self, saved: CostScheduler | None) -> CostScheduler:
        expressions = self._model.expressions
        if saved is None or saved.model.expressions != expressions:
            return CostScheduler(self._instances, model=self._model, expressions=expressions)
        return saved if saved.instances == self._instances else CostScheduler(self._instances, model=saved.model)
