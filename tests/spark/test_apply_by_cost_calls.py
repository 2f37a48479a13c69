"""Calls of a user's function without a cluster: one at a time, on threads, on an event loop; costs, errors, limits."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pytest

from evenly.errors import RowTooSlow
from evenly.worker.calling import Calls, Chunk, Serial
from evenly.worker.coroutines import Coroutines
from evenly.worker.limits import Alarm, OutOfTime
from evenly.worker.shared_clock import SharedClock
from evenly.worker.threads import Threads

FOREVER_S = 3_600.0


def chunks(*sizes):
    """Chunks of whole numbers, each its own id."""
    start = 0
    for size in sizes:
        numbers = range(start, start + size)
        yield Chunk(iter(numbers), np.array(numbers, np.int64), np.full(size, 0.5))
        start += size


def ran(caller, *sizes):
    """What came of all calls, by id: a value or an error."""
    found = {}
    try:
        for stretch in caller.run(chunks(*sizes)):
            assert len(stretch.values) == len(stretch.ids) == len(stretch.payloads)
            assert stretch.payloads == stretch.ids.tolist()
            assert stretch.estimates_s.tolist() == [0.5] * len(stretch.ids)
            assert (stretch.costs_s >= 0.0).all()
            for at, identity in enumerate(stretch.ids.tolist()):
                assert identity not in found
                found[identity] = stretch.failures.get(at, stretch.values[at])
    finally:
        caller.close()
    return found


def square(number):
    return number * number


async def square_later(number):
    await asyncio.sleep(0.0)
    return number * number


def callers(function=square, later=square_later, **options):
    """One after the other: a process has one alarm."""
    yield Serial(Calls(function, **options))
    yield Threads(Calls(function, threads=4, **options), batches=False)
    yield Coroutines(Calls(later, threads=4, **options), batches=False)


def test_every_payload_is_called_once():
    for caller in callers():
        assert ran(caller, 3, 1, 500) == {number: number * number for number in range(504)}
    for caller in callers():
        assert ran(caller) == {}


def test_a_dict_that_a_function_fills_again_is_that_of_each_call():
    filled = threading.local()

    def again(number):
        filled.__dict__.setdefault("result", {})["number"] = number
        return filled.result

    async def again_later(number):
        return again(number)

    for caller in callers(again, again_later):
        assert ran(caller, 20) == {number: {"number": number} for number in range(20)}


def test_a_call_that_raises_fails_alone_and_is_tried_again():
    tries = {}
    lock = threading.Lock()

    def moody(number):
        with lock:
            tries[number] = tries.get(number, 0) + 1
        if number % 5 == 0 or (number % 5 == 1 and tries[number] < 3):
            raise LookupError(number)
        if number == 7:
            sys.exit(3)
        return -number

    async def moody_later(number):
        return moody(number)

    for caller in callers(moody, moody_later, retries=2):
        tries.clear()
        found = ran(caller, 20)
        assert {number for number, value in found.items() if isinstance(value, LookupError)} == {0, 5, 10, 15}
        assert isinstance(found[7], SystemExit)
        assert all(found[number] == -number for number in range(20) if number % 5 and number != 7)
        assert [tries[number] for number in (0, 1, 2, 7)] == [3, 3, 1, 3]


def test_threads_run_at_once_and_so_do_coroutines():
    meeting = threading.Barrier(4, timeout=900.0)
    together = asyncio.Barrier(4)

    async def meet(number):
        await together.wait()
        return number

    def meet_in_thread(number):
        meeting.wait()
        return number

    for caller in islice(callers(meet_in_thread, meet), 1, None):
        assert ran(caller, 8, 8) == {number: number for number in range(16)}


def spin(number):
    if number != 3:
        return number
    while True:
        number += 1


def sleep_on(number):
    if number == 3:
        time.sleep(FOREVER_S)
    return number


async def sleep_later(number):
    if number == 3:
        await asyncio.sleep(FOREVER_S)
    return number


def test_a_call_without_end_is_given_up_and_the_others_are_not():
    for caller in chain(callers(spin, sleep_later, limit_s=0.3), islice(callers(sleep_on, sleep_later, limit_s=0.3), 2)):
        found = ran(caller, 12)
        assert isinstance(found.pop(3), RowTooSlow)
        assert found == {number: number for number in range(12) if number != 3}


def test_the_alarm_rings_again_for_a_function_that_swallows_it():
    rung = []

    def stubborn(_):
        while len(rung) < 2:
            try:
                while True:
                    pass
            except OutOfTime:
                rung.append(1)
        return "late"

    before = signal.getsignal(signal.SIGALRM)
    alarm = Alarm(0.05)
    with pytest.raises(RowTooSlow, match=r"0\.05"):
        alarm.call(stubborn, None)
    assert alarm.call(square, 3) == 9
    alarm.close()
    assert len(rung) == 2
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_native_code_that_never_returns_ends_the_process():
    """A sum holds the interpreter: neither a signal nor an exception reaches it."""
    program = (
        "import evenly.worker.limits as limits, evenly.worker.calling as calling\n"
        "from numpy import zeros\n"
        "limits._GRACE_S = 0.5\n"
        "stuck = lambda count: sum(range(count))\n"
        "serial = calling.Serial(calling.Calls(stuck, limit_s=0.2))\n"
        "list(serial.run(iter([calling.Chunk(iter([10**15]), zeros(1, int))])))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=900)
    assert done.returncode == 1
    assert "Timeout" in done.stderr


def test_a_forked_child_that_comes_back_is_ended():
    def forks(number):
        if number == 2:
            child = os.fork()
            if child == 0:
                return "child"
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return number

    found = ran(Serial(Calls(forks)), 5)
    assert found == {0: 0, 1: 1, 2: 70, 3: 3, 4: 4}


def test_one_call_in_16_is_timed_and_stands_for_16():
    serial = Serial(Calls(square, time_every=16))
    stretches = list(serial.run(chunks(100, 60)))
    timed = np.concatenate([stretch.ids[stretch.timed] for stretch in stretches])
    assert timed.size == 10
    assert (np.diff(timed) == 16).all()
    assert all(len(stretch.costs_s) == len(stretch.timed) for stretch in stretches)


def test_batches_know_their_rows():
    rows = pa.record_batch({"x": list(range(10))})
    parts = [rows.slice(start, 4) for start in (0, 4, 8)]
    for caller in (Serial(Calls(len)), Threads(Calls(len, threads=2), batches=True)):
        (stretch,) = caller.run(iter([Chunk(iter(parts), np.arange(10), None, [4, 4, 2])]))
        caller.close()
        assert sorted(stretch.sizes.tolist()) == [2, 4, 4]
        assert stretch.values == stretch.sizes.tolist()
        assert sorted(stretch.ids.tolist()) == list(range(10))


def test_calls_that_share_a_slot_share_its_time():
    now_s = 0.0
    clock = SharedClock(lambda: now_s)
    first = clock.begin()
    now_s = 4.0
    second = clock.begin()
    now_s = 10.0
    assert clock.end(first) == pytest.approx(4.0 + 6.0 / 2)
    now_s = 11.0
    assert clock.end(second) == pytest.approx(6.0 / 2 + 1.0)
    now_s = 50.0
    third = clock.begin()
    now_s = 52.0
    assert clock.end(third) == pytest.approx(2.0)
