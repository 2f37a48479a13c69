"""A collector: counts the lines that come in over TCP, each once, and acknowledges them as `evenly.TcpLines` wants it."""

from __future__ import annotations

import socketserver
import threading
from collections import Counter
from typing import Self


class Collector(socketserver.ThreadingTCPServer):
    """Counts words while it is used as a context manager. Its port is free and on this machine."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.words: Counter[str] = Counter()
        self.doubles = 0
        self._largest: dict[bytes, int] = {}
        self._mutex = threading.Lock()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def take(self, line: bytes) -> None:
        """A line is sender, batch, partition, number and body. Numbers of a partition grow: a smaller one came before."""
        identity, number, body = line.rsplit(b"\t", 2)
        with self._mutex:
            if int(number) <= self._largest.get(identity, -1):
                self.doubles += 1
                return
            self._largest[identity] = int(number)
            self.words[body.decode()] += 1


class _Connection(socketserver.StreamRequestHandler):
    server: Collector

    def handle(self) -> None:
        count = 0
        for line in self.rfile:
            if not line.endswith(b"\n"):
                return  # cut off with its sender
            self.server.take(line[:-1])
            count += 1
            if count % 100 == 0:
                self.wfile.write(b"%d\n" % count)
        self.wfile.write(b"%d\n" % count)
