"""Operators of the paper's five kinds, to profile: `evenly profile evenly.planning.examples:Pi`.

The two that ask a service get a real one on this machine, a web server in a process of its own that waits a little before
it answers, as a remote one would; rows come from a SQLite database.
"""

from __future__ import annotations

import http.client
import multiprocessing
import sqlite3
import tempfile
import threading
import time
import uuid
import xml.sax
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from xml.sax.handler import ContentHandler

_BOOK = "<book id='{0}'><title>Number {0}</title><price>{1}</price><words>{2}</words></book>"


class XmlParse:
    """Parses an XML text for every tuple, in one pass; bound by the cpu."""

    def __init__(self, books: int = 40) -> None:
        self.text = "<shelf>" + "".join(_BOOK.format(n, n % 90, "some words " * 4) for n in range(books)) + "</shelf>"

    def __call__(self, number: int) -> int:
        counter = _Counter()
        xml.sax.parseString(self.text, counter)  # noqa: S317 - our own text
        return counter.elements + number * 0


class _Counter(ContentHandler):
    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def startElement(self, name: str, attrs: Any) -> None:  # noqa: ARG002, N802 - the parser's interface
        self.elements += 1


class Pi:
    """Pi by Viète's series, over and over; bound by the cpu."""

    def __init__(self, terms: int = 15, times: int = 300) -> None:
        self.terms = terms
        self.times = times

    def __call__(self, number: int) -> float:
        value = 0.0
        for _ in range(self.times):
            root, product = 0.0, 1.0
            for _ in range(self.terms):
                root = (2.0 + root) ** 0.5
                product *= root / 2.0
            value = 2.0 / product
        return value + number * 0


class BatchFileWrite:
    """Keeps 100 bytes of every tuple and writes them to a file when there are enough; bound by the disk."""

    def __init__(self, window: int = 10_000) -> None:
        self.window = window
        self.lock = threading.Lock()
        self.waiting: list[str] = []
        self.folder = tempfile.TemporaryDirectory(prefix="evenly-")
        self.path = Path(self.folder.name) / "tuples.txt"

    def __call__(self, number: int) -> int:
        with self.lock:
            self.waiting.append(f"{number:<99}\n")
            if len(self.waiting) < self.window:
                return 0
            full, self.waiting = self.waiting, []
        self.path.write_text("".join(full), encoding="utf-8")
        return len(full)

    def close(self) -> None:
        self.folder.cleanup()


class _Remote:
    """Asks a web server on this machine, with one connection per thread."""

    path = "/"

    def __init__(self, port: int) -> None:
        self.port = port
        self.local = threading.local()
        self.connections: list[http.client.HTTPConnection] = []

    @classmethod
    @contextmanager
    def serve(cls, *, latency_ms: float = 20.0, at_once: int = 16, size: int = 20_000) -> Iterator[dict[str, Any]]:
        """A server that answers after `latency_ms`, at most `at_once` requests at a time."""
        context = multiprocessing.get_context("spawn")
        mine, theirs = context.Pipe()
        process = context.Process(target=serve_main, args=(theirs, latency_ms, at_once, size), daemon=True)
        process.start()
        try:
            yield {"port": mine.recv()}
        finally:
            mine.close()
            process.terminate()
            process.join(timeout=5.0)

    def __call__(self, number: int) -> bytes:
        connection: http.client.HTTPConnection | None = getattr(self.local, "connection", None)
        if connection is None:
            connection = self.local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30.0)
            self.connections.append(connection)
        connection.request("GET", f"{self.path}{number % 10_000}")
        return connection.getresponse().read()

    def close(self) -> None:
        for connection in self.connections:
            connection.close()


class BlobDownload(_Remote):
    """Downloads an object from a web server; bound by the service, so threads help."""

    path = "/blob/"


class TableLookup(_Remote):
    """Looks a row up by its key in a remote table; bound by the service, so threads help."""

    path = "/row/"


def serve_main(pipe: Connection, latency_ms: float, at_once: int, size: int) -> None:
    """The server's process: blobs from memory, rows from SQLite."""
    with tempfile.TemporaryDirectory(prefix="evenly-") as folder:
        path = Path(folder) / "table.db"
        with closing(sqlite3.connect(path)) as database:
            _fill(database)
        server = _server(path.as_uri(), latency_ms, at_once, size)
        pipe.send(server.server_address[1])
        server.serve_forever()


def serve_here(*, latency_ms: float = 20.0, at_once: int = 16, size: int = 20_000) -> int:
    """The same in a thread of this process, its rows in memory, until the process ends; gives the port."""
    table = f"file:evenly-{uuid.uuid4().hex}?mode=memory&cache=shared"
    database = sqlite3.connect(table, uri=True, check_same_thread=False)
    _fill(database)
    server = _server(table, latency_ms, at_once, size)
    server.kept = database  # type: ignore[attr-defined] # the table is there as long as a connection to it is
    threading.Thread(target=server.serve_forever, daemon=True, name="evenly example service").start()
    return int(server.server_address[1])


def _fill(database: sqlite3.Connection) -> None:
    with database:
        database.execute("create table rows (number integer primary key, text text)")
        database.executemany("insert into rows values (?, ?)", ((n, f"row {n} " * 12) for n in range(10_000)))


def _server(table: str, latency_ms: float, at_once: int, size: int) -> ThreadingHTTPServer:
    room = threading.Semaphore(at_once)
    blob = bytes(size)
    local = threading.local()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else headers and body wait for each other, 40 ms on loopback
        wbufsize = -1

        def do_GET(self) -> None:
            _, kind, number = self.path.split("/")
            with room:
                time.sleep(latency_ms / 1e3)
                body = blob if kind == "blob" else _row(local, table, int(number))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Nothing: the terminal is the profile's."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    return server


def _row(local: threading.local, table: str, number: int) -> bytes:
    database = getattr(local, "database", None)
    if database is None:
        database = local.database = sqlite3.connect(table, uri=True)
    (text,) = database.execute("select text from rows where number = ?", (number,)).fetchone()
    return str(text).encode()
