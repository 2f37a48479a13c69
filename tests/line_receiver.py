"""A receiver as `TcpLines` wants it: keeps every line, then acknowledges. A thread of a test, or a program to be killed.

python line_receiver.py PORT FILE [SECONDS_A_LINE]
"""

import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path


class LineReceiver:
    """Takes connections on a port of loopback until it is closed; `lines` are those that came, in order."""

    def __init__(self, port=0, *, file=None, each_s=0.0, answer=True, hang=False):
        self.lines, self._file, self._each_s, self._answer, self._hang = [], file, each_s, answer, hang
        self._mutex = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self.port = self._listener.getsockname()[1]
        self._open = []
        self._ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ended.set()
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def rows(self):
        """Sender, batch, partition, number and body of every line."""
        return [parsed(line) for line in self.lines]

    def _accept(self):
        with suppress(OSError):
            while True:
                taken, _ = self._listener.accept()
                self._open.append(taken)
                threading.Thread(target=self._take_in, args=(taken,), daemon=True).start()

    def _take_in(self, connection):
        if self._hang:
            self._ended.wait()
            return
        count = 0
        with suppress(OSError), connection, connection.makefile("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # cut off with its sender
                time.sleep(self._each_s)
                self._keep(line[:-1])
                count += 1
                if self._answer and count % 100 == 0:
                    connection.sendall(b"%d\n" % count)
            if self._answer:
                connection.sendall(b"%d\n" % count)

    def _keep(self, line):
        with self._mutex:
            self.lines.append(line)
            if self._file is not None:
                self._file.write(line + b"\n")
                self._file.flush()


def parsed(line):
    sender, batch, partition, number, body = line.split(b"\t", 4)
    return sender.decode(), int(batch), int(partition), int(number), body


def without_doubles(rows):
    """What a receiver keeps that remembers one number for each (sender, batch, partition): every row once."""
    largest, kept = {}, []
    for row in rows:
        *partition, number, _ = row
        if number > largest.get(tuple(partition), -1):
            largest[tuple(partition)] = number
            kept.append(row)
    return kept


def check_at_least_once_in_order(rows, expected):
    """`expected`: the bodies by (batch, partition). All came; the first time in order; under one identity each."""
    seen = {}
    for _, batch, partition, number, body in rows:
        bodies = seen.setdefault((batch, partition), [])
        if number < len(bodies):
            assert bodies[number] == body, "another row under the same identity"
        else:
            assert number == len(bodies), f"row {number} came before row {len(bodies)}"
            bodies.append(body)
    assert seen == expected


def main(port, path, each_s):
    with Path(path).open("ab") as file:
        LineReceiver(int(port), file=file, each_s=float(each_s))
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:3], sys.argv[3] if len(sys.argv) > 3 else 0.0)
