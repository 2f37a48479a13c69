"""How a pipeline groups its placed rows, read from its plan before it starts.

A pipeline that leaves the slot out would start, and have its keys where Spark's hash puts them; one that leaves the window
out would give each slot's part of a group as if it were the group.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyspark.sql import DataFrame

from evenly.errors import InvalidParameter
from evenly.keys.mapping import Mapping
from evenly.keys.placed import SLOT, Use, judge_beside, judge_pipeline, use_of, why_kept
from evenly.spark.jvm.changed_keys import keys_changed
from evenly.spark.jvm.plan_roles import keyed_operators
from evenly.spark.jvm.slots_beside import slots_beside

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Grouped:
    """Whether a pipeline keeps state, what those of its operators group by that use the placement, and how many with state
    have the slot among what they group by. `fixed`: why its mapping cannot change, whatever its state is kept by."""

    stateful: bool
    placed: tuple[tuple[str, ...], ...]
    by_slot: int
    fixed: str | None = None


def check_grouped(df: DataFrame, *, key: tuple[str, ...], slot: str, window: str | None, mapping: Mapping) -> Grouped:
    """Refuse a pipeline that does not use its placement (`judge_pipeline`), that groups or joins by the slot and what it has
    computed of the key (`keys_changed`), without state too, or in which rows under `mapping`, the one in force,
    meet rows that another one has placed (`judge_beside`)."""
    operators = keyed_operators(df)
    verdict = judge_pipeline(operators, key=key, slot=slot, window=window)
    if verdict.refusal is not None:
        raise InvalidParameter(verdict.refusal)
    for warning in verdict.warnings:
        _LOG.warning("%s", warning)
    for changed in keys_changed(df):
        raise InvalidParameter(str(changed))
    beside = judge_beside(slots_beside(df), in_force=mapping.placing, version=mapping.version, slot=slot, window=window)
    if beside.refusal is not None:
        raise InvalidParameter(beside.refusal)
    if beside.warning is not None:
        _LOG.warning("%s", beside.warning)
    whole = [it.names for it in operators if use_of(it, keys=len(key), windowed=window is not None) is Use.WHOLE]
    by_slot = sum(it.stateful and SLOT in (*it.roles, *(it.other_side or ())) for it in operators)
    return Grouped(any(it.stateful for it in operators), tuple(whole), by_slot, beside.fixed or why_kept(operators, slot=slot))
