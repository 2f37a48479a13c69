"""What a dataflow is and what its batches did, as parts of records."""

from __future__ import annotations

from evenly.dataflow.graph import Dataflow
from evenly.dataflow.reports import FlowBatch, Instances, Measured
from evenly.facts.loads import Loads
from evenly.facts.records import Batch, Graph, Operator
from evenly.planning.micro_batches import SparkPlan


def graph_of(flow: Dataflow, plan: SparkPlan | None = None) -> Graph:
    """Operators in the dataflow's order, with what a plan gives them, and its edges."""
    places = {one.name: at for at, one in enumerate(flow.operators)}
    threads = {} if plan is None else plan.threads
    operators = tuple(Operator(name=one.name, role=one.kind, planned_threads=threads.get(one.name)) for one in flow.operators)
    return Graph(operators=operators, edges=tuple((places[edge.start], places[edge.end]) for edge in flow.edges))


def flow_batch(batch: FlowBatch, instances: dict[str, Instances], flow: Dataflow, plan: SparkPlan | None = None) -> Batch:
    """A batch by its operators; instances are those of the operator that was busy longest.

    Its bound is its time, less what the longest task of each operator took longer than the mean.
    """
    told = [batch.operators[one.name] for one in flow.operators if one.name in batch.operators]
    busiest = max(told, key=lambda it: it.busy_s, default=None)
    rows = batch.rows if batch.rows is not None else max((it.rows_in for it in told), default=0)
    found = None if busiest is None else instances.get(busiest.operator)
    busy = None if found is None else Loads.of(1e3 * found.busy_s)
    wasted_ms = sum(1e3 * _over_mean_s(instances[it.operator], it) for it in told if it.operator in instances)
    took_ms = 1e3 * batch.took_s
    return Batch(
        number=batch.number or 0,
        rows=rows,
        duration_ms=took_ms,
        bound_ms=max(0.0, took_ms - wasted_ms),
        planned_ms=None if plan is None else _ms(plan.batch_s(rows)),
        operator="" if busiest is None else busiest.operator,
        instances=None if busiest is None else busiest.instances,
        rows_by_instance=None if found is None else Loads.of(found.rows_in),
        busy_ms_by_instance=busy,
        imbalance_pct=None if busy is None else busy.imbalance_pct,
        operators=tuple(_operator(it, plan, rows) for it in told),
    )


def _operator(told: Measured, plan: SparkPlan | None, rows: int) -> Operator:
    stage = None if plan is None else next((it for it in plan.stages if told.operator in it.operators), None)
    return Operator(
        name=told.operator,
        threads=told.threads,
        planned_threads=None if plan is None else plan.threads.get(told.operator),
        instances=told.instances,
        rows=told.rows_in,
        rows_out=told.rows_out,
        busy_ms=1e3 * told.busy_s,
        busy_pct=told.busy_pct,
        duration_ms=max(0.0, 1e3 * told.span_s),
        planned_ms=None if stage is None else _ms(stage.seconds(rows)),
        imbalance_pct=told.imbalance_pct,
    )


def _over_mean_s(found: Instances, told: Measured) -> float:
    """How much longer the busiest instance was busy than the mean, with its threads at once."""
    return float(found.busy_s.max() - found.busy_s.mean()) / max(told.threads, 1) if found.busy_s.size else 0.0


def _ms(seconds: float) -> float | None:
    return 1e3 * seconds if 0.0 <= seconds < 1e9 else None
