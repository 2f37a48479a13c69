"""What a dataflow is and what its batches did, as parts of records."""

from __future__ import annotations

from collections.abc import Sequence

from evenly.dataflow.graph import Dataflow
from evenly.dataflow.reports import FlowBatch, Instances, Measured
from evenly.dataflow.stages import stages_of
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

    Its bound is its time, less what the longest task of each stage took longer than the mean.
    """
    told = [batch.operators[one.name] for one in flow.operators if one.name in batch.operators]
    busiest = max(told, key=lambda it: it.busy_s, default=None)
    rows = batch.rows if batch.rows is not None else _entered(told, flow)
    of_source = rows / max(sum(one.kind == "source" for one in flow.operators), 1)  # as plans count
    found = None if busiest is None else instances.get(busiest.operator)
    busy = None if found is None else Loads.of(1e3 * found.busy_s)
    wasted_ms = 1e3 * _over_mean_s(told, instances, flow)
    took_ms = 1e3 * batch.took_s
    return Batch(
        number=batch.number or 0,
        rows=rows,
        duration_ms=took_ms,
        bound_ms=max(0.0, took_ms - wasted_ms),
        planned_ms=None if plan is None else _ms(plan.batch_s(of_source)),
        operator="" if busiest is None else busiest.operator,
        instances=None if busiest is None else busiest.instances,
        rows_by_instance=None if found is None else Loads.of(found.rows_in),
        busy_ms_by_instance=busy,
        imbalance_pct=None if busy is None else busy.imbalance_pct,
        operators=tuple(_operator(it, plan, of_source) for it in told),
    )


def _operator(told: Measured, plan: SparkPlan | None, rows: float) -> Operator:
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


def _entered(told: Sequence[Measured], flow: Dataflow) -> int:
    """Rows of all sources, by those that entered the first operators that were measured: later ones may have more or fewer."""
    measured = {it.operator: it for it in told}
    behind: dict[str, bool] = {}
    sources: dict[str, frozenset[str]] = {}
    rows: dict[frozenset[str], int] = {}
    for name in flow.order:
        into = flow.into[name]
        sources[name] = frozenset().union(*(sources[edge.start] for edge in into)) if into else frozenset([name])
        if name in measured and not any(behind[edge.start] for edge in into):
            copies = max((edge.instances or 1 for edge in into if edge.grouping == "duplicate"), default=1)
            rows[sources[name]] = max(rows.get(sources[name], 0), measured[name].rows_in // copies)
        behind[name] = name in measured or any(behind[edge.start] for edge in into)
    alone = sum(count for of, count in rows.items() if len(of) == 1)
    return max([alone, *rows.values()])


def _over_mean_s(told: Sequence[Measured], instances: dict[str, Instances], flow: Dataflow) -> float:
    """How much longer the longest tasks of all stages were busy than the mean ones.

    Operators that share a worker add up there; with threads they are at work at once, and the busiest one counts.
    """
    wasted_s = 0.0
    for stage in stages_of(flow):
        of_stage = [it for it in told if it.operator in stage.operators and it.operator in instances]
        at_once = any(it.threads > 1 for it in of_stage)
        busy_s: dict[int, float] = {}
        for it in of_stage:
            found = instances[it.operator]
            for at, seconds in zip(found.instance.tolist(), (found.busy_s / max(it.threads, 1)).tolist(), strict=True):
                busy_s[at] = max(busy_s.get(at, 0.0), seconds) if at_once else busy_s.get(at, 0.0) + seconds
        if busy_s:
            wasted_s += max(busy_s.values()) - sum(busy_s.values()) / len(busy_s)
    return wasted_s


def _ms(seconds: float) -> float | None:
    return 1e3 * seconds if 0.0 <= seconds < 1e9 else None
