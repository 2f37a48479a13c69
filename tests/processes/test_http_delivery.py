"""Requests to an HTTP endpoint: what arrives, servers that are busy, slow or refuse, and what is not told of a url."""

from __future__ import annotations

import socket
import threading
import time
import traceback

import pytest

from deliveries import BODIES, PARTITION, QUICK_S, free_port, raw_server
from evenly.emission.destinations import HttpPost
from evenly.emission.destinations.deadline import DeadlineSocket
from evenly.emission.destinations.delivery import deliver
from evenly.emission.destinations.retrying import pause_s
from evenly.errors import DestinationFailed, InvalidParameter
from http_receiver import HttpReceiver
from line_receiver import check_at_least_once_in_order


def test_requests_arrive_in_order_with_their_identities(pacing):
    with HttpReceiver() as receiver:
        assert deliver(BODIES, HttpPost(receiver.url, {"X-Token": "t"}), PARTITION, pacing()).rows == 250
        assert receiver.rows() == [("me", 7, 3, number, body) for number, body in enumerate(BODIES)]
        headers, _ = receiver.requests[5]
        assert (headers["X-Token"], headers["Idempotency-Key"]) == ("t", "me/7/3/5/1")


def test_a_request_may_have_several_rows(pacing):
    with HttpReceiver() as receiver:
        assert deliver(BODIES, HttpPost(receiver.url, rows_at_once=100), PARTITION, pacing()).rows == 250
        assert [row[3] for row in receiver.rows()] == [0, 100, 200]
        assert b"".join(body for *_, body in receiver.rows()) == b"".join(body + b"\n" for body in BODIES)
        assert [headers["Evenly-Rows"] for headers, _ in receiver.requests] == ["100", "100", "50"]


def test_a_request_without_an_answer_fails_the_delivery(pacing):
    with HttpReceiver(lambda before: None if before == 3 else 200) as receiver:
        with pytest.raises(
            DestinationFailed, match=r"no answer within 0\.3 s to row 3 of partition 3, batch 7 of me: it hangs"
        ):
            deliver(BODIES, HttpPost(receiver.url), PARTITION, pacing(QUICK_S))
        assert [row[3] for row in receiver.rows()] == [0, 1, 2]


@pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
def test_an_answer_that_drips_does_not_outlive_the_time_limit(pacing, beginning):
    """Bytes come 20 times within each limit; all of them would take 500 limits."""
    dripped = []

    def drip(taken):
        taken.recv(65_536)
        taken.sendall(beginning)
        for _ in range(10_000):
            taken.sendall(b"x")
            dripped.append(1)
            time.sleep(0.05)

    with raw_server(drip) as server, pytest.raises(DestinationFailed, match="no answer within 1 s to row 0"):
        deliver(BODIES, HttpPost(f"http://127.0.0.1:{server.getsockname()[1]}/"), PARTITION, pacing(1.0))
    assert 1 <= len(dripped) < 60


def test_a_deadline_holds_for_all_calls_together():
    """On a clock of the test's own: it is not the wall clock that decides."""
    now, (ours, theirs) = [0.0], socket.socketpair()
    connected = DeadlineSocket(ours, lambda: now[0])
    connected.until(10.0)
    with ours, theirs, connected.makefile("rb") as reader:
        for now[0] in (0.0, 4.0, 9.0):
            theirs.sendall(b"x")
            assert reader.read(1) == b"x"
        now[0] = 10.0
        theirs.sendall(b"x")
        with pytest.raises(TimeoutError):
            reader.read(1)
        with pytest.raises(TimeoutError):
            connected.sendall(b"y")


def test_an_answer_with_connection_close_is_read_whole(pacing):
    def close(taken):
        taken.recv(65_536)
        taken.sendall(b"HTTP/1.1 400 Bad\r\nConnection: close\r\nContent-Length: 9\r\n\r\n")
        taken.sendall(b"not today")

    with raw_server(close) as server, pytest.raises(DestinationFailed, match="answered 400 Bad: not today to row 0"):
        deliver(BODIES, HttpPost(f"http://127.0.0.1:{server.getsockname()[1]}/"), PARTITION, pacing())


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_server_is_asked_again_and_gets_every_row_once(pacing, status):
    refusing = iter([False] * 30 + [True, True] + [False] * 1_000)
    with HttpReceiver(lambda _: status if next(refusing) else 200) as receiver:
        deliver(BODIES, HttpPost(receiver.url), PARTITION, pacing())
        assert receiver.rows() == [("me", 7, 3, number, body) for number, body in enumerate(BODIES)]


def test_a_server_that_stays_busy_fails_the_delivery_when_its_time_is_up(pacing):
    with HttpReceiver(lambda _: 429, {"Retry-After": "3600"}) as receiver:
        with pytest.raises(
            DestinationFailed, match=r"answered 429 .* to row 0 .*, 1 times; the next would be due in 3[6-9]\d\d"
        ):
            deliver(BODIES, HttpPost(receiver.url, retry_for_s=2.0), PARTITION, pacing())
        assert receiver.answered == 1, "it asked for an hour, and is not asked again sooner"
    with HttpReceiver(lambda _: 503) as receiver:
        with pytest.raises(DestinationFailed, match=r"answered 503 .*: no room to row 0 of partition 3, batch 7 of me$"):
            deliver(BODIES, HttpPost(receiver.url, retry_for_s=0), PARTITION, pacing())
        assert receiver.answered == 1


def test_what_a_server_says_of_when_to_come_again_is_understood():
    assert pause_s(5, "2", 0.0, jitter=0.0) == 2.0
    assert pause_s(5, "2", 0.0, jitter=1.0) == pytest.approx(2.2)
    assert pause_s(1, "Wed, 21 Oct 2015 07:28:30 GMT", 1_445_412_480.0, jitter=0.0) == 30.0
    assert pause_s(2, "Wed, 21 Oct 2015 07:28:30 GMT", 2e9, jitter=0.0) == 0.2, "a date that has passed is no pause of 0"
    assert pause_s(3, "0", 0.0, jitter=0.0) == 0.4
    assert [pause_s(n, told, 0.0, jitter=0.0) for n, told in ((1, None), (2, "soon"), (3, "-1"), (40, ""))] == [
        0.1,
        0.2,
        0.4,
        10.0,
    ]
    assert 0.05 <= pause_s(1, None, 0.0) <= 0.1


def test_a_server_that_refuses_a_body_before_it_has_it_all_is_heard(pacing):
    def refuse(taken):
        taken.recv(1_000)
        taken.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 7\r\nConnection: close\r\n\r\ntoo big")
        taken.shutdown(socket.SHUT_WR)

    with (
        raw_server(refuse) as server,
        pytest.raises(DestinationFailed, match="answered 413 Content Too Large: too big to row 0"),
    ):
        deliver([bytes(20_000_000)], HttpPost(f"http://127.0.0.1:{server.getsockname()[1]}/"), PARTITION, pacing())


def test_no_secret_of_a_url_is_told(pacing):
    def everything(error):
        return "".join(traceback.format_exception(error)) if error else ""

    with HttpReceiver(lambda _: 301, {"Location": "https://u:hunter2@else/?token=hunter2"}) as receiver:
        to = HttpPost(receiver.url + "?token=hunter2&a=b", {"Authorization": "Bearer hunter2"})
        with pytest.raises(
            DestinationFailed, match=r"/rows\?… answered 301 .*to https://…@else/\?…; redirects are not"
        ) as redirected:
            deliver(BODIES, to, PARTITION, pacing())
        receiver.answer, receiver.told = (lambda _: 404), b"no such page: /rows?token=hunter2&a=b, hunter2"
        with pytest.raises(DestinationFailed, match="no such page: /rows") as missing:
            deliver(BODIES, to, PARTITION, pacing())
    closed = HttpPost(f"http://127.0.0.1:{free_port()}/?token=hunter2")
    with pytest.raises(DestinationFailed, match="refused connections") as refused:
        deliver(BODIES, closed, PARTITION, pacing(QUICK_S))
    told = [repr(to), str(to), *(everything(failed.value) for failed in (redirected, missing, refused))]
    for url in (
        "https://me:hunter2@h/x",
        "https://me:a/hunter2?@h/x",
        "me:hunter2@h",
        "http://h:0/?k=hunter2",
        "http://h/ ?k=hunter2",
    ):
        with pytest.raises(InvalidParameter) as wrong:
            HttpPost(url)
        told.append(str(wrong.value))
    with pytest.raises(InvalidParameter) as wrong:
        HttpPost("http://h/", {"Authorization": "hunter2\n"})
    assert not [text for text in [*told, str(wrong.value)] if "hunter2" in text]


def test_an_answer_that_is_not_2xx_fails_the_delivery(pacing):
    with HttpReceiver(lambda before: 507 if before == 3 else 201) as receiver:
        with pytest.raises(DestinationFailed, match=r"answered 507 .*: no room to row 3 of partition 3"):
            deliver(BODIES, HttpPost(receiver.url), PARTITION, pacing())
        assert len(receiver.requests) == 3


def test_a_server_that_closes_connections_between_requests_gets_every_row(pacing):
    with HttpReceiver() as receiver:
        receiver.RequestHandlerClass = type("Closes", (receiver.RequestHandlerClass,), {"timeout": 0.05})
        slow = (time.sleep(0.12 if number == 20 else 0.0) or body for number, body in enumerate(BODIES[:40]))
        deliver(slow, HttpPost(receiver.url), PARTITION, pacing())
        check_at_least_once_in_order(receiver.rows(), {(7, 3): BODIES[:40]})


@pytest.mark.parametrize("more", [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
def test_what_nobody_asked_for_is_not_the_answer_to_the_next_request(pacing, more):
    """Row 1 is refused: an answer too many to row 0 must not acknowledge it."""
    said = threading.Event()

    def twice(taken):
        asked = b""
        while not asked.endswith(b"row 1"):
            asked += taken.recv(65_536)
            if asked.endswith(b"row 0"):
                taken.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                time.sleep(0.05)
                taken.sendall(more)
                said.set()
        taken.sendall(b"HTTP/1.1 507 no room\r\nContent-Length: 0\r\n\r\n")

    bodies = (said.wait(60.0) and body if number else body for number, body in enumerate(BODIES[:2]))
    with raw_server(twice) as server, pytest.raises(DestinationFailed, match="answered 507 no room to row 1"):
        deliver(bodies, HttpPost(f"http://127.0.0.1:{server.getsockname()[1]}/"), PARTITION, pacing(5.0))


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_break_in_one_of_several_rows_of_a_request_is_refused(pacing, end):
    """The receiver would find more rows than were sent, and other ones."""
    rows = [b"a", b"b" + end + b"c"]
    with HttpReceiver() as receiver:
        assert deliver(rows, HttpPost(receiver.url), PARTITION, pacing()).rows == 2
        assert [body for *_, body in receiver.rows()] == rows
        with pytest.raises(InvalidParameter, match=r"row 1 of partition 3.* has a line break .*or with rows_at_once=1"):
            deliver(rows, HttpPost(receiver.url, rows_at_once=2), PARTITION, pacing())
        assert len(receiver.requests) == 2
