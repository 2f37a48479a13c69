"""Rows that end their process, and rows that end the job: one instance at work, without a cluster."""

import asyncio
import ctypes
import faulthandler
import functools
import json
import multiprocessing
import os
import signal
import socket
import time

import numpy as np
import pyarrow as pa
import pytest
from pyspark import accumulators

from evenly.costs.report import InstanceReport
from evenly.errors import FunctionFailed, InvalidResult, WorkerDied
from evenly.spark.costs.options import one_attempt
from evenly.worker.calling import Calls
from evenly.worker.executing import ID, REPORT, Work, executor
from evenly.worker.letters import ERROR
from evenly.worker.results import Shape

LONG = Shape(pa.schema([("x", pa.int64())]))
FOREVER_S = 3_600.0


def batches(*sizes):
    """Rows numbered on, with a hidden id each."""
    start = 0
    for size in sizes:
        numbers = list(range(start, start + size))
        yield pa.record_batch({"n": numbers, ID: pa.array([number % 3 for number in numbers], pa.int64())})
        start += size


def executed(function, *sizes, skip=True, report=True, batch_rows=None, **calls):
    """What became of each row, values and letters, and the report."""
    work = Work(Calls(function, **calls), LONG, ("n",), batch_rows=batch_rows, skip=skip, report=report, one_attempt=True)
    values, letters, told = [], {}, None
    for batch in executor(work)(batches(*sizes)):
        for row in batch.to_pylist():
            if row[REPORT] is not None:
                told = InstanceReport.from_bytes(row[REPORT])
            elif skip and row[ERROR] is not None:
                letters[json.loads(row[ERROR]["row"])["n"]] = (row[ERROR]["type"], row[ERROR]["message"])
            else:
                values.append(row["x"])
    return sorted(values), letters, told


def deadly(row):
    if row.n == 3:
        os._exit(7)
    if row.n == 11:
        faulthandler.disable()
        ctypes.string_at(0)  # a real crash
    if row.n == 12:
        os.kill(os.getpid(), signal.SIGKILL)
    if row.n == 13:
        raise LookupError("thirteen")
    return row.n


async def deadly_later(row):
    await asyncio.sleep(0.0)
    return deadly(row)


@pytest.mark.parametrize(("function", "threads"), [(deadly, 1), (deadly, 8), (deadly_later, 8)])
@pytest.mark.parametrize("time_every", [1, 64])
def test_rows_that_end_their_process_are_named_and_all_others_are_run(function, threads, time_every):
    values, letters, told = executed(function, 10, 20, threads=threads, time_every=time_every)
    assert values == [n for n in range(30) if n not in {3, 11, 12, 13}]
    assert {n: kind for n, (kind, _) in letters.items()} == {**dict.fromkeys((3, 11, 12), "WorkerDied"), 13: "LookupError"}
    assert "status 7" in letters[3][1]
    assert "SIGSEGV" in letters[11][1]
    assert "SIGKILL" in letters[12][1]
    assert (told.rows, told.errors) == (30, 4)


def test_every_row_of_a_batch_that_ends_its_process_is_a_letter():
    def whole(batch):
        if 7 in batch.column("n").to_pylist():
            os._exit(1)
        return batch.rename_columns(["x"])

    values, letters, told = executed(whole, 10, 10, batch_rows=4)
    assert values == [n for n in range(20) if n not in {4, 5, 6, 7}]
    assert sorted(letters) == [4, 5, 6, 7]
    assert (told.rows, told.errors) == (20, 4)


class Unsaid(Exception):
    def __str__(self):
        raise RuntimeError

    __repr__ = __str__


def unsaid(row):
    if row.n == 1:
        raise Unsaid
    if row.n == 2:
        raise FileNotFoundError("caf\udce9")  # a file's name that is not UTF-8
    return Unsaid() if row.n == 3 else row.n


def test_an_error_whose_text_cannot_be_had_or_written_is_its_rows():
    values, letters, _ = executed(unsaid, 5)
    assert values == [0, 4]
    assert letters[1] == ("Unsaid", "(its text cannot be had: RuntimeError)")
    assert letters[2] == ("FileNotFoundError", "caf\\udce9")
    assert "the function returned a Unsaid (Unsaid) for field 'x'" in letters[3][1]
    with pytest.raises(FunctionFailed, match=r"raised Unsaid: \(its text cannot be had: RuntimeError\); on "):
        executed(unsaid, 5, skip=False)


def raw(kind, *values):
    """Values that Spark has and Python has not."""
    if kind == pa.string():
        held = pa.array(values, pa.binary())
        return pa.Array.from_buffers(kind, len(held), held.buffers())
    return pa.array(values, pa.int32() if kind == pa.date32() else pa.int64()).view(kind)


ODD = {
    "t": (raw(pa.string(), b"good", b"caf\xe9", b"", b"ok"), "UnicodeDecodeError", "make_valid_utf8", "caf\\xe9"),
    "d": (raw(pa.date32(), 1, 3_000_000, 2, 3), "OverflowError", "a cast to string", "10183-09-21"),
    "m": (
        raw(pa.timestamp("us", tz="UTC"), 1, 2**60, 2, 3),
        "OverflowError",
        "a cast to string",
        "1152921504606846976 µs since 1970",
    ),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("name", ODD)
def test_a_row_that_python_cannot_have_is_set_aside_alone(name, alone, threads):
    column, kind, remedy, shown = ODD[name]
    more = pa.array([0, 1, 2, 3], pa.int64())
    given = pa.record_batch({"n": more, name: column, "l": pa.array([[it] for it in range(4)]), ID: more})
    calls = Calls(lambda row: row.n, threads=threads)
    work = Work(calls, LONG, ("n", name, "l"), skip=True, one_attempt=alone, candidates=0)
    made = [row for batch in executor(work)(iter([given, given])) for row in batch.to_pylist()]
    assert sorted(row["x"] for row in made if row["x"] is not None) == [0, 0, 2, 2, 3, 3]
    for letter in (letters := [row[ERROR] for row in made if row[ERROR] is not None]):
        assert letter["type"] == "FunctionFailed"
        assert f"column '{name}' has a value that Python has not ({kind}" in letter["message"]
        assert remedy in letter["message"]
        assert json.loads(letter["row"])["n"] == 1
        assert shown in json.loads(letter["row"])[name]
    told = InstanceReport.from_bytes(made[-1][REPORT])
    assert (len(letters), told.rows, told.errors) == (2, 8, 2)
    with pytest.raises(FunctionFailed, match=r"column '.' has a value that Python has not \(.* it has; on {.n.: 1, "):
        list(executor(Work(calls, LONG, ("n", name, "l")))(iter([given])))


def test_letters_of_a_batch_tell_also_what_python_cannot_have():
    column = ODD["t"][0]
    work = Work(Calls(lambda _: 1 / 0), LONG, ("t",), batch_rows=10, skip=True)
    rows = [
        json.loads(it["row"])["t"] for it in next(executor(work)(iter([pa.record_batch({"t": column})])))[ERROR].to_pylist()
    ]
    assert rows == ["good", "caf\\xe9", "", "ok"]


def test_a_row_that_ends_its_process_is_tried_again(tmp_path):
    def twice_deadly(row):
        if row.n in {2, 5}:
            with (tmp_path / str(row.n)).open("a") as log:
                log.write("x")
            if row.n == 2 or (tmp_path / "5").stat().st_size < 3:
                os._exit(1)
        return row.n

    values, letters, _ = executed(twice_deadly, 8, retries=2)
    assert values == [0, 1, 3, 4, 5, 6, 7]
    assert list(letters) == [2]
    assert (tmp_path / "2").stat().st_size == 3


def test_native_code_that_never_returns_is_a_row_too_slow(monkeypatch):
    monkeypatch.setattr("evenly.worker.limits._GRACE_S", 0.5)

    def stuck(row):
        return sum(range(10**15)) if row.n == 2 else row.n

    values, letters, _ = executed(stuck, 6, limit_s=0.2)
    assert values == [0, 1, 3, 4, 5]
    assert letters[2][0] == "RowTooSlow"
    assert "time_limit_s=0.2" in letters[2][1]


def test_a_death_is_noticed_though_a_grandchild_lives():
    def leaves_one_behind(row):
        if row.n == 1:
            multiprocessing.get_context("fork").Process(target=time.sleep, args=(20,), daemon=True).start()
            os._exit(3)
        return row.n

    values, letters, _ = executed(leaves_one_behind, 3)
    assert values == [0, 2]
    assert list(letters) == [1]


class DeadlyValue:
    """Nothing is wrong with the call that returns it."""

    def __int__(self):
        os._exit(1)


def test_a_process_that_ends_again_and_again_while_no_row_runs_is_one_clear_error():
    with pytest.raises(WorkerDied, match=r"ran no row \(it exited with status 1\)"):
        executed(lambda row: DeadlyValue() if row.n == 2 else row.n, 5)


@pytest.mark.parametrize(("attempt", "skip", "elsewhere"), [(0, True, False), (1, True, True), (1, False, False)])
def test_a_child_is_used_where_another_attempt_has_failed(monkeypatch, attempt, skip, elsewhere):
    context = type("Context", (), {"attemptNumber": lambda _: attempt, "partitionId": lambda _: 0})()
    monkeypatch.setattr("evenly.worker.executing.running_task", lambda: context)
    work = Work(Calls(lambda _: os.getpid()), LONG, ("n",), skip=skip, report=False)
    pids = {pid for batch in executor(work)(batches(3)) for pid in batch.column(0).to_pylist()} - {None}
    assert (pids != {os.getpid()}) is elsewhere


def test_the_child_shares_neither_connections_nor_random_numbers_with_the_worker():
    ours, theirs = socket.socketpair()
    drawn = np.random.mtrand._rand  # the one generator that all of a process shares
    before = drawn.get_state()
    expected = drawn.randint(2**31)
    drawn.set_state(before)
    work_pid = os.getpid()

    def look(row):
        assert os.getpid() != work_pid
        try:
            ours.send(b"from the child")
            sent = 1
        except OSError:
            sent = 0
        return [sent, int(drawn.randint(2**31) == expected), len(ours.recv(1))][row.n]

    values, letters, _ = executed(look, 3)
    assert (values, letters) == ([0, 0, 0], {})
    theirs.settimeout(0.0)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)
    for end in (ours, theirs):
        end.close()


def test_accumulators_count_what_was_reported(monkeypatch):
    monkeypatch.setattr(accumulators, "_accumulatorRegistry", {})
    counter = accumulators._deserialize_accumulator(5, 0, accumulators.INT_ACCUMULATOR_PARAM)

    def counts(row):
        if row.n == 2:
            os._exit(1)
        counter.add(1)
        return row.n

    counter.add(100)
    assert executed(counts, 6)[0] == [0, 1, 3, 4, 5]
    assert counter._value == 105


def test_no_process_is_left_when_results_are_not_wanted_any_more():
    work = Work(Calls(lambda _: os.getpid()), LONG, ("n",), skip=True, one_attempt=True)
    results = executor(work)(batches(3, 3))
    (child, *_) = next(results).column(0).to_pylist()
    results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.parametrize(
    ("master", "failures", "expected"),
    [
        ("local", "4", True),
        ("local[2]", "4", True),
        ("local[*]", "4", True),
        ("local[2, 1]", "4", True),
        ("local[2,3]", "1", False),
        ("local-cluster[2,1,1024]", "4", False),
        ("spark://a:7077", "1", True),
        ("yarn", "4", False),
        (None, "4", False),
    ],
)
def test_where_spark_tries_a_task_once(master, failures, expected):
    class Conf:
        def get(self, name, default):
            return {"spark.master": master, "spark.task.maxFailures": failures}.get(name) or default

    class Frame:
        sparkSession = type("Session", (), {"conf": Conf()})  # noqa: N815

    assert one_attempt(Frame()) is expected


# Rows that end the job


def called_after(function, *, wrong, batch_rows=None, **calls):
    """How many calls begin after the one that must end the job, which is the 100th row's."""
    called = []

    def counted(payload):
        called.append(payload)
        number = payload.n if batch_rows is None else payload.column("n").to_pylist()[0]
        return function(number, fails=number == 100)

    async def counted_later(payload):
        made = counted(payload)
        await asyncio.sleep(0.0)
        return made

    later = calls.pop("later", False)
    with pytest.raises(InvalidResult if wrong else FunctionFailed, match=r'"n": 100'):
        executed(counted_later if later else counted, 20_000, skip=False, batch_rows=batch_rows, **calls)
    first = next(
        at for at, payload in enumerate(called) if (payload.n if batch_rows is None else payload["n"][0].as_py()) == 100
    )
    return len(called) - first - 1


def raises(number, *, fails, of_batch=False):
    if fails:
        raise ValueError(number)
    return pa.record_batch({"x": [number]}) if of_batch else number


def returns_text(number, *, fails, of_batch=False):
    made = "text" if fails else number
    return pa.record_batch({"x": [made]}) if of_batch else made


@pytest.mark.parametrize("function", [raises, returns_text])
@pytest.mark.parametrize("report", [True, False])
@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 32),
        ({"retries": 1}, 33),
        ({"limit_s": 60.0}, 32),
        ({"time_every": 64}, 32),
        ({"threads": 4}, 20),
        ({"threads": 4, "later": True}, 8),
        ({"threads": 4, "limit_s": 60.0, "later": True}, 8),
        ({"batch_rows": 1}, 32),
    ],
)
def test_a_row_that_fails_ends_the_job_within_a_few_calls(function, report, options, most):
    if "batch_rows" in options:
        function = functools.partial(function, of_batch=True)
    after = called_after(function, wrong="text" in str(function), report=report, **options)
    assert after <= most


def test_rows_that_take_long_are_looked_at_one_by_one():
    def slow(number, *, fails):
        time.sleep(0.002)
        return "text" if fails else number % 100

    calls = []

    def from_row(row):
        calls.append(row.n)
        return slow(row.n, fails=row.n == 20)

    with pytest.raises(InvalidResult):
        executed(from_row, 10_000, skip=False, report=False, time_every=64)
    assert calls[-1] <= 21
