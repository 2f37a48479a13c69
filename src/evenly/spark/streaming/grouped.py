"""How a pipeline groups its placed rows, read from its plan before it starts.

A pipeline that leaves the slot out would start, and have its keys where Spark's hash puts them; one that leaves the window
out would give each slot's part of a group as if it were the group.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyspark.sql import DataFrame

from evenly.errors import InvalidParameter
from evenly.keys.placed import SLOT, Use, judge_pipeline, use_of
from evenly.spark.jvm.plan_roles import keyed_operators

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Grouped:
    """Whether a pipeline keeps state, what those of its operators group by that use the placement, and how many with state
    have the slot among what they group by."""

    stateful: bool
    placed: tuple[tuple[str, ...], ...]
    by_slot: int


def check_grouped(df: DataFrame, *, key: tuple[str, ...], slot: str, window: str | None) -> Grouped:
    """Refuse a pipeline that does not use its placement (see `judge_pipeline`)."""
    operators = keyed_operators(df)
    verdict = judge_pipeline(operators, key=key, slot=slot, window=window)
    if verdict.refusal is not None:
        raise InvalidParameter(verdict.refusal)
    for warning in verdict.warnings:
        _LOG.warning("%s", warning)
    whole = [it.names for it in operators if use_of(it, keys=len(key), windowed=window is not None) is Use.WHOLE]
    by_slot = sum(it.stateful and SLOT in (*it.roles, *(it.other_side or ())) for it in operators)
    return Grouped(any(it.stateful for it in operators), tuple(whole), by_slot)
