"""What tests of deliveries share: rows, a partition, and servers on loopback that do anything."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from evenly.emission.destinations.delivery import Partition

BODIES = [f"row {number}".encode() for number in range(250)]


PARTITION = Partition("me", 7, 3)


QUICK_S = 0.3


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


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
