"""The records of a dataflow."""

from __future__ import annotations

from evenly.dataflow.graph import Dataflow
from evenly.dataflow.reports import FlowBatch, Instances
from evenly.facts.emitting import Teller
from evenly.facts.of_flows import flow_batch
from evenly.facts.records import Decision
from evenly.planning.micro_batches import SparkPlan
from evenly.planning.observed.replanning import Event, Outcome
from evenly.spark.flows.watch import FlowWatch


class FlowFacts:
    """Tells what a watch is told: each batch with its operators, and what planning again changes or recommends."""

    def __init__(self, teller: Teller, flow: Dataflow, plan: SparkPlan | None, watch: FlowWatch) -> None:
        self.teller = teller
        self._flow, self._plan = flow, plan
        watch.hand_on(self.batch, self.changed)

    def batch(self, batch: FlowBatch, instances: dict[str, Instances]) -> None:
        """A batch has been written."""
        self.teller.tell("batch", batch=lambda _: flow_batch(batch, instances, self._flow, self._plan))

    def changed(self, event: Event) -> None:
        """Planning again has changed something, or what came of it is known."""
        known = isinstance(event, Outcome)
        self.teller.tell("effect" if known else "change", decision=Decision(what="plan", reason=str(event)))
