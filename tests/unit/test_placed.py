"""Which pipelines use their placement."""

import re

import pytest

from evenly.keys.placed import (
    FROM_SLOT,
    OTHER,
    SESSION,
    SLOT,
    WINDOW,
    Beside,
    KeyedOperator,
    judge_beside,
    judge_pipeline,
    key_role,
)

USER, DAY = key_role(0), key_role(1)


def of(*roles, **options):
    return KeyedOperator("Aggregate", tuple(roles), roles, **options)


def verdict(*operators, key=("user",), window=None):
    return judge_pipeline(operators, key=key, slot="slot", window=window)


WHOLE = of(USER, SLOT)


@pytest.mark.parametrize(
    "operators",
    [
        [],
        [WHOLE],
        [of(SESSION, USER, SLOT)],
        [of(USER, SLOT, other_side=(USER, SLOT))],
        [of(OTHER), WHOLE],
        [WHOLE, of(OTHER)],
        [WHOLE, of()],
        [of(USER, stateful=False)],
        [of(USER, SLOT, stateful=False), of(OTHER)],
    ],
)
def test_a_pipeline_that_uses_its_placement_or_has_no_state_passes(operators):
    assert verdict(*operators) == verdict()


@pytest.mark.parametrize(
    ("operators", "word"),
    [
        ([of(USER)], "not on their key's instance: group by"),
        ([of(SLOT, USER)], "not on their key's instance"),
        ([WHOLE, of(USER)], "not on their key's instance"),
        ([of(USER, other_side=(OTHER,))], "give both streams"),
        ([of(SLOT)], "would change with the mapping"),
        ([WHOLE, of(OTHER, SLOT)], "would change with the mapping"),
        ([of(USER, SLOT, other_side=(OTHER, OTHER))], "would change with the mapping"),
        ([of(USER, SLOT, OTHER)], "nothing in it uses the placement.*make all of these columns the key"),
        ([of(USER, FROM_SLOT)], "would change with the mapping"),
        ([WHOLE, of(USER, FROM_SLOT)], "would change with the mapping"),
        ([of(OTHER)], "nothing in it uses the placement"),
        ([of()], "nothing in it uses the placement"),
    ],
)
def test_a_pipeline_that_does_not_is_refused_with_what_to_group_by(operators, word):
    refusal = verdict(*operators).refusal
    assert refusal is not None
    assert re.search(word, refusal)
    assert "group by (user, slot)" in refusal.lower()


def test_groups_of_more_than_the_key_pass_with_a_warning_beside_one_that_uses_the_placement():
    told = verdict(WHOLE, of(USER, OTHER))
    assert told.refusal is None
    assert len(told.warnings) == 1
    assert "spread by Spark's hash" in told.warnings[0]


def test_all_columns_of_a_key_count_in_their_order():
    assert verdict(of(USER, DAY, SLOT), key=("user", "day")).refusal is None
    assert verdict(of(DAY, USER, SLOT), key=("user", "day")).refusal is not None
    assert verdict(of(USER, SLOT), key=("user", "day")).refusal is not None


def test_with_windows_the_window_comes_first_and_a_later_operator_may_leave_all_of_it():
    whole = of(WINDOW, USER, SLOT)
    assert verdict(whole, window="window").refusal is None
    for wrong in (of(USER, SLOT), of(WINDOW, USER), of(USER, WINDOW, SLOT), of(USER)):
        assert verdict(wrong, window="window").refusal is not None
    # Across windows a key has many slots: without window and slot is then the only right way.
    assert verdict(whole, of(USER), window="window").refusal is None
    assert verdict(whole, of(USER, SLOT), window="window").refusal is not None


@pytest.mark.parametrize(
    ("mapping", "window", "refused", "fixed"),
    [
        ("ours", None, None, "do not follow when the mapping changes"),
        (None, None, None, "do not follow when the mapping changes"),
        (None, "window", None, "do not follow when the mapping changes"),
        ("theirs", None, r"another mapping than version 3.*mapping-000003\.json", None),
        ("ours", "window", "that of a window and a key", None),
    ],
)
def test_rows_that_were_placed_before_meet_those_of_a_query_under_its_mapping_alone(mapping, window, refused, fixed):
    told = judge_beside([Beside("home", mapping)], in_force="ours", version=3, slot="slot", window=window)
    for found, word in ((told.refusal, refused), (told.fixed, fixed)):
        assert (found is None) == (word is None)
        assert word is None or re.search(f"slot = home.*{word}", found)
    assert (told.warning is not None) == (mapping is None)
    written = judge_beside([Beside("home", None, of_a_query=True)], in_force="ours", version=3, slot="slot", window=window)
    assert "which a query of stream_by_key has written" in (written.refusal or "")
    assert judge_beside([], in_force="ours", version=3, slot="slot", window=window) == judge_beside(
        [], in_force="theirs", version=1, slot="slot", window=None
    )
