"""Advice on keys and on state, and the columns of files: without Spark."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.diagnosis.keys import EVEN_PCT, KeyAdvice, KeysAt, KeysDiagnosis, shown_key
from evenly.diagnosis.source import check_columns, data_kind
from evenly.diagnosis.state import StateDiagnosis, checkpoint_diagnosis
from evenly.errors import DamagedData, EmptyStream, InvalidParameter, UnknownColumn
from evenly.keys.batches import Batch
from evenly.keys.carried import Carried, carried_rows
from evenly.keys.expectation import Expectation
from evenly.sealed import sealed


def at(by_hash, by_evenly, share):
    return KeysAt(("user",), len(by_hash), tuple(by_hash), tuple(by_evenly), share)


@pytest.mark.parametrize(
    ("keys", "advice", "call"),
    [
        (at([100, 105, 95, 100], [100] * 4, 0.1), KeyAdvice.NOTHING, None),
        (at([100, 200, 50, 50], [100] * 4, 0.1), KeyAdvice.BY_KEY, 'df.transform(evenly.by_key, key="user", instances=4)'),
        (at([100, 250, 25, 25], [50, 240, 55, 55], 0.6), KeyAdvice.SPLIT, "evenly.aggregate_by_key(df, evenly.Merging("),
        (at([200, 200, 0, 0], [200, 200, 0, 0], 0.25), KeyAdvice.SPLIT, "evenly.aggregate_by_key("),
    ],
)
def test_advice_on_keys(keys, advice, call):
    assert keys.advice is advice
    assert (keys.call or "").startswith(call or "")
    assert (keys.call is None) == (call is None)


@given(st.lists(st.integers(0, 1_000), min_size=2, max_size=12).filter(sum), st.floats(0.001, 1.0))
def test_no_advice_where_the_hash_is_even_and_the_least_is_a_bound(rows, share):
    keys = at(rows, rows, share)
    assert (keys.advice is KeyAdvice.NOTHING) == (keys.hash_pct <= EVEN_PCT)
    assert keys.least_pct == pytest.approx(max(0.0, (share * len(rows) - 1.0) * 100.0))
    assert keys.most_instances * share <= 1.0 + 1e-9 or keys.most_instances == 1
    diagnosis = KeysDiagnosis(("user",), sum(rows), 5, (), (keys,))
    json.dumps(diagnosis.results())


def test_a_number_of_instances_needs_the_rows_of_each():
    with pytest.raises(InvalidParameter, match="3 instances need"):
        KeysAt(("user",), 3, (1, 2), (1, 2, 3), 0.1)


def test_what_new_rows_may_have_stands_beside_what_these_have():
    keys = KeysAt(("user",), 4, (100, 200, 50, 50), (100,) * 4, 0.1, Expectation(3.0, 0.5, 12.0, 1_000.0))
    assert keys.why == "λ falls from 100.0 % to 0.0 %; of new rows 0 to 12 % are to be expected"
    assert (keys.row()["imbalance_pct_new_low"], keys.row()["imbalance_pct_new_high"]) == (0.5, 12.0)


def test_a_path_to_a_field_stays_a_path_in_the_call():
    keys = KeysAt(("s.a",), 4, (100, 200, 50, 50), (100,) * 4, 0.1)
    assert keys.call == 'df.transform(evenly.by_key, key="s.a", instances=4).groupBy("s.a", "slot")'


def test_keys_are_shown_short():
    assert shown_key([None, 7, "x" * 60]) == f"null, 7, {'x' * 39}…"


def test_state_says_how_few_partitions_hold_most_of_it():
    store = StateDiagnosis(0, "stateStoreSave", "default", 4, (1, 800, 1, 700, *([10] * 16), 1_500))
    assert not store.even
    assert store.heaviest[0] == (20, 1_500)
    assert len(store.heaviest) == 3
    assert store.why.startswith("3 of 21 partitions hold 95% of the state; partition 20 alone has 1,500 of 3,162 rows")


def test_a_few_rows_of_state_are_uneven_by_chance_only():
    rows = tuple(int(count) for count in np.random.default_rng(4).multinomial(200, [1 / 20] * 20))
    assert StateDiagnosis(0, "dedupe", "default", 1, rows).even
    assert StateDiagnosis(0, "dedupe", "default", 1, (0, 0)).why == "there is no state"
    assert not StateDiagnosis(0, "dedupe", "default", 1, (200, *([0] * 19))).even


def test_the_advice_on_a_checkpoint_knows_of_evenlys_mapping():
    even, uneven = (StateDiagnosis(n, "dedupe", "default", 1, rows) for n, rows in enumerate(((500, 500), (900, 100))))
    assert "nothing to do" in checkpoint_diagnosis("c", [even], []).advice
    assert "No mapping of Evenly" in checkpoint_diagnosis("c", [even, uneven], []).advice
    both = checkpoint_diagnosis("c", [even, uneven], [2, 1])
    assert "(version 2)" in both.advice
    assert "does not say that they have drifted" in both.advice
    assert both.stores == (uneven, even)
    assert [row["rows"] for row in both.results() if row["series"] == "partition"] == [900, 100, 500, 500]


def batch(number, version, mapped, read=None):
    return Batch(number, version, np.array(mapped, np.uint32), None if read is None else np.array(read, np.uint32))


def test_a_mapping_is_judged_by_the_rows_that_batches_carry_and_not_by_the_state():
    uneven = StateDiagnosis(0, "dedupe", "default", 1, (900, 100))
    seen = [batch(1, 1, (9, 1)), batch(2, 2, (500, 490), (505, 480)), batch(3, 2, (0, 0)), batch(4, 2, (100, 110), (95, 120))]
    carried = carried_rows(seen, 2)
    assert (carried.rows, carried.batches, carried.last_batch, carried.read) == ((600, 600), 2, 4, True)
    assert Carried.from_json(carried.to_json(), source="x") == carried
    even = checkpoint_diagnosis("c", [uneven], [1, 2], carried)
    assert even.carried_even is True
    assert "The rows are even under Evenly's mapping (version 2): the last 2 batches carried 1,200 rows, λ 0 %" in even.advice
    drifted = checkpoint_diagnosis("c", [uneven], [1, 2], carried_rows([batch(5, 2, (900, 300))], 2))
    assert "have drifted away" in drifted.advice
    other = checkpoint_diagnosis("c", [uneven], [1, 2, 3], carried)  # of a version that is no more in force
    assert "does not say that they have drifted" in other.advice
    assert carried_rows(seen[2:3], 2) is None
    (row,) = (row for row in even.results() if row["series"] == "carried")
    assert (row["rows"], row["verdict"], row["mapping_version"]) == (1_200, "even", 2)


def test_few_rows_that_are_uneven_by_chance_have_not_drifted():
    state = StateDiagnosis(0, "dedupe", "default", 1, (500, 500, 500, 500))
    found = checkpoint_diagnosis("c", [state], [1], Carried(1, 1, 1, (1, 0, 0, 0), read=True))
    assert found.carried_even is True
    assert "the last batch carried 1 row, λ 300 %" in found.advice
    assert "Nothing to do" in found.advice
    many = checkpoint_diagnosis("c", [state], [1], Carried(1, 1, 1, (1_000, 0, 0, 0), read=True))
    assert "have drifted away" in many.advice


def test_rows_that_were_uneven_when_the_mapping_was_made_have_not_drifted():
    state = StateDiagnosis(0, "dedupe", "default", 1, (500, 500, 500, 500))
    carried = Carried(1, 9, 9, (7_000, 1_000, 1_000, 1_000), read=True)
    hot = checkpoint_diagnosis("c", [state], [1], carried, expected_pct=175.0)
    assert hot.carried_even is False
    assert "a new mapping does not help" in hot.advice
    assert "have drifted away" in checkpoint_diagnosis("c", [state], [1], carried, expected_pct=150.0).advice


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"version": 1, "batches": 1, "last_batch": 1, "read": True, "rows": []},
        {"version": 1, "batches": 1, "last_batch": 1, "read": True, "rows": [5, -1]},
        {"version": 1, "batches": 1, "last_batch": 1, "read": True, "rows": 3},
        {"version": None, "batches": 1, "last_batch": 1, "read": True, "rows": [1]},
        {"version": 1, "batches": float("inf"), "last_batch": 1, "read": True, "rows": [1]},
    ],
)
def test_counts_of_rows_that_are_none_are_refused(content):
    with pytest.raises(DamagedData, match=r"carried\.json"):
        Carried.from_json(sealed(content, kind="evenly.carried", version=1), source="carried.json")


def test_columns_are_looked_for_before_spark_starts(tmp_path):
    table = pa.table({"user": ["a"], "x": [1]})
    pq.write_table(table, tmp_path / "a.parquet")
    pa_csv.write_csv(table, tmp_path / "a.csv")
    day = tmp_path / "days" / "day=3"
    day.mkdir(parents=True)
    (day.parent / "_SUCCESS").touch()
    pq.write_table(table, day / "part-0.snappy.parquet")
    for path, kind, keys in (("a.parquet", "parquet", ["user"]), ("a.csv", "csv", ["X"]), ("days", "parquet", ["user", "day"])):
        assert data_kind(tmp_path / path) == kind
        check_columns(tmp_path / path, keys)
    with pytest.raises(UnknownColumn, match=r"has no column 'nobody': it has user, x, day"):
        check_columns(tmp_path / "days", ["user", "nobody"])
    (tmp_path / "b.csv").write_bytes(b"")
    (tmp_path / "b.parquet").write_bytes(b"nothing of the kind")
    for name in ("b.csv", "b.parquet"):
        with pytest.raises(DamagedData, match="or is damaged"):
            check_columns(tmp_path / name, ["user"])
    (tmp_path / "none").mkdir()
    with pytest.raises(EmptyStream, match="has no files in it"):
        check_columns(tmp_path / "none", ["user"])
