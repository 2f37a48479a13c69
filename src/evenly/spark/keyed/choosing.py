"""`instances="auto"` of keyed calls: what the session and a mapping tell the decision, and what follows from its answer."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from evenly.checks import MAX_INSTANCES
from evenly.instances import Auto, ChosenInstances, MeasuredTimes, choose_instances
from evenly.keys.mapping import Mapping
from evenly.keys.resizing import heaviest_share, most_instances, placeable, resized
from evenly.spark.jvm.session_slots import session_slots

_LOG = logging.getLogger(__name__)
_NEAR = 1.25


def usual_instances(spark: Any, asked: int | Auto) -> int:
    """How many instances to learn for: as many as asked for, or as slots."""
    return asked if isinstance(asked, int) else min(session_slots(spark).number, MAX_INSTANCES)


def chosen_for(
    spark: Any,
    asked: Auto,
    mapping: Mapping,
    *,
    rows: float | None,
    times: MeasuredTimes | None = None,
    most: int = MAX_INSTANCES,
) -> ChosenInstances:
    """The number of instances for keys like those that `mapping` was learnt from, logged.

    Slots are asked for again when learning is over: executors of an application that has just begun have registered by then.
    """
    found = choose_instances(
        session_slots(spark),
        keys=(placeable(mapping) or None) if asked.few_keys_count else None,
        heaviest=heaviest_share(mapping),
        rows=rows,
        times=times,
        may_split=asked.may_split,
        most=most,
    )
    _LOG.info("%s", found)
    return found


def chosen_by_time(spark: Any, asked: Auto, mapping: Mapping, *, total_s: float | None) -> ChosenInstances:
    """The same for a mapping by times, which take `total_s` together; None as long as they are not known."""
    longest_s = 0.0 if asked.may_split else float(mapping.heavy_weights.max(initial=0.0))
    times = None if total_s is None else MeasuredTimes(total_s, longest_s)
    return chosen_for(spark, asked, mapping, rows=None, times=times, most=most_instances(mapping))


def about_as_good(spark: Any, number: int, chosen: int) -> bool:
    """Whether `number` instances do where `chosen` were chosen by time: of tasks so short that starting them counts, a quarter
    more or fewer cost next to nothing. Where slots decide it is their number."""
    slots = session_slots(spark).number
    near = max(number, chosen) <= _NEAR * min(number, chosen)
    return number == chosen or (near and chosen < slots and number <= slots)


def over_slots(spark: Any, asked: Auto, mapping: Mapping) -> Mapping:
    """A mapping that was learnt earlier, for the slots of today: dealt out anew if it is for others, and nothing is read.

    Raises `InvalidParameter` if its buckets are too coarse for as many instances as are wanted now.
    """
    found = chosen_for(spark, asked, mapping, rows=float(mapping.fitted_loads.sum()))
    return replace(resized(mapping, found.number), chosen=found.why)
