"""Advice for a join whose rows are uneven: which side it is, and what Spark or Evenly can do about it."""

from __future__ import annotations

import re

from evenly.diagnosis.advice import MIB
from evenly.diagnosis.calls import join_call, joined_by_key_call, setting_call
from evenly.diagnosis.findings import Advice
from evenly.diagnosis.stages import Exchange, PastStage, column_name

_HOW = re.compile(r", (Inner|Cross|LeftOuter|RightOuter|FullOuter|LeftSemi|LeftAnti)\b(?:, Build\w+)?(, .*)?")
"""The joins that a call can write. Subqueries make others (ExistenceJoin, LeftSingle), which no call does."""
_COLUMNS = re.compile(r" \[([^\]]+)\], \[([^\]]+)\],")
_SMALL = 100 * MIB
"""A side that is small enough to be sent to every executor."""
_KEEPS = {
    "left": frozenset({"Inner", "Cross", "RightOuter"}),
    "right": frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"}),
}
"""The joins of which a side may be broadcast."""
_SPLITS = {
    "left": frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"}),
    "right": frozenset({"Inner", "Cross", "RightOuter"}),
}
"""The joins of which adaptive execution splits a side."""


def join_advice(stage: PastStage, exchange: Exchange, *, hot: bool, instances: int) -> Advice | None:
    """What helps the join of a stage, or None if it has none of two shuffled sides."""
    sided = [one for one in stage.work.reads if one.side]
    sides = {one.side: one for one in sided}
    if not stage.work.join or len(sides) != 2:
        return None
    if len(sided) > 2:
        return _of_several(exchange, hot=hot)
    return _of_two(stage, exchange, sides, hot=hot, instances=instances)


def _of_two(stage: PastStage, exchange: Exchange, sides: dict[str, Exchange], *, hot: bool, instances: int) -> Advice:
    found = _HOW.search(stage.work.join)
    how, more = found.groups() if found else ("", None)
    heavy = _heavier(stage, sides) or exchange.side
    light = "right" if heavy == "left" else "left"
    told = f"it is the {heavy} side of the join (by {sides[heavy].named}) that is uneven"
    keys = _keys(stage.work.join) or {side: one.columns for side, one in sides.items()}
    known = bool(how and keys["left"]) and len(keys["left"]) == len(keys["right"])
    besides = " (and keep its other condition)" if more else ""
    if known and how in _KEEPS[light] and 0 <= _side_bytes(stage, sides, light) <= _SMALL:
        size = max(1, _side_bytes(stage, sides, light) // MIB)
        call = join_call(keys["left"], keys["right"], how, broadcast=light)
        return Advice(
            f"{told}; the {light} side has about {size} MiB, so send it to every executor instead of shuffling both{besides}",
            call,
        )
    if not hot:
        if not how:
            return Advice(f"{told}; a subquery made this join: write it as a join, and place both sides under one mapping")
        if not known:
            return Advice(
                f"{told}; make the key a column on both sides, and place both under one mapping (evenly.learn_mapping)"
            )
        call = joined_by_key_call(keys["left"], keys["right"], how, heavy, instances)
        return Advice(f"{told}; place both sides under one mapping that is learnt from the {heavy} side{besides}", call)
    return _adaptive(stage, sides[heavy], told, how, heavy)


def _of_several(exchange: Exchange, *, hot: bool) -> Advice:
    """Inputs that are joined by one key, one after another, in one stage: which of them is small the log does not say."""
    told = f"more than two inputs are joined here (by {exchange.named}), one of which is uneven"
    small = "send those that are small to every executor (F.broadcast)"
    if hot:
        return Advice(f"{told}: {small}, or join that key apart and unite the results")
    return Advice(
        f"{told}: {small}, or place all of them under one mapping (evenly.learn_mapping) and join by the key and slot"
    )


def _keys(join: str) -> dict[str, tuple[str, ...]]:
    """The columns of `SortMergeJoin [user], [id], Inner`: a shuffle may know them by other names. Nothing for expressions.

    A field of a struct is one: it keeps the number of its attribute (`address#3.city`).
    """
    found = _COLUMNS.search(join)
    if found is None or any(mark in found.group(1) + found.group(2) for mark in "(#"):
        return {}
    left, right = (tuple(column_name(name) for name in found.group(side).split(", ")) for side in (1, 2))
    return {"left": left, "right": right} if len(left) == len(right) else {}


def _adaptive(stage: PastStage, uneven: Exchange, told: str, how: str, heavy: str) -> Advice:
    """A hot key of a join: adaptive execution can split its rows, and repeat the other side's for each part."""
    if how not in _SPLITS[heavy]:
        return Advice(f"{told}; Spark does not split that side of this kind of join: join the key apart, and unite the results")
    if not stage.work.adaptive:
        return Advice(
            f"{told}; adaptive execution is off, and would split it", setting_call("spark.sql.adaptive.enabled", "true")
        )
    size = max(1, int(stage.tasks.bytes.max() / 4 / MIB))
    advisory = setting_call("spark.sql.adaptive.advisoryPartitionSizeInBytes", f"{size}MB")
    if uneven.split:
        return Advice(
            f"{told}; adaptive execution has split it already, into parts that are still large: ask for smaller ones", advisory
        )
    threshold = setting_call("spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes", f"{size}MB")
    remedy = (
        f"{told}; adaptive execution splits such partitions, but this one was below its limits (256 MB, and 5 times the "
        "median): lower them"
    )
    return Advice(remedy, f"{threshold}\n{advisory}")


def _heavier(stage: PastStage, sides: dict[str, Exchange]) -> str:
    """The side of which the task with most rows has most beyond the mean; nothing where tasks do not tell sides apart."""
    at = int(stage.tasks.rows.argmax())
    excess = {
        side: float(rows[at] - rows.mean())
        for side, one in sides.items()
        if (rows := stage.tasks.by_read.get(one.number)) is not None
    }
    return max(excess, key=lambda side: excess[side]) if len(excess) == 2 else ""


def _side_bytes(stage: PastStage, sides: dict[str, Exchange], side: str) -> int:
    """About what a side has, by its part of the rows; less than 0 where that is not known."""
    rows = {name: stage.tasks.by_read.get(one.number) for name, one in sides.items()}
    total = sum(int(one.sum()) for one in rows.values() if one is not None)
    its = rows[side]
    if its is None or any(one is None for one in rows.values()) or total == 0:
        return -1
    return int(stage.tasks.bytes.sum() * int(its.sum()) / total)
