"""What a request carries, and what is told of a server's answer to it."""

from __future__ import annotations

import socket
import ssl
import threading
import traceback
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import http_receiver
from evenly.emission.destinations import HttpPost
from evenly.emission.destinations.delivery import Pacing, Partition, deliver
from evenly.errors import DestinationFailed, InvalidParameter
from http_receiver import HttpReceiver

PARTITION = Partition("me", 7, 3)
CERTIFICATE = Path(http_receiver.__file__).with_name("localhost.pem")
ACCEPTED = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def answering(answer):
    """A server that reads one request after the other on a connection, and answers each with these bytes."""

    def serve(taken):
        with taken, taken.makefile("rb") as asked, suppress(OSError):
            while asked.readline():
                length = 0
                while header := asked.readline().strip():
                    name, _, value = header.partition(b": ")
                    length = int(value) if name == b"Content-Length" else length
                asked.read(length)
                taken.sendall(answer)

    def accept(server):
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/in"


def sent(to, rows=3):
    return deliver([b"row"] * rows, to, PARTITION, Pacing(f"test.{uuid.uuid4().hex}", timeout_s=20.0)).rows


@pytest.mark.parametrize("before", [b"100 Continue\r\n", b"102 Processing\r\n", b"103 Early Hints\r\nLink: </a>\r\n"])
def test_what_comes_before_an_answer_is_not_the_answer(before):
    with answering((b"HTTP/1.1 " + before + b"\r\n") * 2 + ACCEPTED) as url:
        assert sent(HttpPost(url)) == 3


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 403 not with %s\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\n\r\n%s" + b" " * 100,
        b"%s is no status line\r\n\r\n",
    ],
    ids=["reason", "body", "garbage"],
)
@pytest.mark.parametrize("secret", [b"hunter%2F2", b"hunter/2", b"Bearer correct-horse", b"correct-horse"])
def test_a_server_that_repeats_a_secret_is_not_repeated(answer, secret):
    with answering(answer % secret) as url:
        to = HttpPost(f"{url}?token=hunter%2F2&b=1", {"Authorization": "Bearer correct-horse"})
        with pytest.raises(DestinationFailed) as failed:
            sent(to)
    assert secret.decode() not in "".join(traceback.format_exception(failed.value))


def test_what_a_server_says_is_told_in_one_short_line():
    page = b"<html>\r\n <body>\r\n no </body>" + b"x" * 10_000
    with answering(b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n%s" % (len(page), page)) as url:
        to = HttpPost(url)
        with pytest.raises(DestinationFailed, match=r"answered 400 Bad: <html> <body> no </body>x+… to row 0") as failed:
            sent(to)
    with answering(b"y" * 60_000 + b"\r\n") as url:
        to = HttpPost(url)
        with pytest.raises(DestinationFailed, match="broke the connection at row 0") as garbled:
            sent(to)
    assert max(len(str(one.value)) for one in (failed, garbled)) < 500


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"Idempotency-Key": "same"}, "header 'Idempotency-Key' is set for each request"),
        ({"evenly-number": "1"}, "header 'evenly-number' is set for each request"),
        ({"Content-length": "1"}, "is set for each request"),
        ({"Transfer-Encoding": "chunked"}, "is set for each request"),
        ({"My Header": "x"}, "header 'My Header' must have a name of letters"),
        ({"": "x"}, "header '' must have a name"),
        ({5: "x"}, "header 5 must have a name"),
        ({"A": "hunter2 \u20ac"}, "header 'A' must be one line of text, of Latin-1 characters that can be printed$"),
        ({"A": "hunter2\0"}, "must be one line of text"),
        ([("A", "hunter2")], "headers must be a dict of names and values, got a list$"),
    ],
)
def test_headers_that_cannot_be_sent_or_would_change_identities_are_refused(headers, told):
    with pytest.raises(InvalidParameter, match=told) as refused:
        HttpPost("http://h/", headers)
    assert "hunter2" not in str(refused.value)


def test_a_header_of_the_user_is_sent_once_in_whatever_case_it_is_written():
    with HttpReceiver() as receiver:
        sent(HttpPost(receiver.url, {"content-type": "text/csv"}))
        assert {tuple(headers.get_all("Content-Type")) for headers, _ in receiver.requests} == {("text/csv",)}


@pytest.mark.parametrize("size_bytes", [10, 300_000])
def test_a_tls_server_that_closes_connections_between_requests_gets_every_row(monkeypatch, size_bytes):
    """Every server does so after a while. With TLS it does not show as a reset."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with HttpReceiver() as receiver:
        receiver.socket = context.wrap_socket(receiver.socket, server_side=True)
        once = {"handle": lambda handler: handler.handle_one_request()}
        receiver.RequestHandlerClass = type("Closes", (receiver.RequestHandlerClass,), once)
        bodies = (b"%d" % number + bytes(size_bytes) for number in range(4))
        to = HttpPost(receiver.url.replace("http://127.0.0.1", "https://localhost"))
        assert deliver(bodies, to, PARTITION, Pacing(f"test.{uuid.uuid4().hex}", timeout_s=20.0)).rows == 4
        assert list(dict.fromkeys(row[3] for row in receiver.rows())) == [0, 1, 2, 3]
