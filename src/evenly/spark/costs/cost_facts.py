"""The records of a query by cost."""

from __future__ import annotations

from evenly.facts.emitting import Teller
from evenly.facts.of_costs import cost_batch
from evenly.facts.records import Decision
from evenly.spark.costs.cost_batches import RanBatch


class CostFacts:
    """Tells each batch, and a change where rows are dealt in another way than in the batch before."""

    def __init__(self, teller: Teller, instances: int) -> None:
        self.teller = teller
        self._instances = instances
        self._even: bool | None = None

    def batch(self, batch: RanBatch, seconds: float) -> None:
        """A batch has been run and handed over, in so many seconds."""
        decision, reports = batch.decision, tuple(batch.reports)
        if self._even is not None and decision.even != self._even:
            self.teller.tell("change", decision=Decision(what="dealing", reason=decision.reason))
        self._even = decision.even
        self.teller.tell("batch", batch=lambda _: cost_batch(batch.number, reports, instances=self._instances, seconds=seconds))
