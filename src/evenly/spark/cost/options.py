"""What a caller may choose, checked before anything runs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, cast, get_args

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenly.errors import ColumnConflict, InvalidParameter
from evenly.grouping.base import checked_instances, checked_whole
from evenly.spark.cost.letters import ERROR
from evenly.spark.keys import named

Objective = Literal["batch-time", "completion", "arrival"]
OnError = Literal["fail", "skip"]
CostKey = str | Sequence[str]
_LOCAL = re.compile(r"local(\[[^,\]]*(,\s*(?P<failures>\d+)\s*)?\])?")
_parsed: dict[tuple[str, str | None], StructType] = {}
_MOST_THREADS, _MOST_RETRIES, _MOST_ROUTERS, _MOST_BATCH_ROWS = 1_000, 100, 1_000, 1_000_000


@dataclass(frozen=True)
class Options:
    """How rows are run."""

    instances: int
    objective: Objective = "completion"
    batch_rows: int | None = None
    threads: int = 1
    on_error: OnError = "fail"
    retries: int = 0
    time_limit_s: float | None = None
    routers: int | None = None

    @property
    def order(self) -> Literal["content", "arrival"]:
        """What rows are sorted by before they are dealt out."""
        return "arrival" if self.objective == "arrival" else "content"

    @property
    def skip(self) -> bool:
        return self.on_error == "skip"


def checked_options(function: Any, **given: Any) -> Options:
    """The options, if each is in its range."""
    if not callable(function):
        raise InvalidParameter(f"function must be a function of a row, got {function!r}")
    for name, allowed in (("objective", get_args(Objective)), ("on_error", get_args(OnError))):
        if given[name] not in allowed:
            raise InvalidParameter(f"{name} must be one of {', '.join(map(repr, allowed))}, got {given[name]!r}")
    limit_s = given["time_limit_s"]
    number = isinstance(limit_s, Real) and not isinstance(limit_s, bool)
    if limit_s is not None and not (number and 0.0 < limit_s < math.inf):
        raise InvalidParameter(f"time_limit_s must be a number of seconds above 0, or None, got {limit_s!r}")
    return Options(
        instances=checked_instances(given["instances"]),
        objective=cast("Objective", given["objective"]),
        batch_rows=_whole(given["batch_rows"], "batch_rows", _MOST_BATCH_ROWS),
        threads=checked_whole(given["threads"], "threads", 1, _MOST_THREADS),
        on_error=cast("OnError", given["on_error"]),
        retries=checked_whole(given["retries"], "retries", 0, _MOST_RETRIES),
        time_limit_s=None if limit_s is None else float(limit_s),
        routers=_whole(given["routers"], "routers", _MOST_ROUTERS),
    )


def _whole(value: int | None, name: str, most: int) -> int | None:
    return None if value is None else checked_whole(value, name, 1, most)


def checked_schema(df: DataFrame, schema: StructType | str, *, skip: bool) -> StructType:
    """The schema of the results, parsed by Spark."""
    # What "timestamp" means in a text is a setting of the session, which may change.
    asked = (str(schema), df.sparkSession.conf.get("spark.sql.timestampType", None))
    parsed = schema if isinstance(schema, StructType) else _parsed.get(asked)
    if parsed is None:
        parsed = _parsed[asked] = df.sparkSession.createDataFrame([], schema).schema
    if not parsed.fields:
        raise InvalidParameter("schema has no field: name what the function returns, such as 'score double'")
    twice = [name for name in parsed.names if parsed.names.count(name) > 1]
    if twice:
        raise ColumnConflict(f"the schema names the field {twice[0]!r} twice: give each field its own name")
    taken = [name for name in parsed.names if name.lower().startswith("__evenly_") or (skip and name.lower() == ERROR)]
    if taken:
        raise ColumnConflict(f"the schema has a field {taken[0]!r}, a name that Evenly uses: choose another one")
    return parsed


def one_attempt(df: DataFrame) -> bool:
    """Whether Spark gives up a task that has failed once: on a local master, unless it says otherwise (`local[4,2]`)."""
    settings = df.sparkSession.conf
    local = _LOCAL.fullmatch(settings.get("spark.master", None) or "")
    failures = (local["failures"] or "1") if local else settings.get("spark.task.maxFailures", "4")
    return failures == "1"


def checked_key(key: CostKey) -> tuple[str, ...]:
    """The expressions of a cost key."""
    return named(key, "cost_key")
