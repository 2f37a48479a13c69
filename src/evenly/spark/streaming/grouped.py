"""How a pipeline groups its placed rows, read from its plan before it starts.

Rows whose slot depends on their window must be grouped by the window too. A pipeline that leaves it out would start, and give
each slot's part of a group as if it were the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from evenly.errors import InvalidParameter

_GROUPING = ("groupingExpressions", "groupingAttributes", "keys")
"""Where Spark's logical operators keep what they group by: aggregates, functions with state, deduplications."""


def check_grouping(df: DataFrame, *, slot: str, window: str | None) -> None:
    """Refuse a plan that groups by the slot of windowed rows and not by their window."""
    if window is None:
        return
    for names in _groupings(df._jdf.queryExecution().analyzed()):  # noqa: SLF001 - the plan has no public door
        if slot in names and window not in names:
            raise InvalidParameter(
                f"the pipeline groups by ({', '.join(names)}), and window={window!r} was given: group by {window!r}, the key "
                f"and {slot!r}, or leave window= out if groups are not of one window"
            )


def _groupings(plan: Any) -> Iterator[list[str]]:
    for place in _GROUPING:
        try:
            found = getattr(plan, place)()
        except Py4JError:
            continue  # this operator does not group
        yield [_name(found.apply(at)) for at in range(found.size())]
        break
    children = plan.children()
    for at in range(children.size()):
        yield from _groupings(children.apply(at))


def _name(expression: Any) -> str:
    try:
        return str(expression.name())
    except Py4JError:
        return str(expression.sql())
