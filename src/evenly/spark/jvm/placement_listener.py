"""Tells of placed rows that were shuffled again, or met under slots of two mappings, after the action, without being asked."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from evenly.spark.features import Feature, has
from evenly.spark.jvm.action_listeners import ActionListener, listen
from evenly.spark.jvm.changed_keys import KeyChanged, changed_in
from evenly.spark.jvm.plan_texts import is_cut
from evenly.spark.jvm.shuffled_again import ShuffledAgain, shuffled_again
from evenly.spark.jvm.slots_apart import SlotsApart, apart_where_filtered, apart_where_joined, filter_patterns
from evenly.spark.jvm.slots_united import SlotsUnited, union_patterns, united_in

Found = ShuffledAgain | KeyChanged | SlotsApart | SlotsUnited
_LOG = logging.getLogger(__name__)
_MOST_TOLD = 1_000
_slots: set[str] = set()


def tell_of_shuffles(df: DataFrame, slot: str) -> None:
    """Have it logged, from now on, where an action in the session of `df` forgets this slot, or mixes it with those of another
    mapping; nothing where that cannot be."""
    if not has(df.sparkSession, Feature.PLANS) or not _LOG.isEnabledFor(logging.WARNING):
        return
    _slots.add(slot)
    try:
        listen(df.sparkSession, "placement", _listener)
    except Exception:  # noqa: BLE001 - a gateway that allows no callbacks must not stop a user's work
        _LOG.debug("shuffles of placed rows cannot be told in this session: evenly.check_placement can", exc_info=True)


class PlacementListener(ActionListener):
    """Logs each finding once."""

    def __init__(self, explicit_shuffle: Any, union: Any, common: Any, filters: tuple[Any, ...]) -> None:
        self._explicit_shuffle, self._union, self._common, self._filters = explicit_shuffle, union, common, filters
        self._told: set[Found] = set()

    def onSuccess(self, _action: str, execution: Any, _duration_ns: int) -> None:  # noqa: N802 - Java calls it
        try:
            for found in self._found(execution):
                if found not in self._told and len(self._told) < _MOST_TOLD:
                    self._told.add(found)
                    _LOG.log(logging.WARNING if isinstance(found, ShuffledAgain) else logging.ERROR, "%s", found)
        except Exception:  # noqa: BLE001 - the action has succeeded, whatever is wrong here
            _LOG.debug("the plan of an action could not be read", exc_info=True)

    def _found(self, execution: Any) -> Iterator[Found]:
        analyzed = execution.analyzed()
        # Most actions end here, after a look at bits that Spark keeps with every plan.
        shuffles, unites = (bool(analyzed.containsPattern(it)) for it in (self._explicit_shuffle, self._union))
        if not shuffles and not unites:
            return
        text = str(analyzed.toString())  # one call, where a walk would be several for each node
        cut = is_cut(text)  # then a slot may be in what is missing
        if unites and (cut or _has_slot(text)):
            yield from united_in(analyzed, self._union, self._common)
        if shuffles and (cut or any(_has_slot(line) for line in text.splitlines() if "RepartitionByExpression" in line)):
            plan = execution.executedPlan()
            yield from changed_in(analyzed, self._filters, (self._explicit_shuffle, self._common))
            yield from shuffled_again(plan)
            yield from apart_where_joined(plan)
            yield from apart_where_filtered(analyzed, self._filters)


def _listener(java: Any) -> PlacementListener:
    return PlacementListener(
        java.org.apache.spark.sql.catalyst.trees.TreePattern.REPARTITION_OPERATION(),
        *union_patterns(java),
        filters=filter_patterns(java),
    )


def _has_slot(text: str) -> bool:
    """Whether a slot may be in the text of a plan, which leaves columns out where there are many."""
    return " more fields" in text or any(f"{slot}#" in text for slot in tuple(_slots))
