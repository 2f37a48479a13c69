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
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import cast

from evenly.dataflow.described import Described, described, read_described
from evenly.dataflow.graph import EDGE_KINDS, EDGE_ROUTINGS, Dataflow, Edge, EdgeRouting, Kind, Operator
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
    about = found["about"].text("about") if "about" in found else ""
    return Dataflow(found["dataflow"].text("the name of a dataflow"), operators, edges, about, root.file)


def _operator(name: str, one: Described) -> Operator:
    if one.value is None:
        return Operator(name, line=one.line)
    found = one.fields(f"the operator {name!r}", may_have=("model", "kind", "function"))
    kind = found["kind"].text("an operator's kind", one_of=EDGE_KINDS) if "kind" in found else "operator"
    model = found["model"].text("an operator's model") if "model" in found else ""
    function = found["function"].text("an operator's function") if "function" in found else ""
    return Operator(name, model, cast(Kind, kind), function, one.line)


def _edge(one: Described) -> Edge:
    if isinstance(one.value, list):
        ends = [end.text("the end of an edge") for end in one.value]
        if len(ends) != 2:
            raise one.error(f"an edge in brackets is [from, to], got {len(ends)} names")
        return Edge(ends[0], ends[1], line=one.line)
    found = one.fields("an edge", needs=("from", "to"), may_have=("selectivity", "routing", "share"))
    selectivity = found["selectivity"].number("a selectivity", least=0.0) if "selectivity" in found else 1.0
    routing = found["routing"].text("an edge's routing", one_of=EDGE_ROUTINGS) if "routing" in found else "duplicate"
    share = found["share"].number("a share", least=0.0, most=1.0) if "share" in found else None
    start, end = (found[name].text("the end of an edge") for name in ("from", "to"))
    return Edge(start, end, selectivity, cast(EdgeRouting, routing), share, one.line)
