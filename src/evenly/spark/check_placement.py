"""Whether a result over placed rows finds them where they are, read from the plan that Spark would run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from evenly.errors import StreamingMismatch
from evenly.grouping.placed import Use, use_of
from evenly.spark.plan_roles import column_name, keyed_plan
from evenly.spark.slot_mark import MARK

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShuffledAgain:
    """A second shuffle of placed rows by their key: what it hashes by, and what the placement hashed by."""

    by: tuple[str, ...]
    placed_by: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"rows that were placed by ({', '.join(self.placed_by)}) are shuffled again by ({', '.join(self.by)}), to where "
            f"Spark's hash puts them: group, join or partition by ({', '.join(self.placed_by)})"
        )


def check_placement(df: DataFrame) -> tuple[ShuffledAgain, ...]:
    """The places where a result shuffles rows by their key that `by_key` has placed; none if all is well.

        result = placed.groupBy("user").applyInPandas(score, schema)      # the slot was forgotten
        evenly.check_placement(result)     # (ShuffledAgain(by=('user',), placed_by=('user', 'slot')),)

    Each is also logged as a warning. Nothing is run: the plan is made, as an action would make it. A shuffle by columns that
    are not of the key is not named (another question is asked there), nor is one by a range or to one partition. Rows placed
    with `slot=None` have no slot that could be forgotten. Needs a classic session. Of a streaming result its operators with
    state are judged, which must group by exactly the key and the slot (`stream_by_key` does that itself, and refuses).
    """
    if not hasattr(df, "_jdf"):
        raise StreamingMismatch("check_placement needs a classic Spark session: Spark Connect does not show its plans")
    plan = df._jdf.queryExecution()  # noqa: SLF001 - the plan has no public door
    found = tuple(dict.fromkeys(_found_streaming(df) if df.isStreaming else _found(plan.executedPlan(), ())))
    for it in found:
        _LOG.warning("%s", it)
    return found


def _found_streaming(df: DataFrame) -> Iterator[ShuffledAgain]:
    operators, placed_by = keyed_plan(df)
    for operator in operators:
        use = use_of(operator, keys=len(placed_by) - 1, windowed=False)
        if operator.stateful and use not in (Use.WHOLE, Use.ANOTHER):
            yield ShuffledAgain(operator.names, placed_by)


def _found(plan: Any, above: tuple[tuple[str, ...], ...]) -> Iterator[ShuffledAgain]:
    """`above` are the columns of the shuffles above a part of a plan, from the top."""
    kind = plan.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        yield from _found(plan.initialPlan(), above)
        return
    if kind == "ShuffleExchangeExec":
        columns = _hashed_by(plan)
        if columns and _is_slot(columns[-1]):
            placed_by = tuple(column_name(column) for column in columns)
            for by in above:
                if set(by) & set(placed_by[:-1]) and by != placed_by:
                    yield ShuffledAgain(by, placed_by)
            return
        above = (*above, tuple(column_name(column) for column in columns))
    children = plan.children()
    for at in range(children.size()):
        yield from _found(children.apply(at), above)


def _hashed_by(shuffle: Any) -> list[Any]:
    partitioning = shuffle.outputPartitioning()
    if "HashPartitioning" not in partitioning.getClass().getSimpleName():
        return []
    columns = partitioning.expressions()
    return [columns.apply(at) for at in range(columns.size())]


def _is_slot(column: Any) -> bool:
    return column.getClass().getSimpleName() == "AttributeReference" and bool(column.metadata().contains(MARK))
