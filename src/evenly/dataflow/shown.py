"""What a dataflow becomes on Spark, in words: a line for each stage, and one for each edge that leads to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evenly.dataflow.ends import FILES, SENT
from evenly.dataflow.graph import Dataflow, Edge, Operator
from evenly.dataflow.stages import Stage, stages_of


@dataclass(frozen=True)
class Becoming:
    """A stage, by its operators, or an edge: what it becomes."""

    series: Literal["stage", "edge"]
    operator: str
    becomes: str


def becoming(flow: Dataflow) -> list[Becoming]:
    """Each stage of a dataflow that can be run, followed by the edges that lead to it; one that cannot be run is refused."""
    found = []
    stages = stages_of(flow)
    for stage in stages:
        kept = "; computed once for all that read it, and persisted while a batch runs" if _is_kept(flow, stage, stages) else ""
        found.append(Becoming("stage", " + ".join(stage.operators), f"{_stage(flow, stage)}{kept}"))
        found += [Becoming("edge", f"{it.start} -> {it.end}", _edge(flow, stage, it)) for it in _edges(flow, stage)]
    return found


def shown(flow: Dataflow) -> list[str]:
    """The same in lines."""
    return [f"{'  ' if it.series == 'edge' else ''}{it.operator}: {it.becomes}" for it in becoming(flow)]


def _edges(flow: Dataflow, stage: Stage) -> Iterator[Edge]:
    """All that lead to its operators, in their order."""
    for name in stage.operators:
        yield from flow.into[name]


def _stage(flow: Dataflow, stage: Stage) -> str:
    one = flow.by_name[stage.operators[0]]
    match stage.kind:
        case "source":
            return _source(one)
        case "sink":
            return f"sink, {_sink(one)}"
        case "worker":
            called = [f"{name} with {_threads(flow.by_name[name])}" for name in stage.operators]
            return f"one Python worker for each partition ({', '.join(called)})"
        case "cost":
            return f"apply_by_cost, {_threads(one)} in each task"
        case "frame":
            return "Spark itself"
        case "state":
            return "stream_by_key: Spark's state, on instances of a mapping that changes with the keys"


def _source(one: Operator) -> str:
    if one.function:
        return "source, your function of the session"
    return f"source, {one.format}"


def _sink(one: Operator) -> str:
    if one.function:
        return "your function of a DataFrame and the number of its batch, which is called again if Spark runs a batch again"
    if one.format in FILES:
        return f"{one.format}, every row once: a folder for each batch of a stream, written anew if Spark runs the batch again"
    if one.format in SENT:
        return f"sent by {one.format}, paced by {one.options.get('policy', 'nobody')}; at least once, by one identity"
    return f"{one.format}, at least once"


def _threads(one: Operator) -> str:
    if one.threads is None:
        return "auto threads (as planned, else 1)"
    return "1 thread" if one.threads == 1 else f"{one.threads} threads"


def _is_kept(flow: Dataflow, stage: Stage, stages: Sequence[Stage]) -> bool:
    """Whether its rows are read several times: by stages, or once more because a mapping is learnt from them."""
    readers = [edge for other in stages for edge in other.inputs if edge.start in stage.exits]
    learnt = any(edge.grouping == "key" and flow.by_name[edge.end].kind != "state" for edge in readers)
    several = sum(any(edge in other.inputs for edge in readers) for other in stages) > 1
    return several or len(stage.exits) > 1 or (learnt and stage.kind != "source")


def _edge(flow: Dataflow, stage: Stage, edge: Edge) -> str:
    only = f", the rows where {edge.where}" if edge.where else ""
    on = f"{edge.instances}" if edge.instances else "spark.sql.shuffle.partitions"
    by = ", ".join(edge.columns)
    match edge.grouping:
        case "forward":
            how = (
                "handed on inside the worker while it runs"
                if edge.start in stage.operators
                else "no shuffle: rows stay in their partitions"
            )
        case "shuffle":
            how = f"repartition({on})"
        case "cost":
            how = f"dealt out over {on} instances by what rows of each {by} have cost in the batches before"
        case "key" if flow.by_name[edge.end].kind == "state":
            how = f"placed by {by} on {on} instances, by the mapping of the query"
        case "key":
            how = f"by_key: placed by {by} on {on} instances, by a mapping learnt now and then"
        case "duplicate":
            how = f"explode, then repartitionById: each row {on} times, once for every instance"
    return f"{edge.grouping}: {how}{only}"
