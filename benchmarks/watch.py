"""Whether the live page's process stays as large as it is: an hour of records in a few minutes, with a reader.

    python benchmarks/watch.py [--minutes N] [--json]

`evenly watch` runs as a process of its own and follows a file of JSON lines, as beside a job. Into that file come records of a
keyed query, a dataflow and paced sending, a batch a second each, with a restart every ten minutes: as they would come in an
hour, one simulated minute after the other, each as soon as the page has taken in the one before. A reader takes the page's
events as a browser does, and is gone and comes back every twelve minutes. Told is the memory of the page's process (its own
pages, not those that it shares) after each five minutes. What it keeps (600 batches of each of nine runs) is full after half an
hour; `ratio` is what it takes at the end over that.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

import psutil

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.facts.records import Fact
from evenly.facts.sample import dataflow, drifting_stream, paced_sending

RESTART_BATCHES, TOLD_MINUTES, AWAY_MINUTES = 600, 5, 12
PATIENCE_S = 120.0


class Reader:
    """Takes events as a browser does, and knows the last record that it has seen."""

    def __init__(self, port: int) -> None:
        self._port, self._last, self.records = port, "", 0
        self._seen = 0
        self._changed = threading.Condition()
        self._connection: http.client.HTTPConnection | None = None
        self.come()

    def come(self) -> None:
        """Connect, and go on after the last record."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        connection.request("GET", "/events", headers={"Last-Event-ID": self._last} if self._last else {})
        self._connection = connection
        answer = connection.getresponse()
        threading.Thread(target=self._read, args=(answer,), daemon=True).start()

    def go(self) -> None:
        """Lose the connection, as a browser does whose machine sleeps."""
        gone, self._connection = self._connection, None
        if gone is not None and gone.sock is not None:
            gone.sock.shutdown(2)

    def await_number(self, number: int) -> None:
        """Until the record of this number has come."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._seen >= number, PATIENCE_S):
                sys.exit(f"the page told {self._seen} of {number} records and then nothing for {PATIENCE_S:g} s")

    def _read(self, answer: http.client.HTTPResponse) -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            for line in answer:
                if line.startswith(b"id: "):
                    with self._changed:
                        self._last = line[4:].decode().strip()
                        self._seen = int(self._last.rpartition(".")[2])
                        self.records += 1
                        self._changed.notify_all()


def hour(minutes: int) -> Iterator[list[Fact]]:
    """The records of each minute: 60 batches of each of three runs that are started again and again."""
    samples = (
        _endless(lambda seed: drifting_stream(seed=seed, batches=RESTART_BATCHES)),
        _endless(lambda seed: dataflow(seed=seed, batches=RESTART_BATCHES)),
        _endless(lambda seed: paced_sending(seed=seed, batches=RESTART_BATCHES)),
    )
    for _ in range(minutes):
        yield [fact for sample in samples for fact in islice(sample, 60)]


def _endless(sample: Callable[[int], Iterator[Fact]]) -> Iterator[Fact]:
    for seed in count():
        yield from sample(seed % 3)  # the same three runs, started again


def memory_mb(process: psutil.Process) -> float:
    """Its own pages."""
    return float(process.memory_full_info().uss) / 2**20


def main() -> None:
    """Run it."""
    parser = benchmark_parser(__doc__)
    parser.add_argument("--minutes", type=int, default=60, help="how many are simulated")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "facts.jsonl"
        sink = evenly.JsonLines(path, most_bytes=8 * 2**20)
        command = [sys.executable, "-m", "evenly", "watch", str(path), "--no-browser", "--port", "0"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ})
        assert running.stdout is not None
        try:
            found = re.search(r":(\d+)/", running.stdout.readline())
            if found is None:
                sys.exit("evenly watch has not started")
            process, reader = psutil.Process(running.pid), Reader(int(found[1]))
            results, written, begun = [], 0, time.perf_counter()
            results.append({"series": "memory", "minute": 0, "records": 0, "mb": memory_mb(process)})
            for minute, facts in enumerate(hour(given.minutes), 1):
                for fact in facts:
                    sink.write(fact)
                written += len(facts)
                if minute % AWAY_MINUTES == 0:
                    reader.go()
                    reader.come()
                reader.await_number(written)
                if minute % TOLD_MINUTES == 0:
                    results.append({"series": "memory", "minute": minute, "records": written, "mb": memory_mb(process)})
                    print(f"minute {minute}: {written:,} records, {results[-1]['mb']:.1f} MB", file=sys.stderr)
            took = time.perf_counter() - begun
            cpu_s = sum(process.cpu_times()[:2])
        finally:
            sink.close()
            running.send_signal(signal.SIGINT)
            running.wait(30)
    at = {int(one["minute"]): float(one["mb"]) for one in results}  # type: ignore[call-overload, arg-type]
    half, end = at.get(given.minutes // 2 // TOLD_MINUTES * TOLD_MINUTES, 0.0), at[max(at)]
    results.append(
        {"series": "hour", "records": written, "read": reader.records, "seconds": took, "cpu_s": cpu_s}
        | {"ratio": end / half if half else float("nan")}
    )
    if given.json:
        print_json("watch", {"minutes": given.minutes}, results)
        return
    for one in results:
        print(
            "  ".join(f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}" for name, value in one.items())
        )


if __name__ == "__main__":
    main()
