"""Dataflows read from YAML files, and those that ship with the package.

```yaml
dataflow: clicks
operators:
  source: {kind: source}
  parse: {model: xml_parse}
  store: {model: batch_file_write}
  sink: {kind: sink}
edges:
  - [source, parse]
  - {from: parse, to: store, selectivity: 0.5}
  - [store, sink]
```

To be run as well, operators have functions and ends have formats (`Operator` and `Edge` say what each field means):

```yaml
dataflow: sizes
operators:
  urls: {kind: source, format: parquet, path: /data/urls, schema: "host string, path string"}
  fetch: {kind: row, function: "mymodule:fetch", schema: "host string, size long", threads: 8}
  kept: {kind: sink, format: parquet, path: /data/sizes}
edges:
  - {from: urls, to: fetch, grouping: shuffle, instances: 16}
  - [fetch, kept]
```
"""

from __future__ import annotations

import os
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import cast

import yaml

from evenly.checks import MAX_INSTANCES
from evenly.dataflow.described import Described, described, read_described
from evenly.dataflow.functions import target_of
from evenly.dataflow.graph import (
    EDGE_GROUPINGS,
    EDGE_ROUTINGS,
    KINDS,
    MOST_THREADS,
    Dataflow,
    Edge,
    EdgeGrouping,
    EdgeRouting,
    Kind,
    Operator,
)
from evenly.errors import InvalidDataflow

_SHIPPED = files("evenly.dataflow") / "data"


def read_dataflow(path: str | os.PathLike[str]) -> Dataflow:
    """The dataflow that a YAML file describes. Errors name the file and the line."""
    return _dataflow(read_described(path, InvalidDataflow))


def parse_dataflow(text: str, *, file: str = "dataflow") -> Dataflow:
    """The dataflow that YAML text describes; `file` is how errors call it."""
    return _dataflow(described(text, file, InvalidDataflow))


def shipped_names() -> list[str]:
    """The dataflows that ship with the package: the six of the model-driven paper, and one that can be run here."""
    order = ["linear", "diamond", "star", "traffic", "finance", "grid"]
    found = {one.name.removesuffix(".yaml") for one in _SHIPPED.iterdir() if one.name.endswith(".yaml")}
    return [name for name in order if name in found] + sorted(found - set(order))


def shipped_dataflow(name: str) -> Dataflow:
    """A dataflow that ships with the package, by its name."""
    if name not in shipped_names():
        raise InvalidDataflow(f"no dataflow {name!r} ships with Evenly: choose from {', '.join(shipped_names())}")
    return parse_dataflow((_SHIPPED / f"{name}.yaml").read_text(encoding="utf-8"), file=f"{name}.yaml")


def find_dataflow(name: str) -> Dataflow:
    """A file if there is one of that name, else a shipped dataflow."""
    if Path(name).is_file():
        return read_dataflow(name)
    if name in shipped_names():
        return shipped_dataflow(name)
    raise InvalidDataflow(f"{name} is neither a file nor a shipped dataflow: those are {', '.join(shipped_names())}")


def _dataflow(root: Described) -> Dataflow:
    found = root.fields("a dataflow", needs=("dataflow", "operators", "edges"), may_have=("about",))
    operators = tuple(_operator(name, one) for name, one in found["operators"].mapping("operators").items())
    edges = tuple(_edge(one) for one in found["edges"].items("edges"))
    about = found["about"].text("about", blank=True) if "about" in found else ""
    return Dataflow(found["dataflow"].text("the name of a dataflow"), operators, edges, about, root.file)


def _operator(name: str, one: Described) -> Operator:
    if one.value is None:
        return Operator(name, line=one.line)
    written = ("model", "function", "schema", "format", "path", "arrival")
    found = one.fields(f"the operator {name!r}", may_have=(*written, "kind", "threads", "options", "exactly_once"))
    texts = {it: found[it].text(f"an operator's {it}") for it in written if it in found}
    kind = found["kind"].text("an operator's kind", one_of=KINDS) if "kind" in found else "operator"
    options = {key: _option(key, it) for key, it in found["options"].mapping("options").items()} if "options" in found else {}
    threads = _threads(found.get("threads"))
    once = "exactly_once" in found and found["exactly_once"].truth("exactly_once")
    return Operator(name, kind=cast(Kind, kind), threads=threads, options=options, exactly_once=once, line=one.line, **texts)


def _threads(one: Described | None) -> int | None:
    if one is None or one.value == "auto":
        return None
    return one.whole("threads (or auto)", least=1, most=MOST_THREADS)


def _option(name: str, one: Described) -> str:
    """As it is written: YAML reads `no` as false, 1.10 as 1.1, 010 as 8 and 10:30 as 630."""
    if isinstance(one.value, bool):
        return one.written.lower() if one.written.lower() in ("true", "false") else one.written
    if isinstance(one.value, (int, float)):
        return one.written
    return one.text(f"the option {name!r}", blank=True)  # a separator may be a blank, and an option empty


def _edge(one: Described) -> Edge:
    if isinstance(one.value, list):
        ends = [end.text("the end of an edge") for end in one.value]
        if len(ends) != 2:
            raise one.error(f"an edge in brackets is [from, to], got {len(ends)} names")
        return Edge(ends[0], ends[1], line=one.line)
    may_have = ("selectivity", "routing", "share", "grouping", "columns", "instances", "where")
    found = one.fields("an edge", needs=("from", "to"), may_have=may_have)
    start, end = (found[name].text("the end of an edge") for name in ("from", "to"))
    return Edge(
        start,
        end,
        selectivity=found["selectivity"].number("a selectivity", least=0.0) if "selectivity" in found else 1.0,
        routing=cast(EdgeRouting, _one_of(found, "routing", EDGE_ROUTINGS)),
        share=found["share"].number("a share", least=0.0, most=1.0) if "share" in found else None,
        grouping=cast(EdgeGrouping, _one_of(found, "grouping", EDGE_GROUPINGS)),
        columns=_columns(found.get("columns")),
        instances=found["instances"].whole("instances", least=1, most=MAX_INSTANCES) if "instances" in found else None,
        where=found["where"].text("a condition") if "where" in found else "",
        line=one.line,
    )


def _one_of(found: dict[str, Described], name: str, choices: tuple[str, ...]) -> str:
    """What is given, or the first of the choices."""
    return found[name].text(f"an edge's {name}", one_of=choices) if name in found else choices[0]


def _columns(one: Described | None) -> tuple[str, ...]:
    if one is None:
        return ()
    if isinstance(one.value, list):
        return tuple(it.text("a column") for it in one.value)
    return (one.text("columns"),)


def dataflow_yaml(flow: Dataflow) -> str:
    """A dataflow as YAML that reads back as the same dataflow. Functions are written by the names that import them."""
    told: dict[str, object] = {"dataflow": flow.name}
    if flow.about:
        told["about"] = flow.about
    told["operators"] = {one.name: _operator_fields(one) or None for one in flow.operators}
    told["edges"] = [_edge_fields(edge) for edge in flow.edges]
    text = _dumped(told, allow_unicode=True)
    # PyYAML folds these as if they were line ends, and they are gone when it reads them.
    return _dumped(told, allow_unicode=False) if any(mark in text for mark in "\x85\u2028\u2029") else text


def _dumped(told: dict[str, object], *, allow_unicode: bool) -> str:
    return str(yaml.safe_dump(told, sort_keys=False, allow_unicode=allow_unicode, width=120))


def _operator_fields(one: Operator) -> dict[str, object]:
    usual = Operator(one.name)
    found = {it.name: getattr(one, it.name) for it in fields(one) if it.name not in ("name", "line")}
    found["function"] = target_of(one.function) if one.function else ""
    found["options"] = dict(one.options)
    return {name: value for name, value in found.items() if value != getattr(usual, name)}


def _edge_fields(edge: Edge) -> object:
    usual = Edge(edge.start, edge.end)
    names = [it.name for it in fields(edge) if it.name not in ("start", "end", "line")]
    more = {name: getattr(edge, name) for name in names if getattr(edge, name) != getattr(usual, name)}
    if "columns" in more:
        more["columns"] = list(edge.columns)
    return {"from": edge.start, "to": edge.end, **more} if more else [edge.start, edge.end]
