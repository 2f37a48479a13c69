"""One outgoing queue: its file, its limits, what it refuses, and what it says of a destination or a policy that fails."""

from __future__ import annotations

import os
import resource
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

from evenly.emission.link import segment as segments
from evenly.emission.link.links import look
from evenly.emission.link.outgoing import Outgoing
from evenly.emission.link.segment import segment_path
from evenly.emission.policies.largest_backlog import LBF
from evenly.errors import DamagedData, InvalidParameter, LinkUnavailable, QueueClosed, SendFailed
from waiting import PATIENT_S


def test_the_first_decides_on_policy_and_interval_and_who_comes_later_is_told(tmp_path, caplog):
    sent = []
    with Outgoing(print, link="m", folder=tmp_path, interval_ms=10.0):
        with Outgoing(sent.append, link="m", folder=tmp_path, policy="fcfs", interval_ms=20.0) as later:
            later.send(b"x")
        assert look("m", tmp_path).policy == "lbf"
    assert sent == [b"x"]
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.endswith("is led with policy 'lbf' and an interval of 10 ms, which serve here too, not 'fcfs' and 20 ms")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("squat", ["link", "folder", "foreign"])
def test_a_file_of_another_under_the_name_of_a_link_is_passed_by(tmp_path, squat):
    path = segment_path("s", tmp_path)
    if squat == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif squat == "folder":
        path.mkdir()
    elif os.getuid() != 0:
        pytest.skip("only root can give a file away")
    else:
        path.touch()
        os.chown(path, 12_345, 12_345)
    sent = []
    with Outgoing(sent.append, link="s", folder=tmp_path) as one, Outgoing(sent.append, link="s", folder=tmp_path) as two:
        one.send(1)
        two.send(2)
        assert len(look("s", tmp_path).queues) == 2, "all who pass by meet"
    assert sorted(sent) == [1, 2]
    assert list(tmp_path.iterdir()) == [path], "and leave nothing but what was there"


def test_a_file_that_is_not_evenlys_is_left_alone(tmp_path):
    path = segment_path("f", tmp_path)
    path.write_text("somebody's notes")
    with pytest.raises(DamagedData, match="is not Evenly's: remove it, or name another link"):
        Outgoing(print, link="f", folder=tmp_path)
    assert path.read_text() == "somebody's notes"


@contextmanager
def largest_file(size):
    """Files of this process cannot grow larger, as if the file system were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_shared_memory_is_one_clear_error_and_leaves_nothing(tmp_path):
    with largest_file(0), pytest.raises(LinkUnavailable, match=r"no room for .* bytes of shared memory"):
        Outgoing(print, link="full", folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(LinkUnavailable, match=r"no folder .*nowhere"):
        Outgoing(print, folder=tmp_path / "nowhere")


def test_three_hundred_queues_share_a_link(tmp_path):
    sent = []
    with ExitStack() as opened:
        queues = [opened.enter_context(Outgoing(sent.append, link="p", folder=tmp_path)) for _ in range(300)]
        for number, queue in enumerate(queues):
            queue.send(number)
        assert len(look("p", tmp_path).queues) == 300
    assert sorted(sent) == list(range(300))


def test_a_queue_without_a_place_sends_and_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(segments, "MOST_QUEUES", 2)
    sent = []
    with Outgoing(print, link="p", folder=tmp_path), Outgoing(print, link="p", folder=tmp_path):
        with Outgoing(sent.append, link="p", folder=tmp_path) as third:
            third.send(b"x")
        assert len(look("p", tmp_path).queues) == 2
    assert sent == [b"x"]
    assert "are taken: this queue sends without waiting" in caplog.text


def test_whoever_opens_a_file_that_is_then_removed_starts_again(tmp_path):
    path = segment_path("g", tmp_path)
    opened = segments.Segment.open(path)
    path.unlink()
    assert opened.join(10**7, "lbf") is None
    opened.dispose()


def test_a_removed_file_splits_the_link_but_loses_nothing(tmp_path):
    first, second = [], []
    with Outgoing(first.append, link="r", folder=tmp_path) as old:
        segment_path("r", tmp_path).unlink()
        with Outgoing(second.append, link="r", folder=tmp_path) as new:
            for number in range(50):
                old.send(number)
                new.send(number)
    assert first == second == list(range(50))
    assert not list(tmp_path.iterdir())


def test_a_full_queue_holds_its_producer_back(tmp_path):
    gate = threading.Event()
    with Outgoing(lambda _: gate.wait(PATIENT_S), link="c", folder=tmp_path, capacity=3) as queue:
        for _ in range(3):
            queue.send(b"x")
        with pytest.raises(SendFailed, match=r"3 tuples have waited for 0\.05 s"):
            queue.send(b"x", timeout_s=0.05)
        with pytest.raises(SendFailed, match=r"3 tuples are not sent after 0\.05 s"):
            queue.flush(timeout_s=0.05)
        assert queue.backlog == 3
        gate.set()
        queue.send(b"x", timeout_s=PATIENT_S)
    assert queue.sent == 4


def test_a_destination_that_fails_is_heard_of_and_nothing_is_sent_past_it(tmp_path):
    sent = []

    def transmit(number):
        if number == 3:
            raise ConnectionError("gone")
        sent.append(number)

    queue = Outgoing(transmit, link="d", folder=tmp_path)
    with pytest.raises(SendFailed, match=r"tuples were not sent: ConnectionError\('gone'\)"):  # noqa: PT012
        for number in range(10):
            queue.send(number)
        queue.flush()
    with pytest.raises(SendFailed) as failed:
        queue.close()
    assert isinstance(failed.value.__cause__, ConnectionError)
    assert sent == [0, 1, 2]
    assert not list(tmp_path.iterdir())


def test_an_exception_in_the_task_leaves_the_link_without_sending_the_rest(tmp_path):
    gate, sent = threading.Event(), []
    queue = Outgoing(lambda x: gate.wait(0.2) or sent.append(x), link="x", folder=tmp_path)

    def task():
        with queue:
            for number in range(100):
                queue.send(number)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        task()
    assert len(sent) <= 1
    with pytest.raises(QueueClosed, match="closed: open another"):
        queue.send(1)
    queue.close()
    assert not list(tmp_path.iterdir())


def test_a_policy_that_fails_is_named(tmp_path):
    class Fails(LBF):
        name, work_conserving = "fails", False

        def choose(self, backlogs):
            raise ArithmeticError(backlogs.queues)

    queue = Outgoing(lambda _: time.sleep(0.01), link="b", folder=tmp_path, policy=Fails(), interval_ms=1.0)
    with pytest.raises(SendFailed, match=r"the policy 'fails' failed: ArithmeticError\(1\)"):  # noqa: PT012
        for _ in range(10_000):
            queue.send(b"x", timeout_s=PATIENT_S)
    queue.abort()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"interval_ms": 0}, "interval_ms must be from 1 to 60,000, got 0"),
        ({"interval_ms": -5.0}, "interval_ms must be from 1 to 60,000, got -5.0"),
        ({"interval_ms": float("nan")}, "got nan"),
        ({"interval_ms": "10"}, "got '10'"),
        ({"capacity": 0}, "capacity must be from 1 "),
        ({"patience_ms": 0.0}, "patience_ms must be from 1 "),
        ({"longest_wait_ms": -1}, "longest_wait_ms must be from 1 "),
        ({"speed": 0}, "speed must be from 1 "),
        ({"link": ""}, "link must be 1 to 64 letters"),
        ({"link": "a/b"}, "got 'a/b'"),
        ({"policy": "lfb"}, "there is no emission policy 'lfb'"),
    ],
)
def test_an_option_out_of_range_is_refused_by_its_value(tmp_path, options, said):
    with pytest.raises(InvalidParameter, match=said):
        Outgoing(print, **{"folder": tmp_path, **options})
    assert not list(tmp_path.iterdir())


def test_a_negative_size_is_refused(tmp_path):
    with (
        Outgoing(lambda _: None, link="z", folder=tmp_path) as queue,
        pytest.raises(InvalidParameter, match=r"size_bytes .* got -1"),
    ):
        queue.send(b"x", size_bytes=-1)
