"""What was measured on Spark in a YAML file, beside other performance models:

```yaml
models: {}
spark:
  engine: {slots: 2, cores_per_slot: 0.98, batch_s: 0.21, stage_s: 0.05, sink_s: 0.06, task_s: 0.01, moved_row_s: 2.0e-06}
  operators:
    parse:
      slots: 2
      longest_row_s: 0.004
      of: {kind: row, function: "clicks:parse", code: 3f1c0a52b7d9e846, schema: "user string", takes: "line string"}
      points:
        - {threads: 1, rows_per_s: 310, cpu_row_s: 0.0031}
  frames:
    joined: {slots: 2, row_s: 2.1e-06, fixed_s: 0.07, shuffles: 1, sample: 256, left: 256, left_of_half: 128}
  edges:
    clicks:
      - {from: source, to: parse, rows: 1.0, where: ""}
```
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from evenly.dataflow.described import Described
from evenly.dataflow.subjects import Subject
from evenly.dataflow.tuning import Way
from evenly.errors import InvalidModel
from evenly.planning.micro_batches.curves import CurvePoint, SlotCurve
from evenly.planning.micro_batches.engine import EngineCosts
from evenly.planning.micro_batches.frame_costs import FrameCost
from evenly.planning.micro_batches.models import MeasuredEdge, SparkModels

_DIGITS = 6
_NUMBERS = ("longest_row_s", "memory_mib")


def spark_models(one: Described) -> SparkModels:
    """The section `spark` of a file."""
    found = one.fields("what was measured on Spark", may_have=("engine", "operators", "frames", "edges"))
    operators = found["operators"].mapping("operators") if "operators" in found else {}
    frames = found["frames"].mapping("frames") if "frames" in found else {}
    edges = found["edges"].mapping("edges") if "edges" in found else {}
    return SparkModels(
        _engine(found["engine"]) if "engine" in found else None,
        {name: _curve(name, it) for name, it in operators.items()},
        {name: dict(_edge(way) for way in it.items("edges of a dataflow")) for name, it in edges.items()},
        {name: _frame(name, it) for name, it in frames.items()},
    )


def plain_spark_models(models: SparkModels) -> dict[str, Any]:
    """The same as plain data, to be written."""
    told: dict[str, Any] = {}
    if models.engine is not None:
        told["engine"] = _plain(asdict(models.engine))
    if models.curves:
        told["operators"] = {name: _plain_curve(curve) for name, curve in models.curves.items()}
    if models.frames:
        told["frames"] = {name: _plain_frame(frame) for name, frame in models.frames.items()}
    if models.edges:
        told["edges"] = {
            name: [_plain_edge(way, measured) for way, measured in ways.items()] for name, ways in models.edges.items()
        }
    return told


def _plain_edge(way: Way, measured: MeasuredEdge) -> dict[str, Any]:
    told = {"from": way[0], "to": way[1], "rows": _short(measured.rows)}
    return told if measured.where is None else {**told, "where": measured.where}


def _plain_curve(curve: SlotCurve) -> dict[str, Any]:
    told = _plain({it.name: getattr(curve, it.name) for it in fields(curve) if it.name not in ("name", "points", "of")})
    if curve.of is not None:
        told["of"] = _plain(asdict(curve.of))
    return {**told, "points": [_plain(asdict(point)) for point in curve.points]}


def _plain_frame(frame: FrameCost) -> dict[str, Any]:
    told = _plain({it.name: getattr(frame, it.name) for it in fields(frame) if it.name not in ("name", "of")})
    return told if frame.of is None else {**told, "of": _plain(asdict(frame.of))}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _short(value) if isinstance(value, float) else value for name, value in values.items() if value != ""}


def _short(value: float) -> float:
    """Digits that were measured; the rest would only look as if they were."""
    return float(f"{value:.{_DIGITS}g}")


def _engine(one: Described) -> EngineCosts:
    names = [it.name for it in fields(EngineCosts)]
    found = one.fields("the costs of Spark itself", needs=("slots",), may_have=tuple(names[1:]))
    numbers = {name: found[name].number(name, least=0.0) for name in names[1:-1] if name in found}
    about = found["about"].text("about") if "about" in found else ""
    try:
        return EngineCosts(found["slots"].whole("slots", least=1), about=about, **numbers)
    except InvalidModel as error:
        raise one.error(str(error)) from error


def _curve(name: str, one: Described) -> SlotCurve:
    found = one.fields(f"the operator {name!r}", needs=("points",), may_have=(*_NUMBERS, "slots", "about", "of"))
    points = tuple(_point(point) for point in found["points"].items("points"))
    numbers = {it: found[it].number(it, least=0.0) for it in _NUMBERS if it in found}
    slots = found["slots"].whole("slots", least=1) if "slots" in found else 1
    about = found["about"].text("about") if "about" in found else ""
    of = _subject(found["of"]) if "of" in found else None
    try:
        return SlotCurve(name, points, slots, about=about, of=of, **numbers)
    except InvalidModel as error:
        raise one.error(str(error)) from error


def _frame(name: str, one: Described) -> FrameCost:
    numbers, counts = ("row_s", "fixed_s"), ("slots", "shuffles", "tasks", "sample", "left", "left_of_half", "keys", "late")
    found = one.fields(f"the operator {name!r}", needs=("row_s",), may_have=("fixed_s", *counts, "merges", "about", "of"))
    given: dict[str, Any] = {it: found[it].number(it, least=0.0) for it in numbers if it in found}
    given |= {it: found[it].whole(it, least=int(it == "slots")) for it in counts if it in found}
    given |= {"merges": found["merges"].truth("merges")} if "merges" in found else {}
    about = found["about"].text("about") if "about" in found else ""
    return FrameCost(name, about=about, of=_subject(found["of"]) if "of" in found else None, **given)


def _subject(one: Described) -> Subject:
    names = [it.name for it in fields(Subject)]
    found = one.fields("what was measured", needs=("kind",), may_have=tuple(names[1:]))
    return Subject(**{name: found[name].text(name, blank=True) for name in names if name in found})


def _point(one: Described) -> CurvePoint:
    found = one.fields("a point", needs=("threads", "rows_per_s"), may_have=("cpu_row_s",))
    cpu_row_s = found["cpu_row_s"].number("cpu_row_s", least=0.0) if "cpu_row_s" in found else 0.0
    threads = found["threads"].whole("threads", least=1, most=100_000)
    return CurvePoint(threads, found["rows_per_s"].number("rows_per_s", above=0.0), cpu_row_s)


def _edge(one: Described) -> tuple[Way, MeasuredEdge]:
    found = one.fields("an edge", needs=("from", "to", "rows"), may_have=("where",))
    where = found["where"].text("where", blank=True) if "where" in found else None
    way = found["from"].text("from"), found["to"].text("to")
    return way, MeasuredEdge(found["rows"].number("rows", least=0.0), where)
