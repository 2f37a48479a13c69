"""Lines to a socket: what arrives, what is acknowledged, and receivers that are slow, wrong or silent."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

import pytest

from deliveries import BODIES, PARTITION, QUICK_S, raw_server
from evenly.emission.destinations import TcpLines
from evenly.emission.destinations.delivery import Delivered, deliver
from evenly.errors import DestinationFailed, InvalidParameter
from line_receiver import LineReceiver
from waiting import until


@pytest.mark.parametrize("at_once", [1, 7])
@pytest.mark.parametrize("acknowledge", [True, False])
def test_lines_arrive_in_order_with_their_identities(pacing, acknowledge, at_once):
    with LineReceiver(answer=acknowledge) as receiver:
        to = TcpLines("127.0.0.1", receiver.port, acknowledge=acknowledge, rows_at_once=at_once)
        done = deliver(BODIES, to, PARTITION, pacing())
        assert done == Delivered(250, sum(map(len, BODIES)), done.unasked, done.most_waiting)
        if not acknowledge:
            until(lambda: len(receiver.lines) == len(BODIES), "all lines arrive")
        assert receiver.rows() == [("me", 7, 3, number, body) for number, body in enumerate(BODIES)]


def test_lines_without_identities_are_the_rows_alone(pacing):
    with LineReceiver() as receiver:
        deliver(BODIES, TcpLines("127.0.0.1", receiver.port, ids=False), PARTITION, pacing(policy="none"))
        assert receiver.lines == BODIES


def test_a_line_receiver_that_hangs_fails_the_delivery(pacing):
    """Its kernel takes what fits, then nothing."""
    with LineReceiver(hang=True) as receiver, pytest.raises(DestinationFailed, match=r"took nothing for 0\.3 s"):
        deliver((bytes(b"x" * 100_000) for _ in range(200)), TcpLines("127.0.0.1", receiver.port), PARTITION, pacing(QUICK_S))


def test_lines_that_are_not_acknowledged_are_not_delivered(pacing):
    with LineReceiver(hang=True) as receiver, pytest.raises(DestinationFailed) as failed:
        deliver(BODIES, TcpLines("127.0.0.1", receiver.port), PARTITION, pacing(QUICK_S))
    assert "did not acknowledge 250 lines: nothing was heard for 0.3 s" in str(failed.value)
    assert "acknowledge=False" in str(failed.value)


def answering(answer):
    """A server that answers each connection in its own way once it has seen some of it."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        taken, _ = server.accept()
        with server, taken:
            taken.recv(1_000)
            if answer:
                while taken.recv(65_536):
                    pass
                taken.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"249\n", "after it had acknowledged 249$"),
        (b"250", "after it had acknowledged 0, and said b'250' without a line break"),
        (b"thanks\n", "b'thanks', not a count"),
        (b"", "at row|did not acknowledge"),
    ],
)
def test_a_wrong_acknowledgement_fails_the_delivery(pacing, answer, told):
    with pytest.raises(DestinationFailed, match=told):
        deliver(BODIES, TcpLines("127.0.0.1", answering(answer)), PARTITION, pacing(2.0))


def test_a_receiver_that_acknowledges_each_line_and_reads_no_further_before_is_no_deadlock(pacing):
    """Small buffers on both sides: its answers fill them long before the rows end."""
    rows = 60_000

    def acknowledge_each(taken):
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        with taken.makefile("rb") as lines:
            for count, _ in enumerate(lines, 1):
                taken.sendall(b"%19d\n" % count)

    with raw_server(acknowledge_each) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        to = TcpLines("127.0.0.1", server.getsockname()[1], rows_at_once=1_000, buffer_bytes=4_096)
        assert deliver((b"x" for _ in range(rows)), to, PARTITION, pacing(5.0)).rows == rows


def test_a_receiver_that_talks_although_nobody_asked_is_no_deadlock(pacing):
    rows = 60_000

    def talk(taken):
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        with taken.makefile("rb") as lines, suppress(OSError):
            for _ in lines:
                taken.sendall(b"thank you for this line\n")

    with raw_server(talk) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        to = TcpLines("127.0.0.1", server.getsockname()[1], acknowledge=False, rows_at_once=1_000, buffer_bytes=4_096)
        assert deliver((b"x" for _ in range(rows)), to, PARTITION, pacing(5.0)).rows == rows


def test_a_receiver_that_says_it_has_more_than_was_sent_fails_the_delivery(pacing):
    with pytest.raises(DestinationFailed, match="it says that it has 251, more than were sent on this connection"):
        deliver(BODIES, TcpLines("127.0.0.1", answering(b"251\n")), PARTITION, pacing())


@pytest.mark.parametrize(("answer", "advised"), [(b"251\n", False), (b"249\n", False), (b"thanks\n", True)])
def test_a_receiver_that_does_acknowledge_is_not_to_be_trusted_without(pacing, answer, advised):
    """Without acknowledgements the delivery would succeed, and the rows that it did not take would be lost."""
    with pytest.raises(DestinationFailed) as failed:
        deliver(BODIES, TcpLines("127.0.0.1", answering(answer)), PARTITION, pacing(2.0))
    assert ("acknowledge=False" in str(failed.value)) is advised


def test_one_large_write_to_a_slow_receiver_is_not_called_hanging(pacing):
    """It takes in 4 MB within some four time limits, and a part of it within each."""

    def slowly(taken):
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        count = 0
        while data := taken.recv(65_536):
            count += data.count(b"\n")
            time.sleep(0.03)
        taken.sendall(b"%d\n" % count)

    with raw_server(slowly) as server:
        to = TcpLines("127.0.0.1", server.getsockname()[1], rows_at_once=4_000)
        assert deliver((b"x" * 1_000 for _ in range(4_000)), to, PARTITION, pacing(0.5)).rows == 4_000


def test_a_slow_receiver_has_its_time_as_long_as_it_gives_signs(pacing):
    """It takes 6 s for all lines, with a limit of 5 s: every acknowledgement of a part is a sign."""
    with LineReceiver(each_s=0.024) as receiver:
        deliver(BODIES, TcpLines("127.0.0.1", receiver.port), PARTITION, pacing(5.0))
        assert len(receiver.lines) == 250


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_break_in_a_row_is_refused(pacing, end):
    with LineReceiver() as receiver:
        with pytest.raises(InvalidParameter, match=r"row 1 of partition 3.* has a line break"):
            deliver([b"a", b"b" + end + b"c"], TcpLines("127.0.0.1", receiver.port), PARTITION, pacing())
        assert all(end not in line for line in receiver.lines)
