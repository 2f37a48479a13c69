"""Calls of a function for key after key: what fits, what does not, and whose fault it is."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest

from evenly.errors import FunctionFailed, InvalidResult
from evenly.worker.results import Shape
from evenly.worker.states.calls import BatchTimes, Calls
from evenly.worker.states.identity import identity_of
from evenly.worker.states.kept import Entry
from evenly.worker.states.layout import NEVER, StateLayout

KEY = pa.schema([("user", pa.string())])
SENT = pa.schema([*KEY, ("id", pa.int32())])
SEEN = pa.schema([("seen", pa.int64())])
KEPT = Entry(place=5, id=7, key=("a",), state=(3,), deadline_ms=NEVER)


def called(function, *, kept=None, timeout=None, state=SEEN, strict=frozenset()):
    shapes = Shape(state, strict, held=True), Shape(SEEN, held=True)
    layout = StateLayout(KEY, SENT, (0,), KEY, *shapes, timeout, b"12345678")
    calls = Calls(function, layout, BatchTimes(now_ms=1_000, watermark_ms=500))
    calls.call(("a",), ("a",), 7, [], kept)
    return calls


def test_a_new_state_replaces_the_old_one():
    calls = called(lambda _key, _rows, state: ([state.seen, (8,), {"seen": 9}], (state.seen + 1,)), kept=KEPT)
    assert calls.void == [5]
    assert calls.entries().to_pylist() == [{"id": 7, "key0": "a", "state0": 4}]
    assert calls.made().to_pylist() == [{"seen": 3}, {"seen": 8}, {"seen": 9}]


def test_none_removes_the_state():
    calls = called(lambda _key, _rows, _state: ([], None), kept=KEPT)
    assert (calls.void, calls.entries().num_rows, calls.made().num_rows) == ([5], 0, 0)


def test_a_state_that_was_given_back_is_not_written_again():
    calls = called(lambda _key, _rows, state: ((), state), kept=KEPT)
    assert (calls.void, calls.entries().num_rows) == ([], 0)


def test_a_state_that_was_changed_in_place_is_written():
    def grown(_key, _rows, state):
        state.all.append(4)
        return [], state

    kept = Entry(5, 7, ("a",), ([3],), NEVER)
    calls = called(grown, kept=kept, state=pa.schema([("all", pa.list_(pa.int64()))]))
    assert calls.void == [5]
    assert calls.entries().to_pylist() == [{"id": 7, "key0": "a", "state0": [3, 4]}]


NESTED = {
    "array": (pa.list_(pa.int64()), [1, 2]),
    "map": (pa.map_(pa.string(), pa.int64()), {"all": 1}),
    "struct": (pa.struct([("x", pa.int64())]), (1,)),
}


@pytest.mark.parametrize("name", NESTED)
def test_the_only_field_of_a_state_may_be_nested_and_null(name):
    kind, value = NESTED[name]
    state = pa.schema([("all", kind)])
    given = [(value,), {"all": value}, (None,), {"all": None}]
    kept = [called(lambda *_, new=new: ([], new), state=state).entries() for new in given]
    whole = pa.array([{"x": 1} if name == "struct" else list(value.items()) if name == "map" else value], kind)
    assert [it.column("state0") for it in kept] == [whole, whole, pa.array([None], kind), pa.array([None], kind)]


@pytest.mark.parametrize("bare", [[1, 2], [None], 3])
def test_a_nested_state_without_what_holds_it_is_refused(bare):
    calls = called(lambda *_: ([], bare), state=pa.schema([("all", pa.list_(pa.int64()))]))
    with pytest.raises(InvalidResult, match="return a dict or a tuple with the fields all"):
        calls.entries()


@pytest.mark.parametrize("kind", [dict, list])
def test_what_a_function_fills_again_for_the_next_key_is_that_of_each(kind):
    filled = kind()

    def again(key, _rows, _state):
        filled.clear()
        filled.update(user=key[0], seen=1) if kind is dict else filled.extend((key[0], 1))
        return (filled for _ in range(1)), filled

    both = pa.schema([("user", pa.string()), ("seen", pa.int64())])
    layout = StateLayout(KEY, SENT, (0,), KEY, Shape(both), Shape(both), None, b"12345678")
    calls = Calls(again, layout, BatchTimes(now_ms=1_000, watermark_ms=500))
    for user in "ab":
        calls.call((user,), (user,), 7, [], None)
    assert [row["user"] for row in calls.made().to_pylist()] == ["a", "b"]
    assert [row["state0"] for row in calls.entries().to_pylist()] == ["a", "b"]


def test_what_is_inside_a_result_and_is_filled_again_is_that_of_each():
    filled = []

    def again(key, _rows, _state):
        filled[:] = [key[0]]
        return [(filled,)], None

    inside = pa.schema([("users", pa.list_(pa.string()))])
    layout = StateLayout(KEY, SENT, (0,), KEY, Shape(SEEN, held=True), Shape(inside, held=True), None, b"12345678")
    calls = Calls(again, layout, BatchTimes(now_ms=1_000, watermark_ms=500))
    for user in "ab":
        calls.call((user,), (user,), 7, [], None)
    assert [row["users"] for row in calls.made().to_pylist()] == [["a"], ["b"]]


@pytest.mark.parametrize("table", [pd.DataFrame({"seen": [1]}), pa.table({"seen": [1]})], ids=["pandas", "arrow"])
def test_a_table_is_no_list_of_results(table):
    with pytest.raises(InvalidResult, match=r"returned (DataFrame|Table) for its rows: return a list"):
        called(lambda *_: (table, None))


def test_a_deadline_is_kept_with_the_state():
    calls = called(lambda _key, _rows, _state, times: ([], (1,), times.watermark_ms + 1), timeout="event")
    assert calls.entries().to_pylist() == [{"id": 7, "deadline": 501, "key0": "a", "state0": 1}]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "NoneType, and not the tuple"),
        ([[], None], "list, and not the tuple"),
        (([], None, 5), "not the tuple .rows, state."),
        (("text", None), "str for its rows"),
        ((None, None), "NoneType for its rows"),
        (({"seen": 1}, None), "dict for its rows"),
    ],
)
def test_what_is_not_rows_and_a_state_is_refused(given, told):
    with pytest.raises(InvalidResult, match=f'{told}.*"user": "a"'):
        called(lambda _key, _rows, _state: given)


@pytest.mark.parametrize(
    ("given", "timeout", "told"),
    [
        (500, "event", "later than the watermark, 500"),
        (1_000, "processing", "later than the time of the batch, 1000"),
        (1.5, "event", "a whole number"),
        (True, "event", "a whole number"),
        (float("inf"), "event", "a whole number"),
        (NEVER, "event", "must be later"),
        (datetime(2024, 1, 1, tzinfo=UTC), "event", "milliseconds since 1970"),
    ],
)
def test_a_deadline_that_is_none_is_refused(given, timeout, told):
    with pytest.raises(InvalidResult, match=told):
        called(lambda _key, _rows, _state, _times: ([], (1,), given), timeout=timeout)


def test_a_deadline_without_a_state_is_refused():
    with pytest.raises(InvalidResult, match="a deadline and no state"):
        called(lambda _key, _rows, _state, _times: ([], None, 5_000), timeout="event")


def test_states_and_results_that_do_not_fit_name_their_key():
    with pytest.raises(InvalidResult, match=r"1\.5 .float.*state.*\"user\": \"a\""):
        called(lambda _key, _rows, _state: ([], (1.5,))).entries()
    with pytest.raises(InvalidResult, match=r"None for field 'seen'.*\"user\": \"a\""):
        called(lambda _key, _rows, _state: ([], (None,)), strict=frozenset({"seen"})).entries()
    with pytest.raises(InvalidResult, match=r"'x' .str.*result.*\"user\": \"a\""):
        called(lambda _key, _rows, _state: (["x"], None)).made()


def test_what_it_raises_names_the_key():
    def failing(_key, _rows, _state):
        raise KeyError("gone")

    with pytest.raises(FunctionFailed, match=r'KeyError: .gone.; on {"user": "a"}. It got 0 rows and a state'):
        called(failing, kept=KEPT)


def test_keys_are_one_where_spark_takes_them_for_one():
    berlin = ZoneInfo("Europe/Berlin")
    twice = datetime(2024, 10, 27, 2, 30, tzinfo=berlin)
    of_time = identity_of([pa.timestamp("us", tz="Europe/Berlin")])
    assert twice == twice.replace(fold=1)
    assert of_time((twice,)) != of_time((twice.replace(fold=1),))
    assert of_time((twice,)) == of_time(((twice.astimezone(UTC) + timedelta(0)),))
    of_float = identity_of([pa.float64()])
    assert of_float((float("nan"),)) == of_float((float("nan"),))
    assert of_float((-0.0,)) == of_float((0.0,)) != of_float((None,))
    of_struct = identity_of([pa.struct([("x", pa.list_(pa.float64()))])])
    assert of_struct(({"x": [float("nan"), None]},)) == of_struct(({"x": [float("nan"), None]},))
    assert hash(of_struct(({"x": None},)))
