"""What is known of groups' times before a run, and how their measured times come back with its results."""

from __future__ import annotations

import os
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any, Literal, get_args

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructField, StructType

from evenly.costs.group_report import most_groups
from evenly.costs.group_times import GroupTimes
from evenly.errors import InvalidParameter
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping
from evenly.spark.costs.saved_costs import read_saved
from evenly.spark.keyed.keys import type_names
from evenly.spark.keyed.time_watch import REPORT, TimeWatch
from evenly.spark.placing.mapping_check import hashed_alike
from evenly.spark.remembering.store import Where
from evenly.worker.groups.layout import Timed

Balance = Literal["rows", "time"]
SavedTimes = GroupTimes | str | os.PathLike[str]

_SOME_VALUES: dict[str, Any] = {
    "boolean": False,
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "byte", "short", "integer", "long"), 0),
    **dict.fromkeys(("float", "double"), 0.0),
    **dict.fromkeys(("string", "varchar", "char"), ""),
    "decimal": Decimal(0),
    "binary": b"",
    "date": date(1970, 1, 1),
    "time": time_of_day(0),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), datetime(1970, 1, 1)),  # noqa: DTZ001 - as functions give them
    "daytimeinterval": timedelta(0),
}


def known_times(
    df: DataFrame,
    names: tuple[str, ...],
    balance: Balance,
    times: SavedTimes | None,
    watch: TimeWatch | None,
    *,
    given: Mapping | SplitMapping | None,
    remember: Where | None = None,
) -> GroupTimes | None:
    """What groups are placed by, empty in a first run and where it is remembered; None if they are placed by their rows."""
    if balance not in get_args(Balance):
        raise InvalidParameter(f"balance must be 'rows' or 'time', got {balance!r}")
    if balance == "rows":
        if times is not None:
            raise InvalidParameter("times= is given, and rows are balanced: give balance='time' too, or leave times out")
        return None
    if given is not None:
        raise InvalidParameter("a mapping says where keys go, and so does balance='time': give one of them")
    if times is not None and remember is not None:
        raise InvalidParameter("give times= or remember=, not both: what is given needs not be remembered")
    if times is None and watch is None and remember is None:
        raise InvalidParameter(
            "balance='time' needs to know times: give remember= a folder where runs leave them for the next ones, or "
            "watch=evenly.TimeWatch() to measure them in this run, and times=watch.times in the next"
        )
    types = type_names(df, names)
    if times is None:
        return GroupTimes(names, types)
    known = _loaded(df, times)
    _check_key(known, names, types)
    if not known.columns:
        known = known.copy()
        known.columns, known.types = names, types
    return known


def check_watch(watch: TimeWatch | None) -> None:
    """Refuse what is no watch, and one that was used."""
    if watch is None:
        return
    if not isinstance(watch, TimeWatch):
        raise InvalidParameter(f"watch must be a TimeWatch, got {watch!r}: make one with evenly.TimeWatch()")
    watch.check_unused()


def timed_results(schema: StructType, instances: int) -> Timed:
    """Results with a column of reports. A report's row has nulls elsewhere, or some value where there must be none."""
    others = {field.name: _some_value(field.dataType) for field in schema if not field.nullable}
    return Timed(REPORT, others, most_groups(instances))


def with_reports(schema: StructType, timed: Timed) -> StructType:
    """The schema of results and their column of reports."""
    return StructType([*schema.fields, StructField(timed.report, BinaryType())])


def _loaded(df: DataFrame, times: SavedTimes) -> GroupTimes:
    if isinstance(times, GroupTimes):
        return times
    if isinstance(times, (str, os.PathLike)) and os.fspath(times):
        content = read_saved(df.sparkSession, times, what="a saved GroupTimes, for times=")
        return GroupTimes.from_json(content, source=os.fspath(times))
    told = "a TimeWatch: give watch.times" if isinstance(times, TimeWatch) else repr(times)
    raise InvalidParameter(f"times must be a GroupTimes or the path of a saved one, got {told}")


def _check_key(times: GroupTimes, names: tuple[str, ...], types: tuple[str, ...]) -> None:
    if not times.columns:
        return
    same = [name.lower() for name in times.columns] == [name.lower() for name in names]
    if same and len(times.types) == len(types) and all(map(hashed_alike, times.types, types)):
        return
    there, here = (
        ", ".join(f"{name} ({kind})" for name, kind in zip(*told, strict=False))
        for told in ((times.columns, times.types), (names, types))
    )
    raise InvalidParameter(
        f"the times are of groups by {there}, and these are by {here}: measure times for this key, with "
        "watch=evenly.TimeWatch() and without times="
    )


def _some_value(kind: DataType) -> Any:
    if isinstance(kind, StructType):
        return {field.name: None if field.nullable else _some_value(field.dataType) for field in kind}
    if isinstance(kind, MapType):
        return {}
    if isinstance(kind, ArrayType):
        return []
    return _SOME_VALUES.get(kind.typeName().partition("(")[0].replace(" ", ""))
