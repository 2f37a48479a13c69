"""All that was measured for plans on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evenly.dataflow.graph import Dataflow, Operator
from evenly.dataflow.tuning import Way
from evenly.errors import InvalidModel
from evenly.planning.micro_batches.curves import SlotCurve
from evenly.planning.micro_batches.engine import EngineCosts


@dataclass(frozen=True)
class SparkModels:
    """The costs of Spark itself, the curve of each operator, and rows on the edges of dataflows for one that enters the edge's
    start, as they were measured."""

    engine: EngineCosts | None = None
    curves: Mapping[str, SlotCurve] = field(default_factory=dict)
    edges: Mapping[str, Mapping[Way, float]] = field(default_factory=dict)

    def with_others(self, other: SparkModels) -> SparkModels:
        """These and others; of two of one name the other's is kept."""
        return replace(
            self,
            engine=other.engine or self.engine,
            curves={**self.curves, **other.curves},
            edges={**self.edges, **other.edges},
        )

    def curve(self, one: Operator) -> SlotCurve:
        """What was measured of an operator."""
        if one.model_name not in self.curves:
            known = ", ".join(sorted(self.curves)) or "none"
            raise InvalidModel(
                f"the operator {one.name!r} was not measured on Spark (measured: {known}): "
                "evenly profile FLOW --on spark --out FILE measures it, and --models FILE reads what was measured"
            )
        return self.curves[one.model_name]

    def engine_costs(self) -> EngineCosts:
        """What Spark itself needs, which has to have been measured."""
        if self.engine is None:
            raise InvalidModel(
                "the models do not have what Spark itself needs: evenly profile --engine --out FILE measures it, and "
                "--models FILE reads what was measured"
            )
        return self.engine

    def rows_on(self, flow: Dataflow) -> Mapping[Way, float]:
        """Rows on the edges of a dataflow, where they were measured."""
        return self.edges.get(flow.name, {})
