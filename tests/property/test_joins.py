"""What a join with split keys promises: whatever part a row goes to, the parts together are the whole join."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_planned_split import mappings

from evenly.errors import InvalidParameter
from evenly.keys.hot_keys import split_hot_keys
from evenly.keys.joins import (
    MAY_SPLIT,
    SIDES,
    checked_side,
    comes_out_alone,
    copied,
    hash_imbalance_pct,
    join_how,
    planned_join,
    whole_keys,
)
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping

HOWS = tuple(MAY_SPLIT)
INSTANCES = 3
SPLIT, WHOLE = 5, 6
KEYS = (SPLIT, WHOLE, None)
PARTS = (0, 2)
HOT = SplitMapping(
    light=Mapping(instances=INSTANCES, buckets=np.array([1, 0, 2], np.int32), a=0, b=0, ids="xxhash64"),
    split=np.array([SPLIT], np.uint64),
    starts=np.array([0, 3]),
    parts=np.array([0, 2, 2], np.int32),  # an instance twice: it must still get one copy
    part_loads=np.ones(3),
)


def tables(most):
    """All tables of up to `most` rows, each its key and its number (some of them twice), as multisets of keys."""
    for rows in range(most + 1):
        for keys in product(KEYS, repeat=rows):
            if list(keys) == sorted(keys, key=str):
                yield [(key, 0) for key in keys]


def joined(left, right, how):
    """The obvious join of rows (key, value), as a multiset."""
    result = Counter()
    for one in left:
        met = [two for two in right if one[0] is not None and one[0] == two[0]]
        if how in ("semi", "anti"):
            result[one] += bool(met) == (how == "semi")
            continue
        for two in met:
            result[one, two] += 1
        if not met and how in ("left", "full"):
            result[one, None] += 1
    if how in ("right", "full"):
        for two in right:
            if two[0] is None or all(one[0] != two[0] for one in left):
                result[None, two] += 1
    return +result


def places(rows, side, how, plan):
    """Every way in which the rows of a side may be on instances: each row's list of them."""
    starts, counts, parts = copied(plan.mapping)
    choices = []
    for key, _ in rows:
        if key is None:
            choices.append([[at] for at in range(INSTANCES)] if comes_out_alone(how, side) else [[]])
        elif plan.mapping.needs_merge and key == SPLIT:
            homes = parts[starts[0] : starts[0] + counts[0]].tolist()
            choices.append([[at] for at in homes] if plan.side == side else [homes])
        else:
            choices.append([plan.mapping.light.assign_ids(np.array([key], np.uint64)).tolist()])
    return product(*choices)


@pytest.mark.parametrize("how", HOWS)
def test_the_joins_of_all_instances_are_the_join_whatever_part_a_row_goes_to(how):
    seen = 0
    for side in MAY_SPLIT[how] or (None,):
        plan = planned_join(HOT, how, side)
        assert plan.way == ("whole" if side is None else "split")
        for left, right in product(tables(3), tables(3)):
            wanted = joined(left, right, how)
            for lefts, rights in product(places(left, "left", how, plan), places(right, "right", how, plan)):
                got = Counter()
                for at in range(INSTANCES):
                    here = [
                        [row for row, homes in zip(rows, placed, strict=True) for home in homes if home == at]
                        for rows, placed in ((left, lefts), (right, rights))
                    ]
                    got += joined(*here, how)
                assert got == wanted, (side, left, right, lefts, rights)
                seen += 1
    assert seen > 400


@pytest.mark.parametrize("how", HOWS)
def test_a_side_that_may_not_be_split_would_give_a_wrong_join(how):
    for side in SIDES:
        if side in MAY_SPLIT[how]:
            assert checked_side(side, how) == side
            continue
        with pytest.raises(InvalidParameter, match=f"the {side} side of a {how} join cannot be split"):
            planned_join(HOT, how, side)
        # The other side's row is on both parts; this side's rows are on one each, or all on the first.
        row = (SPLIT, 0)
        assert any(
            sum((_join_of(side, here, [row], how) for here in parts), Counter())
            != _join_of(side, [it for here in parts for it in here], [row], how)
            for parts in ([[row], [row]], [[row], []])
        )


def _join_of(side, rows, others, how):
    return joined(rows, others, how) if side == "left" else joined(others, rows, how)


def test_kinds_of_joins_are_spelled_as_spark_reads_them():
    assert [join_how(it) for it in ("LEFT_ANTI", "leftsemi", "outer", "Right_Outer")] == ["anti", "semi", "full", "right"]
    for wrong in ("cross", "", None, 3):
        with pytest.raises(InvalidParameter, match="how must be"):
            join_how(wrong)
    with pytest.raises(InvalidParameter, match="split must be"):
        checked_side("both", "inner")


@given(mappings(), st.sampled_from(HOWS))
def test_a_plan_is_never_less_even_than_whole_keys_and_copies_to_every_part(mapping, how):
    side = MAY_SPLIT[how][0] if MAY_SPLIT[how] else None
    plan = planned_join(mapping, how, side)
    if plan.mapping is None:
        assert plan.way == "hash"
        assert hash_imbalance_pct(mapping) <= 5.0
        return
    assert plan.mapping.fitted_imbalance_pct <= mapping.fitted_imbalance_pct * (1 + 1e-9) + 1e-6
    assert (plan.way == "split") == plan.mapping.needs_merge
    assert side is not None or not plan.mapping.needs_merge
    starts, counts, parts = copied(plan.mapping)
    for number, key in enumerate(plan.mapping.split.tolist()):
        homes = parts[starts[number] : starts[number] + counts[number]].tolist()
        assert homes == sorted(plan.mapping.shares(key))


@given(mappings())
def test_whole_again_every_key_is_on_one_instance_with_all_of_its_load(mapping):
    split = split_hot_keys(mapping, above=0.2)
    whole = whole_keys(split)
    assert not whole.needs_merge
    assert whole.fitted_loads.sum() == pytest.approx(mapping.fitted_loads.sum())
    assert set(whole.light.heavy_keys.tolist()) == set(mapping.heavy_keys.tolist())
    assert whole_keys(mapping).light is mapping
