"""What a caller may choose, checked before anything runs."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenly.checks import checked_instances, checked_whole
from evenly.costs.call_options import ONE_ROW_AT_A_TIME, CallOptions, checked_call
from evenly.errors import ColumnConflict, InvalidParameter
from evenly.instances import ChosenInstances, Instances, asked_instances, choose_instances
from evenly.spark.frames import empty_frame
from evenly.spark.jvm.session_slots import session_slots
from evenly.spark.keyed.keys import named
from evenly.worker.letters import ERROR

Objective = Literal["batch-time", "completion", "arrival"]
CostKey = str | Sequence[str]
_LOCAL = re.compile(r"local(\[[^,\]]*(,\s*(?P<failures>\d+)\s*)?\])?")
_parsed: dict[tuple[str, str | None], StructType] = {}
_MOST_ROUTERS = 1_000
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class StageOptions:
    """How the rows of a stage are placed, and how the function is called for them; each value in its range."""

    instances: int
    objective: Objective = "completion"
    routers: int | None = None
    call: CallOptions = ONE_ROW_AT_A_TIME
    pieces: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "instances", checked_instances(self.instances))
        if self.objective not in get_args(Objective):
            raise InvalidParameter(
                f"objective must be one of {', '.join(map(repr, get_args(Objective)))}, got {self.objective!r}"
            )
        if not isinstance(self.pieces, bool | None):
            raise InvalidParameter(f"pieces must be True, False or None, got {self.pieces!r}")
        if self.routers is not None:
            object.__setattr__(self, "routers", checked_whole(self.routers, "routers", 1, _MOST_ROUTERS))
        checked_call(self.call)

    @property
    def order(self) -> Literal["content", "arrival"]:
        """What rows are sorted by before they are dealt out."""
        return "arrival" if self.objective == "arrival" else "content"


def checked_schema(df: DataFrame, schema: StructType | str, *, skip: bool) -> StructType:
    """The schema of the results, parsed by Spark."""
    # What "timestamp" means in a text is a setting of the session, which may change.
    asked = (str(schema), df.sparkSession.conf.get("spark.sql.timestampType", None))
    parsed = schema if isinstance(schema, StructType) else _parsed.get(asked)
    if parsed is None:
        parsed = _parsed[asked] = empty_frame(df.sparkSession, schema).schema
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


def slots_for(spark: Any, instances: Instances) -> ChosenInstances:
    """As many instances as asked for, or, for "auto", as the session has slots; that is logged."""
    asked = asked_instances(instances)
    if isinstance(asked, int):
        return ChosenInstances(asked, "")
    found = choose_instances(session_slots(spark))
    _LOG.info("%s", found)
    return found


def checked_key(key: CostKey) -> tuple[str, ...]:
    """The expressions of a cost key."""
    return named(key, "cost_key")
