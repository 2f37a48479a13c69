"""Which column is recommended as the cost key, and when none is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evenly.costs import recommend
from evenly.errors import InvalidCost, InvalidParameter

ROWS = 2_000


def ranked(costs, candidates, **options):
    return [found.expression for found in recommend(costs, candidates, **options)]


@pytest.mark.parametrize("seed", range(5))
def test_the_class_is_found_and_a_column_of_distinct_values_is_not(seed):
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, ROWS, p=[0.1, 0.2, 0.7])
    costs = np.array([0.025, 0.005, 0.001])[kind] * rng.gamma(25.0, 0.04, ROWS)
    candidates = {"id": np.arange(ROWS), "kind": kind, "country": rng.integers(0, 20, ROWS), "user": rng.integers(0, 900, ROWS)}
    found = recommend(costs, candidates)
    assert [predictor.expression for predictor in found] == ["kind"]
    assert found[0].keys == 3
    assert 0.8 < found[0].explained <= 1.0
    everything = {p.expression: p for p in recommend(costs, candidates, least=-math.inf)}
    assert set(everything) == set(candidates)
    assert everything["id"].explained < 0.01
    assert everything["country"].explained < 0.05


@pytest.mark.parametrize("seed", range(5))
def test_a_length_bucket_is_found_before_the_length_and_the_text(seed):
    rng = np.random.default_rng(seed)
    length = np.exp(rng.normal(7.0, 1.0, ROWS)).astype(np.int64)
    costs = length * 2e-6 * rng.gamma(16.0, 1 / 16, ROWS)
    bucket = np.floor(np.log2(length + 1) * 2).astype(np.int64)
    candidates = {"text": np.arange(ROWS) * 7, "length(text)": length, "bucket": bucket, "language": rng.integers(0, 8, ROWS)}
    assert ranked(costs, candidates)[0] == "bucket"
    assert "text" not in ranked(costs, candidates)


def test_of_two_that_explain_the_same_the_one_with_fewer_keys_comes_first():
    kind = np.arange(ROWS) % 4
    finer = kind * 10 + np.arange(ROWS) % 3
    assert ranked(1.0 + kind, {"finer": finer, "kind": kind}) == ["kind", "finer"]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_recommended_where_nothing_explains_the_cost(seed):
    rng = np.random.default_rng(seed)
    candidates = {"id": np.arange(ROWS), "kind": rng.integers(0, 5, ROWS), "one": np.zeros(ROWS, np.int64)}
    assert recommend(np.full(ROWS, 0.01), candidates) == []
    assert recommend(rng.normal(1.0, 0.01, ROWS), candidates) == []
    assert recommend(rng.exponential(0.01, ROWS), candidates) == []
    assert recommend(np.empty(0), {"id": np.empty(0, np.int64)}) == []


def test_a_constant_cost_that_a_key_explains_is_not_worth_a_key():
    kind = np.arange(ROWS) % 2
    assert recommend(1.0 + 0.01 * kind, {"kind": kind}) == []


def test_the_same_rows_give_the_same_answer():
    rng = np.random.default_rng(4)
    ids, costs = rng.integers(0, 50, ROWS), rng.exponential(1.0, ROWS)
    assert recommend(costs * (1 + ids), {"id": ids}) == recommend(costs * (1 + ids), {"id": ids})


def test_what_is_no_measurement_is_refused():
    with pytest.raises(InvalidParameter, match="'kind' has 2 ids for 3 costs"):
        recommend(np.ones(3), {"kind": np.arange(2)})
    with pytest.raises(InvalidCost, match=r"costs_s\[1\] is nan"):
        recommend(np.array([1.0, np.nan]), {"kind": np.arange(2)})
