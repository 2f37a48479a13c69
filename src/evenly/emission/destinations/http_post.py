"""POST requests to an HTTP endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import ClassVar
from urllib.parse import urlsplit

from evenly.emission.destinations.base import Connection, NumberedRow, until_accepted
from evenly.errors import DestinationFailed, InvalidParameter

_MOST_ANSWER_BYTES = 65_536
_HEADER = re.compile(r"[^\r\n]*")
_CLOSED = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)
"""How a server that closed a connection which was kept open shows: the request is then made again, on a new one."""


@dataclass(frozen=True)
class HttpPost:
    """One request for up to `rows_at_once` rows, one connection a task; an answer from 200 to 299 is the acknowledgement.

    The headers Evenly-Sender, Evenly-Batch, Evenly-Partition, Evenly-Number (of the first row) and Evenly-Rows say which
    rows it has; Idempotency-Key is all of that in one. The body is the row, or with `rows_at_once` above 1 the rows with a
    line break after each.

    Parameters: `url`, http or https; `headers`: more headers, such as Authorization; `rows_at_once`: 1 to 100,000.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    rows_at_once: int = 1
    limits: ClassVar[int] = 4

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and parts.username is None
        except (ValueError, AttributeError, TypeError):
            good = False
        if not good:
            raise InvalidParameter(
                f"url must be like http://host:8080/path or https://…, with credentials in headers=, got {self.url!r}"
            )
        most = 100_000
        if isinstance(self.rows_at_once, bool) or not isinstance(self.rows_at_once, int) or not 1 <= self.rows_at_once <= most:
            raise InvalidParameter(f"rows_at_once must be a whole number from 1 to {most:,}, got {self.rows_at_once!r}")
        for name, value in self.headers.items():
            if not isinstance(value, str) or not _HEADER.fullmatch(f"{name}{value}"):
                raise InvalidParameter(f"header {name!r} must be one line of text, got {value!r}")

    def connect(self, timeout_s: float) -> Connection:
        """Connect; refused connections are tried again until the time is up."""
        return _Requests(self, timeout_s)

    def __str__(self) -> str:
        return self.url


class _Requests:
    def __init__(self, to: HttpPost, timeout_s: float) -> None:
        self._to, self._timeout_s = to, timeout_s
        parts = urlsplit(to.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._http = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._used = False
        self._connect()

    def send(self, rows: Sequence[NumberedRow]) -> None:
        body, headers = self._request(rows)
        try:
            try:
                status, reason, told = self._answer(body, headers)
            except _CLOSED:
                if not self._used:
                    raise
                self._connect()
                status, reason, told = self._answer(body, headers)
        except TimeoutError as error:
            raise DestinationFailed(f"{self._to} gave no answer within {self._timeout_s:g} s to {rows[0]}: it hangs") from error
        except (OSError, HTTPException) as error:
            if isinstance(error, DestinationFailed):
                raise
            raise DestinationFailed(f"{self._to} broke the connection at {rows[0]}: {error or repr(error)}") from error
        if not 200 <= status < 300:
            text = f"{status} {reason}: {told[:200].decode('utf-8', 'replace').strip()}".rstrip(": ")
            raise DestinationFailed(f"{self._to} answered {text} to {rows[0]}")

    def flush(self) -> None:
        """Every request has been answered."""

    def close(self) -> None:
        with suppress(OSError, HTTPException):
            self._http.close()

    def _connect(self) -> None:
        self._http.close()
        until_accepted(self._connect_within, self._timeout_s, str(self._to))
        self._used = False

    def _connect_within(self, left_s: float) -> None:
        self._http.timeout = left_s
        self._http.connect()
        self._http.timeout = self._timeout_s
        self._http.sock.settimeout(self._timeout_s)

    def _request(self, rows: Sequence[NumberedRow]) -> tuple[bytes, dict[str, str]]:
        first = rows[0]
        several = self._to.rows_at_once > 1
        body = b"".join([row.body + b"\n" for row in rows]) if several else first.body
        number = f"{first.sender}/{first.batch}/{first.partition}/{first.number}/{len(rows)}"
        return body, {
            "Content-Type": "application/x-ndjson" if several else "application/json",
            "Evenly-Sender": first.sender,
            "Evenly-Batch": str(first.batch),
            "Evenly-Partition": str(first.partition),
            "Evenly-Number": str(first.number),
            "Evenly-Rows": str(len(rows)),
            "Idempotency-Key": number,
            **self._to.headers,
        }

    def _answer(self, body: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
        if self._http.sock is None:  # the server said that it would close after the last answer
            self._connect()
        self._http.request("POST", self._path, body, headers)
        answer: HTTPResponse = self._http.getresponse()
        self._used = True
        told = answer.read(_MOST_ANSWER_BYTES)
        if not answer.isclosed() and answer.read(1):
            self._http.close()  # rather connect again than read what nobody looks at
        return answer.status, answer.reason, told
