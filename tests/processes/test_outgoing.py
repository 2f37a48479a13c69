"""Outgoing queues and the agent of their link, with real processes that are killed, stopped, forked and left to die."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict

import pytest

from evenly.emission.link.links import look, sweep
from evenly.emission.link.outgoing import Outgoing
from evenly.errors import QueueClosed
from waiting import PATIENT_S, until

FORKED = multiprocessing.get_context("fork")


def sender(ends, name, tuples, folder, each_s, options):
    """A process that sends numbered tuples to a file that all append to, and stays until it is told to leave."""
    destination = os.open(folder / "arrived", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def transmit(number):
        os.write(destination, f"{name} {number}\n".encode())
        time.sleep(each_s)

    with Outgoing(transmit, folder=folder, **options) as queue:
        ends.send("ready")
        for number in range(tuples):
            queue.send(number)
        queue.flush()
        ends.send("done")
        ends.recv()


@pytest.fixture
def senders(tmp_path):
    """Starts sender processes, and ends those that a test leaves."""
    started = []

    def start(name, tuples, *, each_s=0.0, link="l", interval_ms=20.0, **options):
        ours, theirs = FORKED.Pipe()
        options = {"link": link, "interval_ms": interval_ms, **options}
        process = FORKED.Process(target=sender, args=(theirs, name, tuples, tmp_path, each_s, options))
        process.start()
        theirs.close()
        process.ends = ours
        started.append(process)
        return process

    yield start
    for process in started:
        if process.is_alive():
            os.kill(process.pid, signal.SIGCONT)
            process.kill()
        process.join(PATIENT_S)
        process.ends.close()


def hears(process, word):
    assert process.ends.poll(PATIENT_S), f"never said {word}"
    assert process.ends.recv() == word


def ready(*processes):
    for process in processes:
        hears(process, "ready")


def finish(*processes):
    """Wait until all is sent, then let them leave."""
    for process in processes:
        hears(process, "done")
    leave(*processes)


def leave(*processes):
    for process in processes:
        process.ends.send("leave")
    for process in processes:
        process.join(PATIENT_S)
        assert process.exitcode == 0


def arrived(tmp_path):
    """The numbers that came from each sender, in the order of their arrival."""
    numbers = defaultdict(list)
    for line in (tmp_path / "arrived").read_text().splitlines():
        name, number = line.split()
        numbers[name].append(int(number))
    return numbers


def leader(tmp_path, link="l"):
    state = look(link, tmp_path)
    return state.leader if state else 0


def test_tuples_of_many_processes_arrive_once_and_in_the_order_of_their_queue(senders, tmp_path):
    processes = [senders(f"s{i}", 60, each_s=0.0005) for i in range(8)]
    ready(*processes)
    finish(*processes)
    assert arrived(tmp_path) == {f"s{i}": list(range(60)) for i in range(8)}
    assert not list(tmp_path.glob("*.link")), "the last to leave must remove the shared memory"


def test_the_first_to_come_leads_and_the_others_follow(senders, tmp_path):
    first = senders("a", 5, interval_ms=500.0)
    ready(first)
    second = senders("b", 5, interval_ms=500.0)
    ready(second)
    state = look("l", tmp_path)
    assert (state.leader, state.term, state.policy) == (first.pid, 1, "lbf")
    assert {queue.process for queue in state.queues} == {first.pid, second.pid}
    finish(first, second)
    assert look("l", tmp_path) is None


def test_a_leader_that_leaves_hands_over(senders, tmp_path):
    first = senders("a", 5)
    ready(first)
    second = senders("b", 5)
    ready(second)
    finish(first)
    until(lambda: leader(tmp_path) == second.pid, "the second leads")
    finish(second)


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_after_kill_9_of_the_leader_another_leads_and_nothing_is_lost(senders, tmp_path, busy):
    """How soon is a question of the clock: `make bench-emission` measures it."""
    first = senders("a", 100_000 if busy else 0, each_s=0.001, interval_ms=200.0)
    ready(first)
    second = senders("b", 300 if busy else 0, each_s=0.001, interval_ms=200.0)
    ready(second)
    if busy:
        until(lambda: look("l", tmp_path).queues[-1].waiting > 0, "the second has a backlog")
    assert leader(tmp_path) == first.pid
    first.kill()
    until(lambda: leader(tmp_path) == second.pid, "the second leads")
    finish(second)
    numbers = arrived(tmp_path)
    assert numbers["b"] == list(range(300 if busy else 0))
    assert numbers["a"] == list(range(len(numbers["a"])))
    assert not list(tmp_path.glob("*.link"))


def test_a_leader_that_sleeps_on_an_idle_link_is_woken(tmp_path):
    """By a queue that comes, and by tuples that begin to wait; it would sleep for 30 s."""
    gate, sent = threading.Event(), []
    options = {"link": "i", "folder": tmp_path, "interval_ms": 3_000.0}
    with Outgoing(lambda _: gate.wait(PATIENT_S), **options) as first:
        until(lambda: look("i", tmp_path).queues[0].may_send, "an idle link is open to all")
        with Outgoing(sent.append, **options) as second:
            second.send(b"x")
            second.flush(timeout_s=15.0)
            assert second.sent_unasked == 0
            until(lambda: look("i", tmp_path).idle, "the leader sleeps")
            seen = look("i", tmp_path).ticks
            for _ in range(3):
                first.send(b"x")
            until(lambda: look("i", tmp_path).ticks > seen, "the leader looks again", within_s=15.0)
            gate.set()


def test_a_dead_senders_queue_is_dropped_and_the_others_go_on(senders, tmp_path):
    first = senders("a", 100, each_s=0.001)
    ready(first)
    doomed = senders("dead", 100_000, each_s=0.001)
    ready(doomed)
    third = senders("c", 100, each_s=0.001)
    ready(third)
    until(lambda: arrived(tmp_path)["dead"], "the sender with the largest backlog sends")
    doomed.kill()
    doomed.join()
    until(lambda: doomed.pid not in {queue.process for queue in look("l", tmp_path).queues}, "its queue is dropped")
    finish(first, third)
    numbers = arrived(tmp_path)
    assert (numbers["a"], numbers["c"]) == (list(range(100)), list(range(100)))
    assert numbers["dead"] == list(range(len(numbers["dead"])))


@pytest.mark.parametrize("seed", range(3))
def test_whoever_is_killed_the_rest_arrives_once_and_in_order(senders, tmp_path, seed):
    """Half of the processes, the leader of the moment among them."""
    rng = random.Random(seed)
    names = [f"s{i}" for i in range(6)]
    processes = {name: senders(name, 150, each_s=0.001, interval_ms=5.0) for name in names}
    ready(*processes.values())
    killed = set()
    while len(killed) < 3:
        leading = next((name for name in names if processes[name].pid == leader(tmp_path) and name not in killed), None)
        doomed = leading if leading and rng.random() < 0.5 else rng.choice([name for name in names if name not in killed])
        processes[doomed].kill()
        processes[doomed].join()
        killed.add(doomed)
        time.sleep(rng.random() * 0.05)
    finish(*(processes[name] for name in names if name not in killed))
    numbers = arrived(tmp_path)
    for name in names:
        assert numbers[name] == list(range(len(numbers[name]) if name in killed else 150))
    assert not list(tmp_path.glob("*.link"))


def test_a_stopped_leader_is_replaced_and_stands_down_when_it_wakes(senders, tmp_path):
    first = senders("a", 200, each_s=0.001)
    ready(first)
    second = senders("b", 200, each_s=0.001)
    ready(second)
    os.kill(first.pid, signal.SIGSTOP)
    until(lambda: leader(tmp_path) == second.pid, "the second leads")
    assert look("l", tmp_path).term >= 2
    hears(second, "done")  # a stopped leader must not hold back the others
    os.kill(first.pid, signal.SIGCONT)
    finish(first)
    until(lambda: leader(tmp_path) == second.pid, "the second leads alone")
    leave(second)
    assert arrived(tmp_path) == {"a": list(range(200)), "b": list(range(200))}


def test_64_processes_share_a_link(senders, tmp_path):
    processes = [senders(f"s{i}", 3, policy="skipping-rr", interval_ms=10.0) for i in range(64)]
    ready(*processes)
    state = look("l", tmp_path)
    assert {queue.process for queue in state.queues} == {process.pid for process in processes}
    assert state.leader in {process.pid for process in processes}
    finish(*processes)
    assert arrived(tmp_path) == {f"s{i}": [0, 1, 2] for i in range(64)}
    assert not list(tmp_path.glob("*.link"))


def test_what_a_crashed_run_left_is_taken_over_even_with_other_parameters(senders, tmp_path):
    crashed = senders("a", 1_000, each_s=0.01)
    ready(crashed)
    crashed.kill()
    crashed.join()
    (left,) = tmp_path.glob("*.link")
    with Outgoing(lambda _: None, link="l", folder=tmp_path, policy="fcfs", interval_ms=7.0) as queue:
        queue.send(b"x")
        state = look("l", tmp_path)
        assert (state.leader, state.policy, len(state.queues)) == (os.getpid(), "fcfs", 1)
    assert not left.exists()


def test_what_a_crashed_run_left_under_another_name_is_swept_away(senders, tmp_path):
    crashed, alive = senders("a", 1_000, each_s=0.01, link="old"), senders("b", 1, link="live")
    ready(crashed, alive)
    crashed.kill()
    crashed.join()
    with Outgoing(lambda _: None, link="new", folder=tmp_path):
        names = {path.name.split("-", 3)[3] for path in tmp_path.glob("*.link")}
        assert names == {"new.link", "live.link"}
        assert sweep(tmp_path) == []
    finish(alive)


def test_a_process_that_ends_without_closing_leaves_nothing_behind(tmp_path):
    program = (
        "import sys; from evenly.emission.link.outgoing import Outgoing\nOutgoing(print, link='e', folder=sys.argv[1]).flush()"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


def test_a_process_comes_and_goes_while_others_keep_the_link(senders, tmp_path):
    """As a Spark worker that is used for task after task: nothing of an earlier stay may end a later one."""
    other = senders("a", 1, interval_ms=5.0)
    ready(other)
    for _ in range(5):
        sent = []
        with Outgoing(sent.append, link="l", folder=tmp_path, interval_ms=5.0) as queue:
            gc.collect()
            queue.send(b"x")
            queue.flush()
            seen = look("l", tmp_path)
            until(lambda seen=seen: look("l", tmp_path).ticks > seen.ticks + 5, "the leader has looked at all queues")
            assert {queue.process for queue in look("l", tmp_path).queues} == {os.getpid(), other.pid}
        assert sent == [b"x"]
    finish(other)
    assert not list(tmp_path.glob("*.link"))


def child_sends(folder, out):
    with Outgoing(lambda number: os.write(out, f"{number}\n".encode()), link="k", folder=folder) as queue:
        for number in range(20):
            queue.send(number)
        gc.collect()
        queue.flush()
        assert len(look("k", folder).queues) == 2
    os._exit(0)


def test_a_forked_child_has_its_own_queue_and_cannot_use_its_parents(tmp_path):
    reading, writing = os.pipe()
    sent = []
    with Outgoing(sent.append, link="k", folder=tmp_path) as queue:
        child = os.fork()
        if child == 0:
            try:
                queue.send(b"mine?")
            except QueueClosed:
                child_sends(tmp_path, writing)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        os.close(writing)
        with os.fdopen(reading) as came:
            assert came.read().split() == [str(number) for number in range(20)]
        queue.send(b"still there")
        queue.flush()
        assert [queue.process for queue in look("k", tmp_path).queues] == [os.getpid()]
    assert sent == [b"still there"]
    assert not list(tmp_path.iterdir())


def spawned(folder, results):
    sent = []
    with Outgoing(sent.append, link="v", folder=folder) as queue:
        for number in range(30):
            queue.send(number)
        queue.flush()
    results.put(sent)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_of_multiprocessing_share_a_link(tmp_path, method):
    context = multiprocessing.get_context(method)
    results = context.SimpleQueue()
    processes = [context.Process(target=spawned, args=(tmp_path, results)) for _ in range(3)]
    for process in processes:
        process.start()
    assert [results.get() for _ in processes] == [list(range(30))] * 3
    for process in processes:
        process.join(PATIENT_S)
        assert process.exitcode == 0
    assert not list(tmp_path.iterdir())
