"""Destinations and the delivery of a partition, with real sockets on loopback."""

from __future__ import annotations

import socket
import threading
import time
import traceback
import uuid
from contextlib import suppress

import pytest

from evenly.emission.destinations import HttpPost, NumberedRow, OwnFunction, TcpLines
from evenly.emission.destinations.deadline import DeadlineSocket
from evenly.emission.destinations.delivery import Delivered, Pacing, Partition, deliver, destination_of
from evenly.emission.destinations.retrying import pause_s
from evenly.emission.link.outgoing import Outgoing
from evenly.errors import DestinationFailed, InvalidParameter, SendFailed
from http_receiver import HttpReceiver
from line_receiver import LineReceiver, check_at_least_once_in_order
from waiting import until

BODIES = [f"row {number}".encode() for number in range(250)]
PARTITION = Partition("me", 7, 3)
QUICK_S = 0.3


@pytest.fixture
def pacing():
    """A link for each test; how long anything may take."""
    link = f"test.{uuid.uuid4().hex}"

    def make(timeout_s=20.0, **options):
        return Pacing(link=link, timeout_s=timeout_s, **options)

    return make


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.mark.parametrize("at_once", [1, 7])
@pytest.mark.parametrize("acknowledge", [True, False])
def test_lines_arrive_in_order_with_their_identities(pacing, acknowledge, at_once):
    with LineReceiver(answer=acknowledge) as receiver:
        to = TcpLines("127.0.0.1", receiver.port, acknowledge=acknowledge, rows_at_once=at_once)
        done = deliver(BODIES, to, PARTITION, pacing())
        assert done == Delivered(250, sum(map(len, BODIES)), done.unasked)
        if not acknowledge:
            until(lambda: len(receiver.lines) == len(BODIES), "all lines arrive")
        assert receiver.rows() == [("me", 7, 3, number, body) for number, body in enumerate(BODIES)]


def test_lines_without_identities_are_the_rows_alone(pacing):
    with LineReceiver() as receiver:
        deliver(BODIES, TcpLines("127.0.0.1", receiver.port, ids=False), PARTITION, pacing(policy="none"))
        assert receiver.lines == BODIES


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


def test_a_function_gets_every_row_before_delivery_ends(pacing):
    came = []
    assert deliver(BODIES, destination_of(came.append), PARTITION, pacing()).rows == 250
    assert came == [NumberedRow("me", 7, 3, number, body) for number, body in enumerate(BODIES)]
    assert came[9].identity == ("me", 7, 3, 9)


class Shelf:
    """A destination as a user writes it: keeps groups of rows, and is done with them at the end."""

    rows_at_once, limits = 100, 1

    def __init__(self):
        self.groups, self.steps = [], []

    def connect(self, timeout_s):
        self.steps.append(("connect", timeout_s))
        return self

    def send(self, rows):
        self.groups.append([row.number for row in rows])

    def flush(self):
        self.steps.append(("flush", sum(map(len, self.groups))))

    def close(self):
        self.steps.append("close")


def test_a_destination_of_ones_own_is_connected_flushed_and_closed(pacing):
    to = Shelf()
    assert deliver(BODIES, destination_of(to), PARTITION, pacing()).rows == 250
    assert [number for group in to.groups for number in group] == list(range(250))
    assert max(map(len, to.groups)) == 100
    assert to.steps == [("connect", 20.0), ("flush", 250), "close"]


def test_a_destination_of_ones_own_is_closed_and_not_flushed_when_it_fails(pacing):
    to = Shelf()
    to.send = lambda _: 1 / 0
    with pytest.raises(DestinationFailed, match="ZeroDivisionError"):
        deliver(BODIES, to, PARTITION, pacing())
    assert to.steps == [("connect", 20.0), "close"]


@pytest.mark.parametrize(
    ("step", "told"), [("connect", "cannot be connected to"), ("flush", "did not confirm that it has 250 rows")]
)
def test_a_destination_of_ones_own_that_fails_at_any_step_is_named(pacing, step, told):
    to = Shelf()
    setattr(to, step, lambda *_: 1 / 0)
    with pytest.raises(DestinationFailed, match=rf"Shelf object .* {told}: ZeroDivisionError"):
        deliver(BODIES, to, PARTITION, pacing())


def test_a_partition_without_rows_does_not_connect(pacing):
    assert deliver([], TcpLines("127.0.0.1", free_port()), PARTITION, pacing()) == Delivered(0, 0, 0)


def test_a_destination_that_starts_a_moment_later_is_waited_for(pacing):
    port, started = free_port(), []
    starting = threading.Timer(0.3, lambda: started.append(LineReceiver(port)))
    starting.start()
    assert deliver(BODIES, TcpLines("127.0.0.1", port), PARTITION, pacing()).rows == 250
    with started[0] as receiver:
        assert len(receiver.lines) == 250


@pytest.mark.parametrize("kind", ["tcp", "http"])
def test_a_destination_that_refuses_is_named_after_its_time_limit(pacing, kind):
    port = free_port()
    to = TcpLines("127.0.0.1", port) if kind == "tcp" else HttpPost(f"http://127.0.0.1:{port}/")
    with pytest.raises(DestinationFailed, match=rf"{kind}://127\.0\.0\.1:{port}/? refused connections for 0\.3 s"):
        deliver(BODIES, to, PARTITION, pacing(QUICK_S))


@pytest.mark.parametrize("to", [TcpLines("a..b", 9), HttpPost("http://a..b/")], ids=str)
def test_a_host_that_is_no_name_is_named(pacing, to):
    with pytest.raises(DestinationFailed, match=r"a\.\.b.* cannot be reached"):
        deliver(BODIES, to, PARTITION, pacing())


def test_a_host_that_is_not_known_is_named_at_once(pacing):
    with pytest.raises(DestinationFailed, match=r"tcp://no-such-host\.invalid:9 cannot be reached"):
        deliver(BODIES, TcpLines("no-such-host.invalid", 9), PARTITION, pacing())


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
    [(b"249\n", "after it had acknowledged 249"), (b"thanks\n", "b'thanks', not a count"), (b"", "at row|did not acknowledge")],
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


def test_a_request_without_an_answer_fails_the_delivery(pacing):
    with HttpReceiver(lambda before: None if before == 3 else 200) as receiver:
        with pytest.raises(
            DestinationFailed, match=r"no answer within 0\.3 s to row 3 of partition 3, batch 7 of me: it hangs"
        ):
            deliver(BODIES, HttpPost(receiver.url), PARTITION, pacing(QUICK_S))
        assert [row[3] for row in receiver.rows()] == [0, 1, 2]


def raw_server(handle):
    """A server that does what `handle` does with each connection."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        with suppress(OSError):
            while True:
                taken, _ = server.accept()
                threading.Thread(target=one, args=(taken,), daemon=True).start()

    def one(taken):
        with suppress(OSError), taken:
            handle(taken)

    threading.Thread(target=serve, daemon=True).start()
    return server


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


def test_a_function_that_hangs_fails_the_delivery(pacing):
    gate, came = threading.Event(), []
    to = OwnFunction(lambda row: came.append(row.number) if row.number < 2 else gate.wait(20.0))
    with pytest.raises(DestinationFailed, match=r"the function <lambda> hangs: .* more than 0\.3 s"):
        deliver(BODIES, to, PARTITION, pacing(QUICK_S))
    gate.set()
    assert came == [0, 1]


def test_a_function_that_raises_fails_the_delivery_with_its_error(pacing):
    def store(row):
        if row.number == 2:
            raise KeyError("quota")

    with pytest.raises(DestinationFailed, match=r"the function store failed at row 2 of .*KeyError\('quota'\)") as failed:
        deliver(BODIES, destination_of(store), PARTITION, pacing())
    assert isinstance(failed.value.__cause__, DestinationFailed)


def test_at_most_capacity_rows_are_read_ahead_of_the_destination(pacing):
    read, sent, most = [0], [0], [0]

    def bodies():
        for body in BODIES:
            read[0] += 1
            yield body

    def take(_):
        most[0] = max(most[0], read[0] - sent[0])
        sent[0] += 1

    deliver(bodies(), OwnFunction(take), PARTITION, pacing(capacity=5))
    assert sent[0] == 250
    assert most[0] <= 5 + 2  # one is on its way, and one was read for the place that comes free


def test_large_rows_are_read_ahead_by_their_bytes():
    """10,000 rows of a megabyte would be 10 GB in each task."""
    read, sent, most = [0], [0], [0]

    def take(_):
        most[0] = max(most[0], read[0] - sent[0])
        sent[0] += 1

    with Outgoing(take, policy="none", capacity_bytes=1_000) as queue:
        for number in range(300):
            queue.send(bytes(400 if number % 2 else 2_000))  # the second kind is larger than all that may wait
            read[0] += 1
    assert sent[0] == 300
    assert most[0] <= 3 + 1


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


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_break_in_a_row_is_refused(pacing, end):
    with LineReceiver() as receiver:
        with pytest.raises(InvalidParameter, match=r"row 1 of partition 3.* has a line break"):
            deliver([b"a", b"b" + end + b"c"], TcpLines("127.0.0.1", receiver.port), PARTITION, pacing())
        assert all(end not in line for line in receiver.lines)


def test_a_link_led_with_another_policy_serves(pacing):
    options = pacing(policy="lbf")
    with Outgoing(print, link=options.link, policy="fcfs"):
        assert deliver(BODIES, OwnFunction(len), PARTITION, options).rows == 250


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: TcpLines("h", 0), "port must be a whole number from 1 to 65,535, got 0"),
        (lambda: TcpLines("h", "90"), "port must be .* got '90'"),
        (lambda: TcpLines("", 90), "host must be a name or an address, got ''"),
        (lambda: TcpLines("h", 90, rows_at_once=0), "rows_at_once must be"),
        (lambda: HttpPost("ftp://h/x"), "url must be like .* got 'ftp://h/x'"),
        (lambda: HttpPost("http://h:70000/"), "url must be like"),
        (lambda: HttpPost("http:///x"), "url must be like"),
        (lambda: HttpPost("http://me:secret@h/x"), "with credentials in headers="),
        (lambda: HttpPost("http://h/", rows_at_once=0), "rows_at_once must be"),
        (lambda: HttpPost("http://h/", {"A": "x\r\nB: y"}), "header 'A' must be one line of text"),
        (lambda: HttpPost("http://h/a b"), "in ASCII"),
        (lambda: HttpPost("http://h/", retry_for_s=-1), "retry_for_s must be from 0 to 86,400, got -1"),
        (lambda: Pacing(policy="fastest"), "no emission policy 'fastest': choose from lbf"),
        (lambda: Pacing(policy=3), "policy must be a name or have name"),
        (lambda: Pacing(capacity=0), "capacity must be from 1 to .* got 0"),
        (lambda: Pacing(interval_ms=0), "interval_ms must be from 1 to"),
        (lambda: Pacing(timeout_s=0), "timeout_s must be from 0.001 to .* got 0"),
        (lambda: Pacing(timeout_s=-1.0), "timeout_s must be .* got -1.0"),
        (lambda: Pacing(link="a/b"), "link must be"),
        (lambda: destination_of("host:90"), "to must be a TcpLines, .* got the text 'host:90'"),
        (lambda: destination_of("http://h/?k=hunter2"), r"got the text 'http://h/\?…'$"),
        (lambda: destination_of(TcpLines), "to must be a TcpLines"),
    ],
)
def test_bad_input_is_refused_with_its_value(make, told):
    with pytest.raises(InvalidParameter, match=told):
        make()


def test_a_queue_with_a_limit_tells_of_a_call_that_takes_longer(tmp_path):
    gate = threading.Event()
    queue = Outgoing(lambda _: gate.wait(20.0), link="limit", folder=tmp_path, limit_s=0.1, capacity=1)
    queue.send(1)
    with pytest.raises(SendFailed, match=r"more than 0\.1 s"):
        queue.send(2)
    with pytest.raises(SendFailed, match=r"more than 0\.1 s"):
        queue.close()
    gate.set()
    assert queue.sent == 0
    assert not list(tmp_path.iterdir())


def test_a_queue_within_its_limit_is_not_disturbed(tmp_path):
    sent = []
    with Outgoing(
        lambda x: (time.sleep(0.01), sent.append(x)), link="limit", folder=tmp_path, limit_s=5.0, capacity=2
    ) as queue:
        for number in range(20):
            queue.send(number, timeout_s=20.0)
    assert sent == list(range(20))
