"""Code to paste: the call that a recommendation asks for. Names of columns are as Spark's functions take them."""

from __future__ import annotations

import json
from collections.abc import Sequence

SLOT, _OTHER_SLOT = "slot", "instance"
_HOW = {
    "LeftOuter": "left",
    "RightOuter": "right",
    "FullOuter": "full",
    "LeftSemi": "left_semi",
    "LeftAnti": "left_anti",
}
"""Spark's names of joins, as a call writes them; an inner join is not named."""


def quoted(text: str) -> str:
    """A text as Python writes it."""
    return json.dumps(text, ensure_ascii=False)


def key_argument(keys: Sequence[str]) -> str:
    """One name, or a list of names, as Python writes it."""
    names = [quoted(name) for name in keys]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def grouped_by(keys: Sequence[str], last: str) -> str:
    """The arguments of a grouping by the keys and then one more column."""
    return ", ".join((*(quoted(name) for name in keys), quoted(last)))


def slot_column(keys: Sequence[str]) -> str:
    """The column that says where a key is: of another name where the user's own key has that one."""
    return _OTHER_SLOT if SLOT in keys else SLOT


def placed_call(keys: Sequence[str], instances: int, *, weight: str | None = None) -> str:
    """Whole keys on the instance that has least to do, for an operator that follows."""
    named = "" if slot_column(keys) == SLOT else f", slot={quoted(slot_column(keys))}"
    return f"df.transform(evenly.by_key, key={key_argument(keys)}, instances={instances}{_weight(weight)}{named})"


def _weight(weight: str | None) -> str:
    return "" if weight is None else f", weight={weight}"


def by_key_call(keys: Sequence[str], instances: int, *, weight: str | None = None) -> str:
    """Whole keys on the instance that has least to do, and grouped."""
    return f"{placed_call(keys, instances, weight=weight)}.groupBy({grouped_by(keys, slot_column(keys))})"


def unslotted_call(keys: Sequence[str], instances: int, *, fit_on: str = "") -> str:
    """Whole keys on the instance that has least to do, for work without a grouping; a stream needs other rows to learn from."""
    learnt = f", fit_on={fit_on}" if fit_on else ""
    return f"df.transform(evenly.by_key, key={key_argument(keys)}, instances={instances}, slot=None{learnt})"


def aggregate_by_key_call(keys: Sequence[str], instances: int, *, weight: str | None = None) -> str:
    """A key too hot for one instance on several, and a merge."""
    merging = "evenly.Merging(partial, merge, schema)"
    return f"evenly.aggregate_by_key(df, {merging}, key={key_argument(keys)}, instances={instances}{_weight(weight)})"


def split_by_key_call(keys: Sequence[str], instances: int) -> str:
    """A key too hot for one instance in parts."""
    return f"evenly.split_by_key(df, key={key_argument(keys)}, instances={instances})"


def apply_by_cost_call(instances: int) -> str:
    """Rows to instances by what they cost; without cost_key Evenly finds the column that predicts it best."""
    return f"df.transform(evenly.apply_by_cost, function=function, schema=schema, instances={instances})"


def stream_by_key_call(rows: str, keys: Sequence[str], instances: int, *, window: str | None = None) -> str:
    """A streaming query whose keys Evenly places."""
    of_window = "" if window is None else f", window={quoted(window)}"
    key = key_argument(keys)
    return f"evenly.stream_by_key({rows}, build, key={key}, instances={instances}{of_window}, checkpoint=checkpoint)"


def stream_apply_by_cost_call(instances: int) -> str:
    """Rows of a stream to instances by what they cost."""
    return (
        f"evenly.stream_apply_by_cost(rows, function, schema, cost_key=cost_key, instances={instances}, sink=sink, "
        "checkpoint=checkpoint)"
    )


def setting_call(name: str, value: object) -> str:
    """A setting of Spark's, for the queries that follow."""
    return f"spark.conf.set({quoted(name)}, {quoted(str(value))})"


def join_call(left: Sequence[str], right: Sequence[str], how: str, *, broadcast: str = "", slot: bool = False) -> str:
    """A join of `left` and `right` by these columns; `broadcast` names the side that goes to every executor."""
    pairs = [*zip(left, right, strict=True), *([("slot", "slot")] if slot else [])]
    condition = " & ".join(f"(left[{quoted(one)}] == right[{quoted(other)}])" for one, other in pairs)
    sides = {name: f"F.broadcast({name})" if name == broadcast else name for name in ("left", "right")}
    named = f", {quoted(_HOW[how])}" if how in _HOW else ""
    return f"{sides['left']}.join({sides['right']}, {condition}{named})"


def joined_by_key_call(left: Sequence[str], right: Sequence[str], how: str, heavier: str, instances: int) -> str:
    """Both sides of a join under one mapping, which is learnt from the side that has more rows."""
    return "\n".join([*_under_one_mapping(left, right, heavier, instances), join_call(left, right, how, slot=True)])


def cogrouped_by_key_call(left: Sequence[str], right: Sequence[str], heavier: str, instances: int) -> str:
    """Both sides of a cogrouped function under one mapping: under one for each, a key's groups would not meet."""
    groups = f"left.groupBy({grouped_by(left, SLOT)}).cogroup(right.groupBy({grouped_by(right, SLOT)}))"
    return "\n".join([*_under_one_mapping(left, right, heavier, instances), groups])


def _under_one_mapping(left: Sequence[str], right: Sequence[str], heavier: str, instances: int) -> list[str]:
    heavier_keys = left if heavier == "left" else right
    lines = [f"mapping = evenly.learn_mapping({heavier}, key={key_argument(heavier_keys)}, instances={instances})"]
    return lines + [
        f"{side} = {side}.transform(evenly.by_key, key={key_argument(keys)}, instances={instances}, mapping=mapping)"
        for side, keys in (("left", left), ("right", right))
    ]
