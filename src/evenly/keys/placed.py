"""Whether a pipeline uses the placement that it was given: a decision over what its operators group by, without Spark.

A column is told by what it stands for (a `Role`): the window, a column of the key, the slot, or anything else. Spark hashes the
columns of a group in their order, so only the whole (window, key…, slot), in that order, is on the key's instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

SLOT, WINDOW, SESSION, FROM_SLOT, OTHER = "slot", "window", "session", "from slot", "other"
Role = str
"""SLOT, WINDOW, `key_role(n)`, SESSION (a session window: Spark does not hash it), FROM_SLOT (computed from it) or OTHER."""


def key_role(at: int) -> Role:
    """The role of a column of the key."""
    return f"key {at}"


@dataclass(frozen=True)
class KeyedOperator:
    """What one operator groups by: its columns as they are called, and what they stand for.

    `other_side` is that of the second input of a join. An operator without state only counts as a use of the placement.
    `gives_slot`: it is a function with a state of its own, which is not grouped by the slot and whose results have one.
    """

    kind: str
    names: tuple[str, ...]
    roles: tuple[Role, ...]
    other_side: tuple[Role, ...] | None = None
    stateful: bool = True
    gives_slot: bool = False


class Use(Enum):
    """How an operator uses the placement."""

    WHOLE = "groups by the window, the key and the slot, in this order"
    WRONG = "has groups that depend on the mapping"
    FORGOTTEN = "groups by the key as it could with the slot, and does not"
    FINER = "has the key among other columns"
    ANOTHER = "groups by something else"


@dataclass(frozen=True)
class PipelineVerdict:
    """`refusal` says why a pipeline may not start (None: it may), `warnings` what of it the placement does not balance."""

    refusal: str | None = None
    warnings: tuple[str, ...] = ()


def judge_pipeline(
    operators: Sequence[KeyedOperator], *, key: tuple[str, ...], slot: str, window: str | None
) -> PipelineVerdict:
    """What is to be said of a pipeline over placed rows.

    Refused: groups by the slot without the whole key (and window), which depend on the mapping; groups of the key that leave
    the slot out or have another order; and a pipeline with state of which no operator uses the placement. An operator that
    groups by something else, or by more than the key, is let pass beside one that uses it. Operators without state are never
    refused.
    """
    whole = (*((window,) if window else ()), *key, slot)
    asked = f"group by ({', '.join(whole)}), in this order"
    uses = [(operator, use_of(operator, keys=len(key), windowed=window is not None)) for operator in operators]
    used = any(use is Use.WHOLE for _, use in uses)
    warnings = []
    for operator, use in uses:
        if use is Use.WHOLE or not operator.stateful:
            continue
        told = f"the pipeline groups by ({', '.join(operator.names)}) in {operator.kind}"
        if use is Use.WRONG:
            return PipelineVerdict(
                f"{told}, and the slot is a number of the mapping: without the whole {'window and ' if window else ''}key as "
                f"it was placed, groups would change with the mapping. {asked[0].upper()}{asked[1:]}{_or_leave_out(window)}"
            )
        if use is Use.FORGOTTEN:
            both = "; of a join, give both streams to stream_by_key" if operator.other_side is not None else ""
            return PipelineVerdict(
                f"{told}, so its rows would be where Spark's hash puts them and not on their key's instance: {asked}{both}"
            )
        if not used:
            more = "" if use is Use.ANOTHER else ", or make all of these columns the key"
            return PipelineVerdict(f"{told}, and nothing in it uses the placement: {asked}{more}{_or_leave_out(window)}")
        if use is Use.FINER:
            warnings.append(
                f"{told}: these groups are spread by Spark's hash, not by the mapping, which is for {', '.join(key)}"
            )
    return PipelineVerdict(None, tuple(warnings))


def why_kept(operators: Sequence[KeyedOperator], *, slot: str) -> str | None:
    """Why a pipeline's mapping cannot change (None: it can): a function may keep the slots of rows in its state, which is not
    grouped by them and does not move, and give them when the mapping is another one. Operators are from the rows upwards."""
    for at, operator in enumerate(operators):
        if operator.gives_slot and any(
            it.stateful and SLOT in (*it.roles, *(it.other_side or ())) for it in operators[at + 1 :]
        ):
            return (
                f"the {slot} by which the pipeline groups comes out of {operator.kind}, which is grouped by "
                f"({', '.join(operator.names)}) and may keep it in its state, where it would stay what it was: to have the "
                "mapping follow the keys, write what that operator gives, and place it as a stream of its own"
            )
    return None


@dataclass(frozen=True)
class Beside:
    """A column with which a pipeline has its slot compared, and the mapping that it is of (`Mapping.placing`; None: not known):
    rows that were placed before and by themselves, `of_a_query` by a stream's, which it has written with them."""

    column: str
    mapping: str | None
    of_a_query: bool = False


@dataclass(frozen=True)
class BesideVerdict:
    """`refusal` says why a pipeline misses rows (None: it does not, as far as is known), `fixed` why its mapping cannot change
    (None: it can), `warning` what its user has to know (None: nothing)."""

    refusal: str | None = None
    fixed: str | None = None
    warning: str | None = None


def judge_beside(beside: Sequence[Beside], *, in_force: str, version: int, slot: str, window: str | None) -> BesideVerdict:
    """What is to be said of a pipeline whose slot meets columns that were placed apart from it: a static side of a join, say.

    `in_force` is the `placing` of the mapping in force. Under another one rows of a key miss each other, and there is no other
    sign of it: so a known one is refused. And none of them follows when the mapping of the query changes.
    """
    for it in beside:
        met = f"the pipeline has rows meet by {slot} = {it.column}"
        if it.mapping is not None and window is not None:
            return BesideVerdict(
                f"{met}: with window={window!r} a slot is that of a window and a key, and {it.column} is that of a key alone, "
                "so they would miss each other. Leave the slot out there"
            )
        if it.of_a_query:
            return BesideVerdict(
                f"{met}, which a query of stream_by_key has written: it is of the mapping of that time, or of several, "
                f"and not surely of version {version}, that of this query, so rows of one key could miss each other. Leave the "
                f"slot out there, or place these rows anew: drop {it.column}, then by_key(..., mapping=)"
            )
        if it.mapping not in {None, in_force}:
            return BesideVerdict(
                f"{met}, which was placed by another mapping than version {version}, that of this query: rows of one key would "
                "miss each other. Place both by one: before the first start learn_mapping(...), for by_key(..., mapping=) and "
                f"stream_by_key(..., mapping=); later Mapping.load('<checkpoint>/evenly/mapping-{version:06d}.json'). "
                "Or leave the slot out there"
            )
    if not beside:
        return BesideVerdict()
    told = ", ".join(dict.fromkeys(it.column for it in beside))
    unknown = ", ".join(dict.fromkeys(it.column for it in beside if it.mapping is None))
    return BesideVerdict(
        None,
        f"rows meet others by {slot} = {told}, which have been placed once and do not follow when the mapping changes: leave "
        "the slot out there to have the mapping follow the keys",
        f"rows meet others by {slot} = {unknown}, and nothing says by which mapping these were placed: if not by one that puts "
        f"keys where version {version} does, that of this query, rows of one key miss each other. Leave the slot out there, or "
        "place them by by_key(..., mapping=)"
        if unknown
        else None,
    )


def use_of(operator: KeyedOperator, *, keys: int, windowed: bool) -> Use:
    """How one operator uses the placement of a key of so many columns."""
    sides = [_use(operator.roles, keys=keys, windowed=windowed)]
    if operator.other_side is not None:
        sides.append(_use(operator.other_side, keys=keys, windowed=windowed))
    if len(set(sides)) == 1:
        return sides[0]
    # A join of a placed side with one that is not: the slot has nothing to meet there.
    for use in (Use.WRONG, Use.FORGOTTEN, Use.FINER):
        if use in sides:
            return use
    return Use.WRONG


def _use(columns: tuple[Role, ...], *, keys: int, windowed: bool) -> Use:
    roles = tuple(role for role in columns if role != SESSION)
    key = {key_role(at) for at in range(keys)}
    window = {WINDOW} if windowed else set()
    found = set(roles)
    if roles == (*window, *(key_role(at) for at in range(keys)), SLOT):
        return Use.WHOLE
    if found & {SLOT, FROM_SLOT} and not key | window <= found:
        return Use.WRONG
    if FROM_SLOT in found and not windowed:  # state is moved by its slot, which is not to be seen in what was computed from it
        return Use.WRONG
    if window | key <= found <= window | key | {SLOT}:
        return Use.FORGOTTEN
    return Use.FINER if key <= found else Use.ANOTHER


def _or_leave_out(window: str | None) -> str:
    return f", or leave window={window!r} out if groups are not of one window" if window else ""
