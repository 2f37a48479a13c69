"""A join whose hot keys are on several instances, row for row Spark's own."""

from __future__ import annotations

import logging
from collections.abc import Mapping as Pairs
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenly.errors import InvalidParameter, StreamingMismatch, UnknownColumn
from evenly.instances import AUTO, Auto, Instances, asked_instances
from evenly.keys.joins import MAY_SPLIT, JoinHow, JoinPlan, Side, checked_side, comes_out_alone, join_how, planned_join
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping
from evenly.remembered import Use
from evenly.spark.features import Feature, Found, has
from evenly.spark.frames import check_frame
from evenly.spark.jvm.join_sides import broadcasts, larger_is_right
from evenly.spark.keyed.choosing import usual_instances
from evenly.spark.keyed.joined_sides import Joining, JoinKey, placed_side, routes_of
from evenly.spark.keyed.keys import case_sensitive, key_names, last_part, named, type_names
from evenly.spark.keyed.learning import learn_mapping
from evenly.spark.keyed.split import POSITION
from evenly.spark.keyed.telling_apart import what_spreads
from evenly.spark.placing.mapping_check import check_fit, check_is, check_same_types, common_type, hashed_alike
from evenly.spark.placing.own_columns import own_name
from evenly.spark.remembering.memory import Memory, key_memory
from evenly.spark.remembering.store import Where

_LOG = logging.getLogger(__name__)

On = str | Sequence[str] | Sequence[tuple[str, str]] | Pairs[str, str]
"""The key columns of a join: names that both sides have, or pairs of a name of the left and one of the right side."""


def join_by_key(
    left: DataFrame,
    right: DataFrame,
    *,
    on: On,
    how: str = "inner",
    instances: Instances = AUTO,
    mapping: Mapping | SplitMapping | None = None,
    split: Side | None = None,
    spread_on: str | Sequence[str] | None = None,
    tolerance_pct: float | None = 2.0,
    seed: int = 0,
    remember: Where | None = None,
) -> DataFrame:
    """`left.join(right, on, how)` over `instances` partitions of about the same number of rows, hot keys included.

        joined = evenly.join_by_key(orders, users, on="user", how="left")

    Rows of a key that is too hot for one instance are split over several, by a hash of the row, and the other side's rows of
    that key are copied to each of these. All other keys are placed whole. The result is Spark's own, row for row: columns and
    their order, duplicates, and nulls, which match nobody; rows without a key that come out anyway are spread evenly.

    - `on`: a name or names that both sides have; or pairs, `{"user_id": "id"}`, as `left.user_id == right.id`, after which
      both columns stay. Of an int and a bigint Spark compares the wider, and so are they hashed; types for which that is not
      known are refused with the cast to make.
    - `how`: inner, left, right, full, semi or anti, in any of Spark's spellings.
    - `split`: the side whose keys may be split. It must be one whose rows never come out of the join twice: the left side of
      a left, semi or anti join, the right side of a right join, either of an inner one (None: the one that Spark takes for
      larger), and neither of a full join, whose keys are placed whole.
    - `mapping`: from `learn_mapping` over the side that is split, or a `SplitMapping` of it. None learns it from that side
      (for a full join from the larger one): one more pass over its key columns. The load of a key are its rows there.
    - `spread_on`: the columns by which rows of a hot key are told apart. None: all but floats and the key. Rows that are
      equal in all of them stay together, and where there are none, or where something of that side is random or may depend
      on the order of rows (also a function of groups in Python), or on Spark Connect, which does not tell, keys stay whole: a
      task that runs again must send its rows where they went before. Name columns that stay the same to split them
      nevertheless. "position" is that of `split_by_key`, with the same condition.

    - `instances` and `remember` are those of `by_key`, of the side that is learnt from.

    Where Spark would copy a small side to every executor, and on a Spark before 4.1, the join is Spark's own; where no key is
    hot and a hash is even enough, keys are placed by hash. `plan_join` tells which and why, and it is logged.
    """
    asked = _Asked.of(left, right, on=on, how=how, instances=instances, split=split, spread_on=spread_on)
    kept = asked.memory(remember, mapping)
    plan = asked.planned(mapping, tolerance_pct=tolerance_pct, seed=seed, kept=kept)
    _LOG.info("join_by_key: %s", plan)
    return asked.joined(plan, kept)


def plan_join(
    left: DataFrame,
    right: DataFrame,
    *,
    on: On,
    how: str = "inner",
    instances: Instances = AUTO,
    mapping: Mapping | SplitMapping | None = None,
    split: Side | None = None,
    spread_on: str | Sequence[str] | None = None,
    tolerance_pct: float | None = 2.0,
    seed: int = 0,
) -> JoinPlan:
    """What `join_by_key` would do when called like this, and why; `plan.mapping` is what to give it then.

        plan = evenly.plan_join(orders, users, on="user", how="left", instances=64)
        print(plan)     # split: 3 hot keys of the left side split into 17 parts, λ 0.4 % of the rows that ...
        evenly.join_by_key(orders, users, on="user", how="left", instances=64, mapping=plan.mapping)

    It learns as that does, and runs nothing else.
    """
    asked = _Asked.of(left, right, on=on, how=how, instances=instances, split=split, spread_on=spread_on)
    return asked.planned(mapping, tolerance_pct=tolerance_pct, seed=seed, kept=Memory())


@dataclass(frozen=True)
class _Asked:
    """A call whose arguments were checked."""

    frames: dict[Side, DataFrame]
    keys: dict[Side, JoinKey]
    types: tuple[str, ...]
    joining: Joining
    instances: int | Auto
    split: Side | None
    spread_on: dict[Side, str | Sequence[str] | None]

    @classmethod
    def of(
        cls,
        left: DataFrame,
        right: DataFrame,
        *,
        on: On,
        how: str,
        instances: Instances,
        split: Side | None,
        spread_on: str | Sequence[str] | None,
    ) -> _Asked:
        frames: dict[Side, DataFrame] = {"left": left, "right": right}
        for side, df in frames.items():
            check_frame(df, side)
            if df.isStreaming:
                raise StreamingMismatch(
                    f"the {side} side is a stream: join_by_key joins batches. Use it inside foreachBatch, or join the stream"
                )
        kind = join_how(how)
        names, ours = _names(frames, on)
        types = {side: type_names(df, names[side]) for side, df in frames.items()}
        shared = tuple(common_type(*pair) for pair in zip(types["left"], types["right"], strict=True))
        if not all(shared):
            check_same_types(types["left"], types["right"], names["left"], which=2)
        hashed = tuple(str(it) for it in shared)
        keys = {
            side: JoinKey(
                names[side], tuple(None if hashed_alike(own, it) else it for own, it in zip(types[side], hashed, strict=True))
            )
            for side in frames
        }
        chosen = _side(split, kind, left, right)
        # Only asked of a side some of whose rows are placed by it: to look through a plan is dear.
        spread = {
            side: _spread(df, names[side], spread_on if side == chosen else None)
            if side == chosen or comes_out_alone(kind, side)
            else None
            for side, df in frames.items()
        }
        by = tuple(map(_copy, range(len(hashed)))) if ours else tuple(named(on, "on"))
        asked = asked_instances(instances, may_split=chosen is not None)
        return cls(frames, keys, hashed, Joining(kind, by, ours), asked, chosen, spread)

    @property
    def learnt_from(self) -> Side:
        """The side whose rows are the loads of keys."""
        return self.split or _larger(self.frames["left"], self.frames["right"])

    def memory(self, remember: Where | None, mapping: Mapping | SplitMapping | None) -> Memory:
        """What is remembered of the rows that loads are learnt from."""
        if remember is None:
            return Memory()
        df, names = self.frames[self.learnt_from], self.keys[self.learnt_from].names
        use: Use = "join-left" if self.learnt_from == "left" else "join-right"
        return key_memory(df, remember, names, self.types, self.instances, mapping=mapping, by="join_by_key", use=use)

    def planned(
        self, mapping: Mapping | SplitMapping | None, *, tolerance_pct: float | None, seed: int, kept: Memory
    ) -> JoinPlan:
        """The way to join; learns if no mapping is given and one is needed."""
        if mapping is not None:
            check_is(mapping, Mapping, SplitMapping)
            light = mapping if isinstance(mapping, Mapping) else mapping.light
            check_fit(light, self.keys[self.split or "left"].names, self.types, self.instances)
        spark = self.frames["left"].sparkSession
        if not has(spark, Feature.REPARTITION_BY_ID):
            plan = JoinPlan("plain", f"{Found.of(spark)} has no repartitionById, so the join is Spark's own", self._usual)
            _LOG.warning("join_by_key: %s", plan)
            return plan
        if broadcasts(self.joining.plain(*self._with_copies().values())):
            return JoinPlan("broadcast", "Spark copies one side to every executor", self._usual)
        side = self.split
        if side is not None and not self.spread_on[side]:
            _LOG.warning(
                "join_by_key: the %s side has no column besides its key that tells rows apart and is known to be the same "
                "whenever it is computed, so hot keys stay whole: name such columns with spread_on=",
                side,
            )
            side = None
        if mapping is None:
            mapping = kept.mapping(lambda: self._learnt(tolerance_pct, seed))
        plan = planned_join(mapping, self.joining.how, side)
        return plan if plan.mapping is None else replace(plan, mapping=_typed(plan.mapping, self.types))

    @property
    def _usual(self) -> int:
        """How many instances a join that Spark places itself would have had."""
        return usual_instances(self.frames["left"].sparkSession, self.instances)

    def _learnt(self, tolerance_pct: float | None, seed: int) -> Mapping:
        """Loads of keys: rows of the side that is split, those that have a key."""
        key = self.keys[self.learnt_from]
        df = self.frames[self.learnt_from].where(~key.has_null)
        cast, names, _ = key.cast(df)
        called = [f"key_{at}" for at in range(len(names))]
        learnt_on = cast.select(*(F.col(name).alias(it) for name, it in zip(names, called, strict=True)))
        learnt = learn_mapping(learnt_on, key=called, instances=self.instances, tolerance_pct=tolerance_pct, seed=seed)
        return replace(learnt, columns=key.names)

    def joined(self, plan: JoinPlan, kept: Memory) -> DataFrame:
        """The join in the way of a plan."""
        frames = self._with_copies()
        if plan.way in ("broadcast", "plain"):
            return self.joining.plain(frames["left"], frames["right"])
        known = routes_of(frames["left"], plan)
        sides = {
            side: placed_side(
                df,
                side,
                self.keys[side],
                self.joining.how,
                plan,
                known,
                self.spread_on[side],
                kept if side == self.learnt_from else Memory(),
            )
            for side, df in frames.items()
        }
        return self.joining.placed(sides["left"], sides["right"])

    def _with_copies(self) -> dict[Side, DataFrame]:
        """Both sides; where keys have two names, with a copy of each under a name of ours, to join by."""
        if not self.joining.ours:
            return self.frames
        return {
            side: df.withColumns({_copy(at): F.col(name) for at, name in enumerate(self.keys[side].names)})
            for side, df in self.frames.items()
        }


def _copy(at: int) -> str:
    return own_name(f"joined_{at}")


def _typed(mapping: SplitMapping, types: tuple[str, ...]) -> SplitMapping:
    """The mapping with the types that keys were hashed in, if it did not know them."""
    return mapping if mapping.light.types else replace(mapping, light=replace(mapping.light, types=types))


def _names(frames: dict[Side, DataFrame], on: On) -> tuple[dict[Side, tuple[str, ...]], bool]:
    """The key columns of both sides, checked; and whether they are pairs, of which both columns stay."""
    given = (
        list(on.items())
        if isinstance(on, Pairs)
        else [on]
        if isinstance(on, str)
        else list(on)
        if isinstance(on, Sequence)
        else []
    )
    if given and all(isinstance(it, str) for it in given):
        names = [str(it) for it in given]
        for side, df in frames.items():
            _check_columns(df, names, side)
        return {side: key_names(df, names) for side, df in frames.items()}, False
    pairs = [it for it in given if isinstance(it, tuple) and len(it) == 2 and all(isinstance(name, str) for name in it)]
    if not pairs or len(pairs) != len(given):
        raise InvalidParameter(
            f"on must be a column's name, a list of names, or pairs such as {{'user_id': 'id'}} (left, right), got {on!r}"
        )
    return {
        "left": key_names(frames["left"], [str(it[0]) for it in pairs]),
        "right": key_names(frames["right"], [str(it[1]) for it in pairs]),
    }, True


def _check_columns(df: DataFrame, names: list[str], side: Side) -> None:
    """Refuse a name that is no column of its own: Spark joins by columns, not by fields of structs."""
    sensitive = case_sensitive(df)
    there = {name if sensitive else name.lower() for name in df.columns}
    for name in names:
        if (name if sensitive else name.lower()) not in there:
            raise UnknownColumn(
                f"there is no column {name!r} on the {side} side: the columns are {', '.join(df.columns)}. Where the sides "
                "call their keys differently, or for a struct's field, give pairs, on={'left name': 'right name'}"
            )


def _side(split: object, how: JoinHow, left: DataFrame, right: DataFrame) -> Side | None:
    """The side that may be split: the one asked for, or the only one, or the larger."""
    asked, allowed = checked_side(split, how), MAY_SPLIT[how]
    if asked is not None or not allowed:
        return asked
    return allowed[0] if len(allowed) == 1 else _larger(left, right)


def _larger(left: DataFrame, right: DataFrame) -> Side:
    return "right" if larger_is_right(left, right) else "left"


def _spread(df: DataFrame, names: tuple[str, ...], spread_on: str | Sequence[str] | None) -> str | Sequence[str] | None:
    """What tells rows of one key apart: what was asked for, or what there is; None if there is nothing."""
    if spread_on is None:
        return what_spreads(df, names) or None
    if spread_on == POSITION and POSITION not in (name.lower() for name in df.columns):
        return POSITION
    chosen = key_names(df, spread_on)
    if set(chosen) <= set(names):
        raise InvalidParameter(
            f"spread_on names the key alone ({', '.join(map(last_part, chosen))}), which cannot split it: name a column that "
            "differs from row to row"
        )
    return named(spread_on, "spread_on")
