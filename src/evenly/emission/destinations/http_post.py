"""POST requests to an HTTP endpoint."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import ClassVar, NamedTuple, cast
from urllib.parse import urlsplit

from evenly.emission.destinations.base import Connection, NumberedRow, check_one_line, until_accepted
from evenly.emission.destinations.deadline import DeadlineSocket
from evenly.emission.destinations.hiding import in_one_line, secrets_of, shown_url
from evenly.emission.destinations.http_headers import check_headers, with_headers
from evenly.emission.destinations.retrying import NOT_NOW, pause_s
from evenly.errors import DestinationFailed, InvalidParameter

_MOST_ANSWER_BYTES = 65_536
_MOST_ROWS = 100_000
_GRACE_S = 1.0
_READ_BYTES = 4_096
_PRINTABLE = re.compile(r"[!-~]+")
_CLOSED = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""How a server that closed a connection which was kept open shows: the request is then made again, on a new one."""


@dataclass(frozen=True)
class HttpPost:
    """One request for up to `rows_at_once` rows, one connection per partition; an answer from 200 to 299 acknowledges them.

        to = evenly.HttpPost("https://example.org/rows", headers={"Authorization": token}, rows_at_once=100)
        evenly.send(df, to=to)

    The headers Evenly-Sender, Evenly-Batch, Evenly-Partition, Evenly-Number (of the first row) and Evenly-Rows say which
    rows it has; Idempotency-Key is all of that in one. The body is the row, or with `rows_at_once` above 1 the rows with a
    line break after each; a row that has one in it is then refused.

    A request and its answer have the time limit together, however slowly they move. One that is answered with 429, 502, 503
    or 504 is made again after what Retry-After says, or after pauses that grow from 0.1 to 10 s, for `retry_for_s` at most.
    Redirects are not followed. Messages have neither query nor credentials of the url, and no value of a header.

    Parameters: `url`, http or https; `headers`: more headers, such as Authorization or another Content-Type, but none that says
    which rows a request has; `rows_at_once`: 1 to 100,000; `retry_for_s`: 0 (never again) to 86,400.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    rows_at_once: int = 1
    retry_for_s: float = 120.0
    limits: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and parts.username is None
            good = good and bool(_PRINTABLE.fullmatch(self.url))
        except (ValueError, AttributeError, TypeError):
            good = False
        if not good:
            raise InvalidParameter(
                "url must be like http://host:8080/path or https://…, in ASCII, with credentials in headers=, "
                f"got {shown_url(self.url)!r}"
            )
        at_once, retry_s = self.rows_at_once, self.retry_for_s
        if isinstance(at_once, bool) or not isinstance(at_once, int) or not 1 <= at_once <= _MOST_ROWS:
            raise InvalidParameter(f"rows_at_once must be a whole number from 1 to {_MOST_ROWS:,}, got {at_once!r}")
        if isinstance(retry_s, bool) or not isinstance(retry_s, int | float) or not 0.0 <= retry_s <= 86_400.0:
            raise InvalidParameter(f"retry_for_s must be from 0 to 86,400, got {retry_s!r}")
        check_headers(self.headers)

    def connect(self, timeout_s: float) -> Connection:
        """Connect; refused connections are tried again until the time is up."""
        return _Requests(self, timeout_s)

    def __str__(self) -> str:
        return shown_url(self.url)

    def __repr__(self) -> str:
        return f"HttpPost({shown_url(self.url)!r}, rows_at_once={self.rows_at_once}, retry_for_s={self.retry_for_s:g})"


class _Answer(NamedTuple):
    status: int
    reason: str
    body: bytes
    retry_after: str | None
    location: str | None


class _FinalAnswer(HTTPResponse):
    """Passes over what comes before the answer itself (102, 103); `http.client` alone knows of 100."""

    def begin(self) -> None:
        super().begin()
        while 100 <= self.status < 200 and self.status != HTTPStatus.SWITCHING_PROTOCOLS:
            # As it was before it began.
            self.headers = self.msg = None  # type: ignore[assignment]
            super().begin()


class _Requests:
    def __init__(self, to: HttpPost, timeout_s: float) -> None:
        self._to, self._timeout_s = to, timeout_s
        parts = urlsplit(to.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._http = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._http.response_class = _FinalAnswer
        self._secrets = secrets_of(to.url, to.headers)
        self._used = False
        self._closed = threading.Event()
        self._connect()

    def send(self, rows: Sequence[NumberedRow]) -> None:
        body, headers = self._request(rows)
        began_s, refusals = time.monotonic(), 0
        while True:
            answer = self._answered(body, headers, rows[0])
            if 200 <= answer.status < 300:
                return
            refusals += 1
            if answer.status not in NOT_NOW or self._to.retry_for_s == 0.0:
                raise DestinationFailed(f"{self._to} answered {self._told(answer)} to {rows[0]}")
            wait_s = pause_s(refusals, answer.retry_after, time.time())
            if time.monotonic() - began_s + wait_s > self._to.retry_for_s or self._closed.wait(wait_s):
                raise DestinationFailed(
                    f"{self._to} answered {self._told(answer)} to {rows[0]}, {refusals} times; the next would be due in "
                    f"{wait_s:.1f} s, later than retry_for_s={self._to.retry_for_s:g} allows"
                )

    def flush(self) -> None:
        """Every request has been answered."""

    def close(self) -> None:
        self._closed.set()
        with suppress(OSError, HTTPException):
            self._http.close()

    def _answered(self, body: bytes, headers: dict[str, str], first: NumberedRow) -> _Answer:
        try:
            try:
                return self._exchange(body, headers)
            except _CLOSED:
                if not self._used:
                    raise
                self._connect()
                return self._exchange(body, headers)
        except TimeoutError as error:
            raise DestinationFailed(f"{self._to} gave no answer within {self._timeout_s:g} s to {first}: it hangs") from error
        except (OSError, HTTPException) as error:
            if isinstance(error, DestinationFailed):
                raise
            why = in_one_line(str(error) or repr(error), self._secrets)
            raise DestinationFailed(f"{self._to} broke the connection at {first}: {why}") from None  # its text may have secrets

    def _connect(self) -> None:
        self._http.close()
        until_accepted(self._connect_within, self._timeout_s, str(self._to))
        self._used = False

    def _connect_within(self, left_s: float) -> None:
        self._http.timeout = left_s
        self._http.connect()
        self._http.sock = DeadlineSocket(self._http.sock)

    def _request(self, rows: Sequence[NumberedRow]) -> tuple[bytes, dict[str, str]]:
        first = rows[0]
        several = self._to.rows_at_once > 1
        for row in rows if several else ():
            check_one_line(row, "send rows as JSON (without column=; it escapes LF and CR), or with rows_at_once=1")
        body = b"".join([row.body + b"\n" for row in rows]) if several else first.body
        number = f"{first.sender}/{first.batch}/{first.partition}/{first.number}/{len(rows)}"
        ours = {
            "Content-Type": "application/x-ndjson" if several else "application/json",
            "Evenly-Sender": first.sender,
            "Evenly-Batch": str(first.batch),
            "Evenly-Partition": str(first.partition),
            "Evenly-Number": str(first.number),
            "Evenly-Rows": str(len(rows)),
            "Idempotency-Key": number,
        }
        return body, with_headers(ours, self._to.headers)

    def _exchange(self, body: bytes, headers: dict[str, str]) -> _Answer:
        # The server said that it would close after the last answer. Or it has closed since, or said something nobody asked for:
        # a second answer, or that it is tired of waiting (408). That would be taken for the answer to this request.
        if self._http.sock is None or (self._used and cast("DeadlineSocket", self._http.sock).has_news()):
            self._connect()
        connected = cast("DeadlineSocket", self._http.sock)
        connected.until(time.monotonic() + self._timeout_s)
        try:
            self._http.request("POST", self._path, body, headers)
        except OSError as unsent:
            # It may have answered before it had all of the body (413, 401), and closed: that says more than a broken pipe.
            connected.until(time.monotonic() + min(_GRACE_S, self._timeout_s))
            try:
                answer = self._read()
            except (OSError, HTTPException):
                raise unsent from None
            if answer.status < 300:
                raise
            self._http.close()
            return answer
        return self._read()

    def _read(self) -> _Answer:
        answer: HTTPResponse = self._http.getresponse()
        self._used = True
        told = answer.read(_MOST_ANSWER_BYTES)
        if not answer.isclosed() and answer.read(1):
            self._http.close()  # rather connect again than read what nobody looks at
        return _Answer(answer.status, answer.reason, told, answer.getheader("Retry-After"), answer.getheader("Location"))

    def _told(self, answer: _Answer) -> str:
        """Status, reason and the beginning of the body, without what may be secret."""
        text = f"{answer.reason}: {answer.body[:_READ_BYTES].decode('utf-8', 'replace')}"
        told = f"{answer.status} {in_one_line(text, self._secrets)}".rstrip(": ")
        if 300 <= answer.status < 400:
            told += f" (to {shown_url(answer.location or 'nowhere')}; redirects are not followed: give the final url)"
        return told
