"""A dataflow: operators, edges with selectivity, and the rate that reaches each operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from evenly.checks import MAX_INSTANCES
from evenly.errors import InvalidDataflow

Kind = Literal["source", "operator", "row", "batch", "frame", "state", "sink"]
EdgeRouting = Literal["duplicate", "shuffle", "key"]
EdgeGrouping = Literal["forward", "shuffle", "cost", "key", "duplicate"]
KINDS: tuple[Kind, ...] = get_args(Kind)
EDGE_ROUTINGS: tuple[EdgeRouting, ...] = get_args(EdgeRouting)
EDGE_GROUPINGS: tuple[EdgeGrouping, ...] = get_args(EdgeGrouping)
MOST_THREADS = 1_024
_TEXTS = ("model", "schema", "format", "path", "arrival")


@dataclass(frozen=True)
class Operator:
    """A vertex. `model` names its performance model; a source or sink without one uses the model `source` or `sink`.

    To be planned an operator needs no more. To be run on Spark it has a `function`, as `module:name` or, in Python, itself,
    and a `kind` that says what the function gets and gives:

    - `row`: a Row; nothing, one result or many (an iterator or list of dicts or tuples). `batch`: an Arrow batch, and another.
      Both have a `schema` of what leaves, in Spark's words, and `threads` that call at once in one task (None, `auto` in a
      file: as planned, and one without a plan).
    - `frame`: a DataFrame, and another. `state`: a DataFrame placed by key, and one with state over it, grouped by the
      columns of its edge and `slot`.
    - `source` and `sink`: `format`, `path` and `options` as `spark.readStream` and `write` take them; a sink may have a
      function of a DataFrame and the number of the batch in their place. A sink that is to hold every row `exactly_once` is
      refused if it cannot. `arrival` of a source names its column of timestamps that say when a row arrived, from which
      completion times are measured.
    """

    name: str
    model: str = ""
    kind: Kind = "operator"
    function: str | Callable[..., Any] = ""
    schema: str = ""
    threads: int | None = None
    format: str = ""
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    exactly_once: bool = False
    arrival: str = ""
    line: int = field(default=0, compare=False)

    @property
    def model_name(self) -> str:
        """The performance model that answers for the operator."""
        return self.model or (self.kind if self.kind in ("source", "sink") else self.name)


@dataclass(frozen=True)
class Edge:
    """A stream from one operator to another.

    `selectivity` (at least 0): tuples that leave for one that enters `start`. `routing` says which of them take this
    edge where an operator has several: all (`duplicate`), each in turn with the other `shuffle` edges, or the part
    `share` of the keys (`key`; equal parts where no share is given). `where` is a condition in SQL on what takes it.

    `grouping` says which instance of `end` gets a row: the one on which it is (`forward`, no shuffle), any, evenly
    (`shuffle`), by what it is expected to cost (`cost`), that of its key (`key`), or every one of them (`duplicate`). Cost and
    key have `columns`. `instances` are those of `end`.
    """

    start: str
    end: str
    selectivity: float = 1.0
    routing: EdgeRouting = "duplicate"
    share: float | None = None
    grouping: EdgeGrouping = "forward"
    columns: tuple[str, ...] = ()
    instances: int | None = None
    where: str = ""
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Dataflow:
    """Operators and edges, checked: no cycle, no unknown operator, a source and a sink on every way.

    `about` says where it comes from. Errors name the line where operators and edges carry one.
    """

    name: str
    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...]
    about: str = ""
    file: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.strip()):
            raise self.error(f"the name of a dataflow must be text, got {self.name!r}")
        if not self.operators:
            raise self.error("a dataflow needs operators: give at least a source and a sink")
        known: dict[str, Operator] = {}
        for one in self.operators:
            if one.name in known:
                raise self.error(f"the operator {one.name!r} is given twice: name each once", one)
            if one.kind not in KINDS:
                raise self.error(f"an operator's kind must be one of {', '.join(KINDS)}, got {one.kind!r}", one)
            self._check_operator(one)
            known[one.name] = one
        pairs: set[tuple[str, str]] = set()
        for edge in self.edges:
            self._check_edge(edge, known)
            if (edge.start, edge.end) in pairs:
                raise self.error(
                    f"the edge {edge.start} -> {edge.end} is given twice: give one, with both selectivities and the conditions "
                    "joined by `or`",
                    edge,
                )
            pairs.add((edge.start, edge.end))
        self._check_ends()
        self._check_shares()
        if len(self.order) < len(self.operators):
            cycle = self._cycle()
            last = next(edge for edge in self.edges if (edge.start, edge.end) == (cycle[-2], cycle[-1]))
            raise self.error(f"the edges make a cycle: {' -> '.join(cycle)}: remove one of them", last)

    def _check_operator(self, one: Operator) -> None:
        """Refuse what a file could not say either, whoever made it."""
        if not (isinstance(one.name, str) and one.name.strip()):
            raise self.error(f"an operator's name must be text, got {one.name!r}", one)
        texts = {name: getattr(one, name) for name in _TEXTS} | {f"option {key!r}": it for key, it in one.options.items()}
        for name, text in texts.items():
            if not isinstance(text, str) or (name in _TEXTS and text and not text.strip()):
                raise self.error(f"the {name} of {one.name!r} must be text, got {text!r}", one)
        if not all(isinstance(key, str) for key in one.options):
            names = ", ".join(map(repr, one.options))
            raise self.error(f"the options of {one.name!r} must be named by text, got {names}", one)
        if not isinstance(one.exactly_once, bool):
            raise self.error(f"exactly_once of {one.name!r} must be true or false, got {one.exactly_once!r}", one)
        if not _whole(one.threads, MOST_THREADS):
            raise self.error(f"the threads of {one.name!r} must be from 1 to {MOST_THREADS}, or auto, got {one.threads!r}", one)

    def _check_edge(self, edge: Edge, known: Mapping[str, Operator]) -> None:
        for name in (edge.start, edge.end):
            if name not in known:
                raise self.error(f"the edge {edge.start} -> {edge.end} names an unknown operator {name!r}", edge)
        if known[edge.start].kind == "sink":
            raise self.error(f"the sink {edge.start!r} has an edge to {edge.end!r}: a sink emits nothing", edge)
        if known[edge.end].kind == "source":
            raise self.error(f"the source {edge.end!r} has an edge from {edge.start!r}: nothing enters a source", edge)
        if not (_number(edge.selectivity) and edge.selectivity >= 0.0):
            raise self.error(
                f"the selectivity of {edge.start} -> {edge.end} must be finite and at least 0, got {edge.selectivity!r}", edge
            )
        self._check_grouping(edge)
        if edge.routing not in EDGE_ROUTINGS:
            raise self.error(f"an edge's routing must be one of {', '.join(EDGE_ROUTINGS)}, got {edge.routing!r}", edge)
        if edge.share is not None and (edge.routing != "key" or not _number(edge.share) or not 0.0 <= edge.share <= 1.0):
            what = f"the share of {edge.start} -> {edge.end}"
            raise self.error(f"{what} must be from 0 to 1 on an edge routed by key, got {edge.share!r}", edge)

    def _check_grouping(self, edge: Edge) -> None:
        if edge.grouping not in EDGE_GROUPINGS:
            raise self.error(f"an edge's grouping must be one of {', '.join(EDGE_GROUPINGS)}, got {edge.grouping!r}", edge)
        if not _whole(edge.instances, MAX_INSTANCES):
            raise self.error(
                f"the instances of {edge.start} -> {edge.end} must be from 1 to {MAX_INSTANCES}, got {edge.instances!r}", edge
            )
        if not all(isinstance(it, str) and it.strip() for it in edge.columns) or len(set(edge.columns)) < len(edge.columns):
            raise self.error(
                f"the columns of {edge.start} -> {edge.end} must be names, each once, got {', '.join(map(repr, edge.columns))}",
                edge,
            )
        if not isinstance(edge.where, str) or (edge.where and not edge.where.strip()):
            raise self.error(f"the condition of {edge.start} -> {edge.end} must be SQL, got {edge.where!r}", edge)

    def _check_ends(self) -> None:
        for kind in ("source", "sink"):
            if not any(one.kind == kind for one in self.operators):
                raise self.error(f"there is no {kind}: give one operator `kind: {kind}`")
        for one in self.operators:
            if one.kind != "source" and not self.into[one.name]:
                raise self.error(f"nothing leads to {one.name!r}: give an edge to it, or make it a source", one)
            if one.kind != "sink" and not self.out_of[one.name]:
                raise self.error(f"nothing leaves {one.name!r}: give an edge to a sink", one)

    def _check_shares(self) -> None:
        for edges in self.out_of.values():
            shares = [edge.share for edge in edges if edge.routing == "key"]
            given = [share for share in shares if share is not None]
            if given and (len(given) < len(shares) or abs(sum(given) - 1.0) > 1e-6):
                raise self.error(
                    f"the shares of the keys that leave {edges[0].start!r} must all be given and add up to 1, got {shares}",
                    edges[0],
                )

    def error(self, message: str, at: Operator | Edge | None = None) -> InvalidDataflow:
        """The error to raise about a part of it; it names the file and the line."""
        line = at.line if at is not None else 0
        place = [self.file] * bool(self.file) + [f"line {line}"] * bool(line)
        return InvalidDataflow(f"{', '.join(place)}: {message}" if place else message)

    def _cycle(self) -> list[str]:
        """One cycle among the operators that have no place in the order."""
        left = {one.name for one in self.operators} - set(self.order)
        walk = [min(left)]
        while walk.count(walk[-1]) == 1:
            walk.append(next(edge.start for edge in self.into[walk[-1]] if edge.start in left))
        return walk[walk.index(walk[-1]) :][::-1]

    @cached_property
    def by_name(self) -> dict[str, Operator]:
        """The operators by name."""
        return {one.name: one for one in self.operators}

    @cached_property
    def into(self) -> dict[str, list[Edge]]:
        """The edges that lead to each operator."""
        return self._grouped((edge.end, edge) for edge in self.edges)

    @cached_property
    def out_of(self) -> dict[str, list[Edge]]:
        """The edges that leave each operator."""
        return self._grouped((edge.start, edge) for edge in self.edges)

    def _grouped(self, pairs: Iterable[tuple[str, Edge]]) -> dict[str, list[Edge]]:
        grouped: dict[str, list[Edge]] = {one.name: [] for one in self.operators}
        for name, edge in pairs:
            grouped[name].append(edge)
        return grouped

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Breadth first from the sources, each operator after all that lead to it (operators on a cycle are missing)."""
        missing = {name: len(edges) for name, edges in self.into.items()}
        ready = [name for name, count in missing.items() if count == 0]
        for name in ready:  # grows while it is walked: the list is the queue
            for edge in self.out_of[name]:
                missing[edge.end] -= 1
                if missing[edge.end] == 0:
                    ready.append(edge.end)
        return tuple(ready)

    def part(self, edge: Edge) -> float:
        """Tuples on the edge for one tuple that enters its start."""
        copies = (edge.instances or 1) if edge.grouping == "duplicate" else 1
        if edge.routing == "duplicate":
            return edge.selectivity * copies
        if edge.share is not None:
            return edge.selectivity * edge.share
        return edge.selectivity / sum(other.routing == edge.routing for other in self.out_of[edge.start])

    def rates(self, rate: float) -> dict[str, float]:
        """The rate at each operator when every source emits `rate` tuples/s."""
        found: dict[str, float] = {}
        for name in self.order:
            edges = self.into[name]
            found[name] = sum(found[edge.start] * self.part(edge) for edge in edges) if edges else rate
        return found

    @cached_property
    def critical_path(self) -> tuple[str, ...]:
        """A longest way from a source to a sink, by the number of operators."""
        best: dict[str, tuple[str, ...]] = {}
        for name in self.order:
            before = max((best[edge.start] for edge in self.into[name]), key=len, default=())
            best[name] = (*before, name)
        return max(best.values(), key=len)


def _number(value: object) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: object, most: int) -> bool:
    """Whether it is None or a whole number from 1 on."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most)
