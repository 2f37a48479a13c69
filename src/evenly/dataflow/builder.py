"""A dataflow built in Python: the same object that a YAML file describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from evenly.dataflow.graph import Dataflow, Edge, EdgeGrouping, EdgeRouting, Kind, Operator
from evenly.errors import InvalidDataflow

Function = str | Callable[..., Any]
Threads = int | Literal["auto"] | None
Options = Mapping[str, object]
"""Text, numbers and truth values by name."""


class Flow:
    """Operators and the streams between them, added one by one.

        flow = evenly.Flow("sizes")
        urls = flow.source("urls", format="parquet", path="/data/urls")
        sizes = urls.shuffle(instances=16).row(fetch, schema="size long", threads=8)
        sizes.where("size > 0").sink("kept", format="parquet", path="/data/sizes")

    `dataflow()` is what was built, checked; `evenly.run` runs it. An operator is named after its function, unless `name` says
    otherwise.
    """

    def __init__(self, name: str, about: str = "") -> None:
        self._name, self._about = name, about
        self._operators: dict[str, Operator] = {}
        self._edges: list[Edge] = []

    def source(
        self,
        name: str,
        *,
        format: str = "",  # noqa: A002 - as Spark calls it
        path: str = "",
        schema: str = "",
        options: Options | None = None,
        function: Function = "",
        arrival: str = "",
        model: str = "",
    ) -> Stream:
        """Rows from outside: a format of `spark.readStream` with its options, or a function of the session. `arrival` names the
        column that says when a row arrived."""
        more = _options(options)
        one = Operator(name, model, "source", function, schema, format=format, path=path, options=more, arrival=arrival)
        return self._added(one, ())

    def dataflow(self) -> Dataflow:
        """What was built."""
        return Dataflow(self._name, tuple(self._operators.values()), tuple(self._edges), self._about)

    def _added(self, one: Operator, into: tuple[Edge, ...]) -> Stream:
        if one.name in self._operators:
            raise InvalidDataflow(f"the operator {one.name!r} is there already: give another name=")
        self._operators[one.name] = one
        self._edges.extend(replace(edge, end=one.name) for edge in into)
        return Stream(self, (Edge(one.name, ""),))


@dataclass(frozen=True, eq=False)
class Stream:
    """What leaves an operator, on its way to the next: how it is grouped there, and under which condition."""

    flow: Flow
    edges: tuple[Edge, ...] = field(repr=False)

    def shuffle(self, instances: int | None = None) -> Stream:
        """To any instance of the next operator, evenly."""
        return self._with("shuffle", (), instances)

    def by_cost(self, *cost_key: str, instances: int | None = None) -> Stream:
        """By what rows are expected to cost, which depends on these columns."""
        return self._with("cost", cost_key, instances)

    def by_key(self, *columns: str, instances: int | None = None) -> Stream:
        """To the instance of their key."""
        return self._with("key", columns, instances)

    def duplicate(self, instances: int) -> Stream:
        """To every instance of the next operator: each row is there `instances` times."""
        return self._with("duplicate", (), instances)

    def where(self, condition: str) -> Stream:
        """Only rows for which a condition in SQL holds, and all that were given before."""
        if not (isinstance(condition, str) and condition.strip()):
            raise InvalidDataflow(f"a condition must be SQL, got {condition!r}")
        return Stream(self.flow, tuple(replace(edge, where=_both(edge.where, condition)) for edge in self.edges))

    def selectivity(self, selectivity: float) -> Stream:
        """How many rows take this way for one that enters its operator: for planning."""
        return Stream(self.flow, tuple(replace(edge, selectivity=selectivity) for edge in self.edges))

    def routed(self, routing: EdgeRouting, share: float | None = None) -> Stream:
        """Which rows take this way where several leave an operator: for planning. `where` says it for a run."""
        return Stream(self.flow, tuple(replace(edge, routing=routing, share=share) for edge in self.edges))

    def and_also(self, *others: Stream) -> Stream:
        """This stream and others, all into the next operator."""
        if any(other.flow is not self.flow for other in others):
            raise InvalidDataflow("a stream of another Flow cannot be joined: build both in one")
        return Stream(self.flow, (*self.edges, *(edge for other in others for edge in other.edges)))

    def operator(
        self, name: str, *, model: str = "", function: Function = "", schema: str = "", threads: Threads = None
    ) -> Stream:
        """An operator to be planned, not run: its performance model is all that is known of it."""
        return self._operator("operator", function, name, model=model, schema=schema, threads=threads)

    def row(self, function: Function, *, schema: str, threads: Threads = None, name: str = "", model: str = "") -> Stream:
        """A function of a Row that gives nothing, one result or many. Threads are `auto` (as planned, else 1) or a number."""
        return self._operator("row", function, name, model=model, schema=schema, threads=threads)

    def batch(self, function: Function, *, schema: str, threads: Threads = None, name: str = "", model: str = "") -> Stream:
        """A function of an Arrow batch that gives another."""
        return self._operator("batch", function, name, model=model, schema=schema, threads=threads)

    def frame(self, function: Function, *, name: str = "", model: str = "") -> Stream:
        """A function of a DataFrame that gives another: Spark itself."""
        return self._operator("frame", function, name, model=model)

    def state(self, function: Function, *, name: str = "", model: str = "") -> Stream:
        """A function of a DataFrame placed by key that gives another with state, grouped by the key and `slot`."""
        return self._operator("state", function, name, model=model)

    def sink(
        self,
        name: str,
        *,
        format: str = "",  # noqa: A002 - as Spark calls it
        path: str = "",
        options: Options | None = None,
        function: Function = "",
        exactly_once: bool = False,
        model: str = "",
    ) -> None:
        """Where rows go: a format of `DataFrame.write` with its options, or a function of a DataFrame and a batch's number.

        `exactly_once` refuses the dataflow if this sink may hold a row twice."""
        one = Operator(
            name, model, "sink", function, format=format, path=path, options=_options(options), exactly_once=exactly_once
        )
        self.flow._added(one, self.edges)  # noqa: SLF001 - of this module

    def _operator(
        self, kind: Kind, function: Function, name: str, *, model: str, schema: str = "", threads: Threads = None
    ) -> Stream:
        called = None if threads == "auto" else threads
        one = Operator(name or _named(function), model, kind, function, schema=schema, threads=called)
        return self.flow._added(one, self.edges)  # noqa: SLF001 - of this module

    def _with(self, grouping: EdgeGrouping, columns: tuple[str, ...], instances: int | None) -> Stream:
        changed = [replace(edge, grouping=grouping, columns=columns, instances=instances) for edge in self.edges]
        return Stream(self.flow, tuple(changed))


def _options(options: Options | None) -> dict[str, str]:
    """Options as Spark takes them, and as a file says them."""
    found = dict(options or {})
    return {name: _told(value) for name, value in found.items()}


def _told(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else cast(str, value)


def _both(one: str, other: str) -> str:
    return f"({_ended(one)}) and ({_ended(other)})" if one else other


def _ended(condition: str) -> str:
    return f"{condition}\n" if "--" in condition else condition  # it may end with a comment


def _named(function: Function) -> str:
    found = function.rpartition(":")[2] if isinstance(function, str) else getattr(function, "__name__", "")
    if not found or found == "<lambda>":
        raise InvalidDataflow(f"{function!r} has no name: give name=")
    return found
