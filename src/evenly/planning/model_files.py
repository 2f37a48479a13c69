"""Performance models in YAML files, and those that ship with the package.

```yaml
models:
  xml_parse:
    about: measured on one core of our workers
    points:
      - {threads: 1, rate: 310, cpu_pct: 84.7, mem_pct: 35.6}
      - {threads: 2, rates: [301, 299, 304], cpu_pct: 85.5, mem_pct: 35.8}
  source:
    static: {cpu_pct: 10, mem_pct: 1}
```

What was measured on Spark has a section of its own in the same file, `spark` (`micro_batches.files`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, cast

import yaml

from evenly.dataflow.described import Described, described, read_described
from evenly.errors import InvalidModel
from evenly.planning.micro_batches.files import plain_spark_models, spark_models
from evenly.planning.micro_batches.models import SparkModels
from evenly.planning.models import Models, PerformanceModel, Point, static_model

_ORIGINS = ("measured", "synthetic")


def read_models(path: str | os.PathLike[str]) -> Models:
    """The models of a YAML file. Errors name the file and the line."""
    return _models(read_described(path, InvalidModel))


def read_spark_models(path: str | os.PathLike[str]) -> SparkModels:
    """What was measured on Spark, of the same file; nothing if it has no such section."""
    root = read_described(path, InvalidModel)
    found = _sections(root)
    return spark_models(found["spark"]) if "spark" in found else SparkModels()


def parse_models(text: str, *, file: str = "models") -> Models:
    """The models of YAML text; `file` is how errors call it."""
    return _models(described(text, file, InvalidModel))


@cache
def shipped_models() -> Models:
    """The five operators of the model-driven paper, its source and its sink."""
    text = (files("evenly.planning") / "data" / "models.yaml").read_text(encoding="utf-8")
    return parse_models(text, file="models.yaml")


def models_yaml(models: Iterable[PerformanceModel], spark: SparkModels | None = None) -> str:
    """The models as YAML text that `read_models` reads back, and `read_spark_models` what was measured on Spark."""
    described_models: dict[str, Any] = {}
    for model in models:
        one: dict[str, Any] = {"about": model.about} if model.about else {}
        if model.is_static:
            one["static"] = {"cpu_pct": model.points[0].cpu_pct, "mem_pct": model.points[0].mem_pct}
        else:
            one["points"] = [_plain(point) for point in model.points]
        described_models[model.name] = one
    told: dict[str, Any] = {"models": described_models}
    if spark is not None and (on_spark := plain_spark_models(spark)):
        told["spark"] = on_spark
    return cast(str, yaml.safe_dump(told, sort_keys=False, default_flow_style=None, width=118))


def _plain(point: Point) -> dict[str, Any]:
    rate: dict[str, Any] = {"rates": list(point.rates)} if point.rates else {"rate": point.rate}
    origin = {} if point.origin == "measured" else {"origin": point.origin}
    return {"threads": point.threads, **rate, "cpu_pct": point.cpu_pct, "mem_pct": point.mem_pct, **origin}


def _models(root: Described) -> Models:
    found = _sections(root)
    models = found["models"].mapping("models") if "models" in found else {}
    return Models([_model(name, one) for name, one in models.items()])


def _sections(root: Described) -> dict[str, Described]:
    found = root.fields("a file of performance models", may_have=("models", "about", "spark"))
    if "models" not in found and "spark" not in found:
        raise root.error("a file of performance models needs 'models', or 'spark'")
    return found


def _model(name: str, one: Described) -> PerformanceModel:
    found = one.fields(f"the model {name!r}", may_have=("about", "points", "static"))
    about = found["about"].text("about") if "about" in found else ""
    if ("points" in found) == ("static" in found):
        raise one.error(f"the model {name!r} needs either points or static")
    try:
        if "static" in found:
            numbers = found["static"].fields("static", needs=("cpu_pct", "mem_pct"))
            cpu_pct, mem_pct = (numbers[part].number(part, least=0.0, most=100.0) for part in ("cpu_pct", "mem_pct"))
            return static_model(name, cpu_pct=cpu_pct, mem_pct=mem_pct, about=about)
        return PerformanceModel(name, tuple(_point(point) for point in found["points"].items("points")), about)
    except InvalidModel as error:
        raise error if one.file in str(error) else one.error(str(error)) from error


def _point(one: Described) -> Point:
    found = one.fields("a point", needs=("threads", "cpu_pct", "mem_pct"), may_have=("rate", "rates", "origin"))
    if ("rate" in found) == ("rates" in found):
        raise one.error("a point needs either a rate or the rates of several runs")
    if "rates" in found:
        rates = tuple(rate.number("a rate", above=0.0) for rate in found["rates"].items("rates"))
        if not rates:
            raise found["rates"].error("rates must have at least one rate")
        rate = sum(rates) / len(rates)
    else:
        rates, rate = (), found["rate"].number("a rate", above=0.0)
    cpu_pct, mem_pct = (found[part].number(part, least=0.0, most=100.0) for part in ("cpu_pct", "mem_pct"))
    origin = found["origin"].text("an origin", one_of=_ORIGINS) if "origin" in found else "measured"
    return Point(found["threads"].whole("threads", least=1, most=100_000), rate, cpu_pct, mem_pct, cast(Any, origin), rates)
