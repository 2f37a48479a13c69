"""Tells of placed rows that were shuffled again, after the action that did so, without being asked."""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import DataFrame

from evenly.spark.features import Feature, has
from evenly.spark.jvm.action_listeners import ActionListener, listen
from evenly.spark.jvm.shuffled_again import ShuffledAgain, shuffled_again
from evenly.spark.jvm.slots_apart import SlotsApart, slots_apart

_LOG = logging.getLogger(__name__)
_MOST_TOLD = 1_000
_slots: set[str] = set()


def tell_of_shuffles(df: DataFrame, slot: str) -> None:
    """Have it logged, from now on, where an action in the session of `df` forgets this slot; nothing where that cannot be."""
    if not has(df.sparkSession, Feature.PLANS) or not _LOG.isEnabledFor(logging.WARNING):
        return
    _slots.add(slot)
    try:
        listen(df.sparkSession, "placement", _listener)
    except Exception:  # noqa: BLE001 - a gateway that allows no callbacks must not stop a user's work
        _LOG.debug("shuffles of placed rows cannot be told in this session: evenly.check_placement can", exc_info=True)


class PlacementListener(ActionListener):
    """Logs each finding once."""

    def __init__(self, explicit_shuffle: Any) -> None:
        self._explicit_shuffle = explicit_shuffle
        self._told: set[ShuffledAgain | SlotsApart] = set()

    def onSuccess(self, _action: str, execution: Any, _duration_ns: int) -> None:  # noqa: N802 - Java calls it
        try:
            analyzed = execution.analyzed()
            # Most actions end here, after one look at a bit set that Spark keeps with every plan.
            if not analyzed.containsPattern(self._explicit_shuffle) or not _may_have_slot(analyzed):
                return
            plan = execution.executedPlan()
            both: list[ShuffledAgain | SlotsApart] = [*shuffled_again(plan), *slots_apart(plan)]
            for found in both:
                if found not in self._told and len(self._told) < _MOST_TOLD:
                    self._told.add(found)
                    _LOG.log(logging.ERROR if isinstance(found, SlotsApart) else logging.WARNING, "%s", found)
        except Exception:  # noqa: BLE001 - the action has succeeded, whatever is wrong here
            _LOG.debug("the plan of an action could not be read", exc_info=True)


def _listener(java: Any) -> PlacementListener:
    return PlacementListener(java.org.apache.spark.sql.catalyst.trees.TreePattern.REPARTITION_OPERATION())


def _may_have_slot(plan: Any) -> bool:
    """Whether rows may be placed in a logical plan, by its text: one call, where a walk would be several for each node."""
    shuffles = [line for line in str(plan.toString()).splitlines() if "RepartitionByExpression" in line]
    return any(f"{slot}#" in line or " more fields" in line for line in shuffles for slot in tuple(_slots))
