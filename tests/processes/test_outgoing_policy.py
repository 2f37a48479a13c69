"""What a policy decides over the queues of one process, and how long it may hold them back."""

from __future__ import annotations

import threading
import time

from evenly.emission.link.leader import STALLED_AFTER
from evenly.emission.link.links import look
from evenly.emission.link.outgoing import Outgoing
from evenly.emission.policies.largest_backlog import LBF
from waiting import PATIENT_S, until


def test_a_leader_that_hangs_holds_a_sender_back_no_longer_than_its_patience(tmp_path):
    """The agent of this process is stopped by a policy that never answers; there is nobody else to lead."""
    hang, sent = threading.Event(), []

    class Hangs(LBF):
        name = "hangs"

        def choose(self, backlogs):
            hang.wait(PATIENT_S)
            return super().choose(backlogs)

    gate = threading.Event()
    options = {"link": "h", "folder": tmp_path, "policy": Hangs(), "patience_ms": 50.0, "longest_wait_ms": 1e8}
    with (
        Outgoing(lambda _: gate.wait(PATIENT_S), **options) as other,
        Outgoing(sent.append, **options) as queue,
    ):
        other.send(b"keeps the leader busy")
        until(lambda: look("h", tmp_path).queues[0].waiting == 1, "there is a backlog")
        for number in range(20):
            queue.send(number)
        queue.flush(timeout_s=PATIENT_S)
        hang.set()
        gate.set()
    assert sent == list(range(20))


def test_the_policy_holds_a_queue_back_no_longer_than_its_longest_wait(tmp_path):
    """A queue that is always longer gets every signal of LBF."""
    sent, stop = [], threading.Event()
    with (
        Outgoing(lambda _: time.sleep(0.001), link="w", folder=tmp_path, interval_ms=5.0) as long,
        Outgoing(sent.append, link="w", folder=tmp_path, interval_ms=5.0, longest_wait_ms=100.0) as short,
    ):

        def feed():
            while not stop.is_set():
                if long.backlog < 500:
                    long.send(b"x")
                else:
                    time.sleep(0.0005)

        feeding = threading.Thread(target=feed)
        feeding.start()
        until(lambda: long.backlog >= 400 and long.sent > 20, "the long queue is long")
        time.sleep(0.05)
        for number in range(3):
            short.send(number)
        short.flush(timeout_s=PATIENT_S)
        assert short.sent_unasked >= 1
        assert long.backlog > 100
        stop.set()
        feeding.join()
        long.abort()
    assert sent == [0, 1, 2]


def test_a_queue_whose_destination_hangs_does_not_hold_up_the_others(tmp_path):
    gate, sent = threading.Event(), []
    with (
        Outgoing(lambda _: gate.wait(PATIENT_S), link="s", folder=tmp_path, longest_wait_ms=1e8) as stuck,
        Outgoing(sent.append, link="s", folder=tmp_path, longest_wait_ms=1e8) as queue,
    ):
        for _ in range(1_000):
            stuck.send(b"never")
        for number in range(200):
            queue.send(number)
        queue.flush(timeout_s=PATIENT_S)
        assert look("s", tmp_path).ticks >= STALLED_AFTER
        assert (stuck.sent, queue.sent_unasked) == (0, 0)
        stuck.abort()
        gate.set()
    assert sent == list(range(200))


def test_largest_backlog_first_gives_the_signal_to_the_largest_backlog(tmp_path):
    order, gate = [], threading.Event()

    def to(name):
        return lambda _: (gate.wait(PATIENT_S), order.append(name), time.sleep(0.002))

    with (
        Outgoing(to("few"), link="o", folder=tmp_path, longest_wait_ms=1e8) as few,
        Outgoing(to("many"), link="o", folder=tmp_path, longest_wait_ms=1e8) as many,
    ):
        for queue, tuples in ((few, 10), (many, 200)):
            for _ in range(tuples):
                queue.send(b"x")
        seen = look("o", tmp_path).ticks
        until(lambda: look("o", tmp_path).ticks > seen + 1, "the leader has seen both")
        assert [queue.may_send for queue in look("o", tmp_path).queues] == [False, True]
        gate.set()
        few.flush(timeout_s=PATIENT_S)
        many.flush(timeout_s=PATIENT_S)
    # One tuple of `few` may have been on its way when the leader first saw the backlogs.
    assert order[1:100].count("few") <= 1
    assert order.count("few") == 10


def test_unscheduled_queues_take_no_part(tmp_path):
    sent = []
    with Outgoing(sent.append, link="n", folder=tmp_path, policy="none") as queue:
        for number in range(100):
            queue.send(number)
        assert not queue.leads
        assert look("n", tmp_path) is None
    assert sent == list(range(100))
