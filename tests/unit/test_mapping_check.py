"""A mapping against key columns: what is refused, with which remedy, and what may differ."""

from dataclasses import replace

import pytest

from evenly.errors import InvalidParameter
from evenly.keys.dkg import DKG
from evenly.spark.placing.mapping_check import check_fit, check_same_types, hashed_alike


def mapping(columns, types):
    return replace(DKG.automatic(4, ids="xxhash64").mapping(columns=columns), types=types)


def test_names_may_differ_and_so_may_types_that_hash_alike():
    learnt = mapping(("user_id", "price"), ("int", "decimal(10,2)"))
    check_fit(learnt, ("id", "amount"), ("smallint", "decimal(18,2)"), 4)
    check_fit(replace(learnt, types=()), ("id", "amount"), ("string", "date"), 4)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("tinyint", "int", True),
        ("int", "bigint", False),
        ("float", "double", False),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(10,3)", False),
        ("decimal(18,2)", "decimal(19,2)", False),
        ("decimal(19,2)", "decimal(38,2)", True),
        ("timestamp", "timestamp_ntz", False),
        ("date", "timestamp", False),
        ("string", "varchar(8)", True),
        ("string", "char(8)", True),
        ("char(5)", "char(8)", False),
        ("string", "binary", False),
        ("struct<a:int,b:string>", "struct<a:smallint,b:string>", True),
        ("struct<a:int,b:string>", "struct<b:string,a:int>", False),
        ("array<int>", "array<bigint>", False),
    ],
)
def test_which_types_hash_alike(one, other, alike):
    assert hashed_alike(one, other) is hashed_alike(other, one) is alike


@pytest.mark.parametrize(
    ("here", "there", "told"),
    [
        ("int", "bigint", r"Cast it before: \.withColumn\('user', functions\.col\('user'\)\.cast\('bigint'\)\)"),
        ("bigint", "int", r"Cast the other side's key to bigint, learn the mapping from that, and use it on both sides"),
        ("double", "bigint", r"Cast the key of both sides to one type that holds the values of both"),
        ("decimal(10,2)", "decimal(20,4)", r"cast\('decimal\(20,4\)'\)"),
        ("decimal(20,4)", "decimal(10,2)", r"Cast the other side's key"),
        ("char(5)", "char(8)", r"functions\.rpad\('user', 8, ' '\)"),
        ("timestamp", "timestamp_ntz", r"one type that holds"),
    ],
)
def test_a_refusal_names_column_types_and_a_cast_that_changes_no_key(here, there, told):
    with pytest.raises(InvalidParameter, match=told) as refused:
        check_fit(mapping(("user",), (there,)), ("user",), (here,), 4)
    assert f"'user' is {here}" in str(refused.value)
    assert f"for {there} (user)" in str(refused.value)


def test_two_sides_of_a_join_are_told_which_of_them_to_cast():
    for first, second, told in (("bigint", "int", "Cast it in DataFrame 2: "), ("int", "bigint", "Cast it in the first: ")):
        with pytest.raises(InvalidParameter, match=told):
            check_same_types((first,), (second,), ("user",), which=2)


def test_a_field_of_a_struct_is_cast_into_a_column_of_its_own():
    with pytest.raises(InvalidParameter, match=r"withColumn\('user', functions\.col\('who\.user'\).*with key='user'"):
        check_fit(mapping(("user",), ("bigint",)), ("who.user",), ("int",), 4)


def test_another_number_or_order_of_columns_is_refused():
    learnt = mapping(("user", "day"), ("string", "string"))
    with pytest.raises(InvalidParameter, match=r"for 2 key columns \(user, day\), and the key has 1 \(user\)"):
        check_fit(learnt, ("user",), ("string",), 4)
    with pytest.raises(InvalidParameter, match=r"give key=\['user', 'day'\]"):
        check_fit(learnt, ("Day", "User"), ("string", "string"), 4)
    check_fit(learnt, ("USER", "day"), ("string", "string"), 4)
