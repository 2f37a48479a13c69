"""What a dataflow becomes on Spark: which operators share a Python worker, and what is between the others.

Operators of rows and batches that are joined by forward edges run in one worker, whatever the shape they make: rows go from
one to the next without leaving it. All else (a source, a sink, Spark's own code, state, rows dealt out by their cost) is a
stage of its own. What several stages read is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from evenly.dataflow.ends import check_ends
from evenly.dataflow.graph import Dataflow, Edge, Operator

_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
StageKind = Literal["source", "worker", "cost", "frame", "state", "sink"]
IN_WORKER = ("row", "batch")
OF_SPARK = ("frame", "state")
_OF_ENDS = ("format", "path", "options", "exactly_once")
_OTHERS = {
    "source": ("threads", "exactly_once"),
    "sink": ("threads", "schema"),
    "frame": ("threads", "schema", *_OF_ENDS),
    "state": ("threads", "schema", *_OF_ENDS),
}
"""What operators of a kind do not have: nobody would read it."""


@dataclass
class Stage:
    """Operators that run together, in their order; `inputs` come from other stages, `exits` are what other stages read."""

    kind: StageKind
    operators: list[str]
    inputs: list[Edge]
    exits: list[str] = field(default_factory=list)

    @property
    def fed_by(self) -> str | None:
        """The one operator whose rows enter as they are, without a shuffle and without a condition; None if it is not so."""
        starts = {edge.start for edge in self.inputs}
        return next(iter(starts)) if len(starts) == 1 and all(map(passes, self.inputs)) else None


def passes(edge: Edge) -> bool:
    """Whether all rows of an edge stay where they are."""
    return edge.grouping == "forward" and not edge.where


def forwarded_to_sink(flow: Dataflow, name: str) -> bool:
    """Whether a row that leaves an operator may reach a sink without a shuffle."""
    onward = [edge.end for edge in flow.out_of[name] if edge.grouping == "forward"]
    return any(flow.by_name[end].kind == "sink" or forwarded_to_sink(flow, end) for end in onward)


def stages_of(flow: Dataflow) -> tuple[Stage, ...]:
    """The stages of a dataflow that can be run, each behind those that it reads."""
    check_runnable(flow)
    stages: list[Stage] = []
    home: dict[str, Stage] = {}
    for name in flow.order:
        one, into = flow.by_name[name], flow.into[name]
        found = _worker_of(into, stages) if one.kind in IN_WORKER else None
        if found is None:
            found = Stage(_kind(one, into), [], [])
            stages.append(found)
        found.operators.append(name)
        found.inputs += [edge for edge in into if home.get(edge.start) is not found]
        home[name] = found
    for stage in stages:
        stage.exits = [name for name in stage.operators if any(home[edge.end] is not stage for edge in flow.out_of[name])]
    return tuple(stages)


def _kind(one: Operator, into: list[Edge]) -> StageKind:
    if one.kind not in IN_WORKER:
        return one.kind  # type: ignore[return-value] # checked: none is a mere operator
    return "cost" if any(edge.grouping == "cost" for edge in into) else "worker"


def _worker_of(into: list[Edge], stages: list[Stage]) -> Stage | None:
    """The worker in which an operator with these edges can run too: all of its rows are there, or enter there as they are."""
    if not all(map(passes, into)):
        return None
    for stage in stages:
        if stage.kind == "worker" and all(edge.start in stage.operators or edge.start == stage.fed_by for edge in into):
            return stage
    return None


def check_runnable(flow: Dataflow) -> None:
    """Refuse a dataflow that says too little to be run, or what Spark cannot do in one query."""
    for one in flow.operators:
        _check_operator(flow, one)
    check_ends(flow)
    for edge in flow.edges:
        _check_edge(flow, edge)
    _check_state(flow)


def _check_operator(flow: Dataflow, one: Operator) -> None:
    what = f"the operator {one.name!r}"
    if one.arrival and one.kind != "source":
        raise flow.error(f"{what} has an `arrival`, which is a column of a source", one)
    if one.kind == "operator":
        raise flow.error(f"{what} can be planned, not run: give it `kind: row` (or batch, frame, state) and a function", one)
    for name in _OTHERS.get(one.kind, _OF_ENDS):
        if getattr(one, name):
            raise flow.error(f"{what} is of kind {one.kind}, which has no `{name}`: leave it out", one)
    if one.kind in ("source", "sink"):
        return
    if not one.function:
        raise flow.error(f"{what} needs a `function`, as module:name", one)
    if one.kind in IN_WORKER and not one.schema:
        raise flow.error(f"{what} needs the `schema` of what leaves it, such as 'id long, score double'", one)


def _check_edge(flow: Dataflow, edge: Edge) -> None:
    what, end = f"the edge {edge.start} -> {edge.end}", flow.by_name[edge.end]
    if edge.routing != "duplicate":
        raise flow.error(f"{what} is taken by some rows only (`routing: {edge.routing}`): say which by `where`", edge)
    if edge.grouping == "duplicate" and (end.kind not in IN_WORKER or edge.instances is None or len(flow.into[edge.end]) > 1):
        raise flow.error(
            f"{what} gives every row to every instance (`grouping: duplicate`), which needs `instances`, `kind: row` or "
            "`batch` at its end and no other edge to it. All edges that leave an operator get all of its rows without it",
            edge,
        )
    if edge.grouping in ("key", "cost") and not edge.columns:
        raise flow.error(f"{what} is grouped by {edge.grouping}: name its `columns`", edge)
    if edge.columns and edge.grouping not in ("key", "cost"):
        raise flow.error(f"{what} has `columns`, which {edge.grouping} does not look at: give `grouping: key` or `cost`", edge)
    if edge.instances is not None and edge.grouping == "forward":
        raise flow.error(
            f"{what} has `instances`, and forward leaves rows where they are: give `grouping: shuffle` (or key, cost)", edge
        )
    if edge.grouping == "cost" and (end.kind != "row" or len(flow.into[edge.end]) > 1):
        raise flow.error(f"{what} is grouped by cost, which needs `kind: row` at its end and no other edge to it", edge)
    first = flow.into[edge.end][0]
    if "key" in (edge.grouping, first.grouping) and _placed(edge) != _placed(first):
        raise flow.error(
            f"{what} is grouped otherwise than {first.start} -> {edge.end}: rows of a key meet only if all edges to "
            f"{edge.end!r} have the same `grouping: key`, `columns` and `instances`",
            edge,
        )
    if end.kind == "state" and edge.grouping != "key":
        raise flow.error(f"{what} leads to state: it needs `grouping: key` and the `columns` of the key", edge)


def _placed(edge: Edge) -> tuple[object, ...]:
    return edge.grouping, edge.columns, edge.instances


def _check_state(flow: Dataflow) -> None:
    stateful = [one for one in flow.operators if one.kind == "state"]
    if len(stateful) > 1:
        raise flow.error(
            f"there is state in {stateful[0].name!r} and in {stateful[1].name!r}: one query holds one. Write what the first "
            "gives to a sink, and read it in another dataflow",
            stateful[1],
        )
    for one in stateful:
        walk = one.name
        while into := flow.into[walk]:
            if len(into) > 1:
                raise flow.error(f"{len(into)} edges lead to {walk!r}, before the state of {one.name!r}: join them before", one)
            walk = into[0].start
            if len(flow.out_of[walk]) > 1:
                raise flow.error(
                    f"{one.name!r} has state behind {walk!r}, which {len(flow.out_of[walk])} edges leave: one query cannot "
                    "hold that. Put the state before the edges part, or write to a sink and read it in another dataflow",
                    one,
                )
            if into[0].grouping in ("cost", "key") and into[0].end != one.name:
                raise flow.error(
                    f"rows are dealt out by {into[0].grouping} before the state of {one.name!r}: put the state first, or use "
                    "`grouping: shuffle` there",
                    one,
                )


def settings_of(flow: Dataflow) -> dict[str, str]:
    """Settings of Spark that a dataflow has where nobody says otherwise: state is kept where it can be moved."""
    return {_STORE: _ROCKSDB} if any(one.kind == "state" for one in flow.operators) else {}


def only_source(flow: Dataflow) -> Operator:
    """The source of a dataflow that is to be a streaming query."""
    sources = [one for one in flow.operators if one.kind == "source"]
    if len(sources) > 1:
        raise flow.error(
            f"there are {len(sources)} sources, {', '.join(one.name for one in sources)}: a streaming query reads one. Give "
            "one source a `function` of the session that returns their union, or run it as a batch",
            sources[1],
        )
    return sources[0]
