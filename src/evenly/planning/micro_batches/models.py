"""All that was measured for plans on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from evenly.dataflow.graph import Dataflow, Edge, Operator
from evenly.dataflow.stages import IN_WORKER, OF_SPARK
from evenly.dataflow.subjects import subject_of
from evenly.dataflow.tuning import Way
from evenly.errors import InvalidModel
from evenly.planning.micro_batches.curves import SlotCurve
from evenly.planning.micro_batches.engine import EngineCosts
from evenly.planning.micro_batches.frame_costs import FrameCost

_AGAIN = "evenly profile FLOW --on spark --out FILE measures it"


@dataclass(frozen=True)
class MeasuredEdge:
    """Rows on an edge for one that enters its start, measured with its condition (None: nobody knows with which)."""

    rows: float
    where: str | None = None


@dataclass(frozen=True)
class SparkModels:
    """The costs of Spark itself, the curve of each operator of rows and batches, the cost of each of Spark's own (`frames`),
    and what is on the edges of dataflows, as they were measured.

    A curve or cost that was measured of another function or kind of operator than the one of its name, or an edge with another
    condition, is refused. What may have changed since is among the `doubts` of a plan.
    """

    engine: EngineCosts | None = None
    curves: Mapping[str, SlotCurve] = field(default_factory=dict)
    edges: Mapping[str, Mapping[Way, MeasuredEdge]] = field(default_factory=dict)
    frames: Mapping[str, FrameCost] = field(default_factory=dict)

    def with_others(self, other: SparkModels) -> SparkModels:
        """These and others; of two of one name the other's is kept."""
        return replace(
            self,
            engine=other.engine or self.engine,
            curves={**self.curves, **other.curves},
            edges={**self.edges, **other.edges},
            frames={**self.frames, **other.frames},
        )

    def curve(self, flow: Dataflow, one: Operator) -> SlotCurve:
        """What was measured of an operator; a model of another one is refused, unless the description names it (`model`)."""
        if one.model_name not in self.curves:
            known = ", ".join(sorted(self.curves)) or "none"
            raise InvalidModel(
                f"the operator {one.name!r} was not measured on Spark (measured: {known}): "
                f"{_AGAIN}, and --models FILE reads what was measured"
            )
        found = self.curves[one.model_name]
        _check_meant(found, flow, one)
        return found

    def frame(self, flow: Dataflow, one: Operator) -> FrameCost | None:
        """What was measured of an operator of Spark itself (None: nothing); a model of another one is refused as of a curve."""
        found = self.frames.get(one.model_name)
        if found is not None:
            _check_meant(found, flow, one)
        return found

    def _known(self, one: Operator) -> SlotCurve | FrameCost | None:
        if one.kind in OF_SPARK:
            return self.frames.get(one.model_name)
        return self.curves.get(one.model_name) if one.kind in IN_WORKER else None

    def check_replaced(self, flow: Dataflow) -> None:
        """Refuse to measure a dataflow into models that have another operator's under one of its names: it would be lost."""
        for one in flow.operators:
            found = self._known(one)
            if found is not None and found.of is not None and (why := found.of.another(subject_of(flow, one))):
                raise InvalidModel(
                    f"there is a model {one.model_name!r} already, measured {why}: give another --out, or {one.name!r} a "
                    "`model` of another name"
                )

    def engine_costs(self) -> EngineCosts:
        """What Spark itself needs, which has to have been measured."""
        if self.engine is None:
            raise InvalidModel(
                "the models do not have what Spark itself needs: evenly profile --engine --out FILE measures it, and "
                "--models FILE reads what was measured"
            )
        return self.engine

    def rows_on(self, flow: Dataflow) -> Mapping[Way, float]:
        """Rows on the edges of a dataflow, where they were measured; an edge that has another condition now is refused."""
        found = self.edges.get(flow.name, {})
        for edge in flow.edges:
            one = found.get((edge.start, edge.end))
            if one is not None and one.where is not None and one.where != edge.where:
                raise InvalidModel(
                    f"the edge {edge.start} -> {edge.end} was measured {_condition(one.where)}, and is taken "
                    f"{_condition(edge.where)} now: {_AGAIN}"
                )
        return {way: one.rows for way, one in found.items()}

    def doubts(self, flow: Dataflow) -> tuple[str, ...]:
        """What a plan rests on that may not be so, each with what to do."""
        return (*self._doubted_curves(flow), *self._doubted_edges(flow))

    def _doubted_curves(self, flow: Dataflow) -> Iterator[str]:
        for one in flow.operators:
            found = self._known(one)
            if found is None:
                continue
            if found.of is None:
                yield f"the model of {one.name!r} does not say what it was measured of: {_AGAIN} again"
                continue
            now = subject_of(flow, one)
            if why := found.of.another(now):
                yield f"the model {one.model_name!r}, which {one.name!r} names, was measured {why}"
            elif why := found.of.changed(now):
                yield f"since {one.name!r} was measured: {why}. {_AGAIN} again"

    def _doubted_edges(self, flow: Dataflow) -> Iterator[str]:
        known = self.edges.get(flow.name, {})
        for edge in flow.edges:
            one = known.get((edge.start, edge.end))
            what = f"{edge.start} -> {edge.end}"
            if one is None and edge.selectivity == 1.0 and _may_differ(flow, edge):
                taken = f" {_condition(edge.where)}" if edge.where else ""
                yield f"the rows of {what}{taken} were not measured, and are taken to be 1 for each row before it: {_AGAIN}"
            elif one is not None and one.where is None and edge.where:
                yield f"the rows of {what} were measured, and nobody knows whether {_condition(edge.where)}: {_AGAIN} again"


def _check_meant(found: SlotCurve | FrameCost, flow: Dataflow, one: Operator) -> None:
    if found.of is not None and not one.model and (why := found.of.another(subject_of(flow, one))):
        raise InvalidModel(
            f"the model of {one.name!r} was measured {why}: {_AGAIN}. If that model is meant, say so: `model: {one.name}`"
        )


def _may_differ(flow: Dataflow, edge: Edge) -> bool:
    """Whether an edge may well have another number of rows than its start gets, and whether that matters."""
    if flow.by_name[edge.end].kind == "sink":
        return False
    return bool(edge.where) or flow.by_name[edge.start].kind not in ("source", "operator")


def _condition(where: str) -> str:
    return f"where {where}" if where else "without a condition"
