"""Advice for operators over keys: the call that places the keys by their weight, as what follows it needs them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evenly.diagnosis.calls import by_key_call, cogrouped_by_key_call, stream_by_key_call
from evenly.diagnosis.findings import Advice
from evenly.diagnosis.stages import PastStage

_STATEFUL = re.compile(r"^Streaming|StateStore|WithState|^(Updating|Merging)Sessions")
_COGROUPS = re.compile(r"CoGroup")
_WINDOW = "window"
"""What `functions.window` calls its column."""
NEW_CHECKPOINT = "with a new checkpoint, for a query keeps the number that its own began with"


def keeps_state(stage: PastStage) -> bool:
    """Whether it keeps the state of a stream, which lies where Spark's hash of the keys leads."""
    return any(_STATEFUL.search(name) for name in stage.operators)


def cogroups(stage: PastStage) -> bool:
    """Whether a function gets the groups of two sides."""
    return any(_COGROUPS.search(name) for name in stage.operators)


def placed_groups(stage: PastStage, keys: Sequence[str], instances: int) -> Advice:
    """Keys by their weight for an operator that groups by them: of a stream and of two sides it takes more than one call."""
    if keeps_state(stage):
        return _of_state(stage, keys, instances)
    if not cogroups(stage):
        return Advice("place the keys by their weight", by_key_call(keys, instances))
    sides = {one.side: one for one in stage.work.reads if one.side}
    call = None
    if len(sides) == 2 and all(one.keys and not one.placed for one in sides.values()):
        heavier = max(sides, key=lambda side: _excess(stage, sides[side].number))
        call = cogrouped_by_key_call(sides["left"].columns, sides["right"].columns, heavier, instances)
    return Advice("place the keys of both sides by their weight, under one mapping (evenly.learn_mapping)", call)


def _excess(stage: PastStage, number: int) -> float:
    rows = stage.tasks.by_read.get(number)
    return 0.0 if rows is None else float(rows.max() - rows.mean())


def _of_state(stage: PastStage, keys: Sequence[str], instances: int) -> Advice:
    exchange = stage.exchange
    if exchange is not None and exchange.placed:
        return Advice(
            "the keys are placed by Evenly already, and its controller changes the mapping where that pays: "
            "evenly mapping list CHECKPOINT says what it did, and why not more"
        )
    names = [one.columns for one in stage.work.reads if one.keys] or [tuple(keys)]
    window = _WINDOW if len(keys) > 1 and keys[0] == _WINDOW else None
    alike = all(one == names[0] for one in names)
    remedy = "place the keys by their weight: start the query by Evenly, with a new checkpoint"
    if not alike:
        return Advice(f"{remedy} (evenly.stream_by_key, with both streams and a key of one name)")
    rows = "rows" if len(names) == 1 else f"[{', '.join(f'rows_{at}' for at in range(1, len(names) + 1))}]"
    return Advice(remedy, stream_by_key_call(rows, keys[1:] if window else keys, instances, window=window))
