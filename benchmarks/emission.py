"""What the agent of a link costs, how fast a dead leader is replaced, and what a queue carries, with real processes.

python benchmarks/emission.py [--processes 1,8,64] [--interval-ms 10] [--seconds 5] [--kills 20] [--json]
python benchmarks/emission.py --requests 60 [--answer-ms 20] [--json]

Cost is processor time in % of one core, read from the kernel: of the leading agent's thread, of all agents' threads, and of
the processes as a whole. `idle`: every process has an open queue and nothing to send; `waiting`: every process always has
tuples, and sending one takes 1 ms of waiting, no processor time. With the policy "none" all send at the same time, so
there the processes do more work. `--requests` measures something else: 8 processes, each with that many HTTP requests to a
server that answers after `--answer-ms`, without a policy and with each.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.table import Table

from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.emission.destinations import HttpPost
from evenly.emission.destinations.delivery import Pacing, Partition, deliver
from evenly.emission.link.links import look
from evenly.emission.link.outgoing import UNSCHEDULED, Outgoing

TARGET_PCT = 2.0
FORKED = multiprocessing.get_context("fork")


def agents_s() -> float:
    """Processor time of this process's agent threads so far; 0 where the kernel does not tell by thread."""
    ids = [thread.native_id for thread in threading.enumerate() if thread.name.startswith("evenly agent")]
    places = [Path(f"/proc/self/task/{one}/schedstat") for one in ids]
    return sum(int(place.read_text().split()[0]) for place in places if place.exists()) / 1e9


def member(ends: Connection, folder: str, policy: str, interval_ms: float, busy: bool) -> None:  # noqa: FBT001
    """A process with a queue; tells how much processor time it used between two messages."""
    queue: Outgoing[bytes] = Outgoing(
        lambda _: time.sleep(0.001), folder=folder, policy=policy, interval_ms=interval_ms, capacity=200
    )
    with queue:
        if busy:
            for _ in range(200):
                queue.send(b"x")
        ends.send(queue.leads)
        ends.recv()
        began_s, agent_s, sent = time.process_time(), agents_s(), queue.sent
        while not ends.poll(0.05 if busy else None):
            # Topped up in one go now and then, so that the producer's own work stays small.
            while busy and queue.backlog < 150:
                queue.send(b"x")
        ends.recv()
        ends.send((time.process_time() - began_s, agents_s() - agent_s, queue.sent - sent))
        queue.abort()


@contextmanager
def members(count: int, policy: str, interval_ms: float, *, busy: bool, folder: str) -> Iterator[list[Connection]]:
    """Processes that share a link, ready."""
    started, connections = [], []
    for _ in range(count):
        ours, theirs = FORKED.Pipe()
        process = FORKED.Process(target=member, args=(theirs, folder, policy, interval_ms, busy))
        process.start()
        theirs.close()
        started.append(process)
        connections.append(ours)
    yield connections
    for process in started:
        process.join(20.0)


@dataclass(frozen=True)
class Cost:
    """Processor time in % of a core, and the tuples sent."""

    leading_agent_pct: float
    agents_pct: float
    processes_pct: float
    tuples_per_s: float


def cost(count: int, policy: str, interval_ms: float, seconds: float, *, busy: bool) -> Cost:
    """What processes that share a link use."""
    with (
        tempfile.TemporaryDirectory(dir=_memory()) as folder,
        members(count, policy, interval_ms, busy=busy, folder=folder) as connections,
    ):
        for connection in connections:
            connection.recv()
        for connection in connections:
            connection.send("begin")
        time.sleep(seconds)
        for connection in connections:
            connection.send("end")
        found = [connection.recv() for connection in connections]
    process_s, agent_s, sent = zip(*found, strict=True)
    return Cost(
        100.0 * max(agent_s) / seconds, 100.0 * sum(agent_s) / seconds, 100.0 * sum(process_s) / seconds, sum(sent) / seconds
    )


def takeovers(kills: int, interval_ms: float) -> list[float]:
    """How many intervals a link is without a leader after kill -9 of one, again and again."""
    found = []
    for _ in range(kills):
        with tempfile.TemporaryDirectory(dir=_memory()) as folder:
            ends = []
            processes = []
            for _ in range(3):
                ours, theirs = FORKED.Pipe()
                process = FORKED.Process(target=member, args=(theirs, folder, "lbf", interval_ms, True))
                process.start()
                ours.recv()
                ends.append(ours)
                processes.append(process)
            time.sleep(20 * interval_ms / 1e3)
            state = look("default", folder)
            if state is None:
                continue
            began = time.perf_counter()
            os.kill(state.leader, signal.SIGKILL)
            while (now := look("default", folder)) is not None and now.leader == state.leader:
                time.sleep(0.0002)
            found.append((time.perf_counter() - began) * 1e3 / interval_ms)
            for process in processes:
                process.kill()
                process.join()
    return found


def carried(policy: str, tuples: int = 50_000) -> float:
    """Tuples a second through one queue whose destination takes no time."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder, Outgoing(_nothing, folder=folder, policy=policy) as queue:
        began = time.perf_counter()
        for _ in range(tuples):
            queue.send(b"x")
        queue.flush()
        return tuples / (time.perf_counter() - began)


class Slow(BaseHTTPRequestHandler):
    """Answers every request, after a while."""

    protocol_version = "HTTP/1.1"
    after_s = 0.02

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.after_s)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Be quiet."""


def serve(ends: Connection, after_s: float) -> None:
    """A server in a process of its own."""
    Slow.after_s = after_s
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    ends.send(server.server_port)
    server.serve_forever()


def requester(ends: Connection, port: int, policy: str, number: int, requests: int) -> None:
    """A task that makes requests one after the other."""
    ends.send("ready")
    ends.recv()
    pacing = Pacing(f"bench.{port}.{policy}", policy)
    deliver((b"{}" for _ in range(requests)), HttpPost(f"http://127.0.0.1:{port}/"), Partition("bench", 0, number), pacing)
    ends.send("done")


def requests_per_s(policy: str, requests: int, answer_ms: float, tasks: int = 8) -> float:
    """Of all tasks together."""
    ours, theirs = FORKED.Pipe()
    server = FORKED.Process(target=serve, args=(theirs, answer_ms / 1e3), daemon=True)
    server.start()
    port = ours.recv()
    ends, processes = [], []
    for number in range(tasks):
        one, other = FORKED.Pipe()
        processes.append(FORKED.Process(target=requester, args=(other, port, policy, number, requests)))
        processes[-1].start()
        ends.append(one)
    for end in ends:
        end.recv()
    began = time.perf_counter()
    for end in ends:
        end.send("go")
    for end in ends:
        end.recv()
    took_s = time.perf_counter() - began
    for process in processes:
        process.join()
    server.terminate()
    server.join()
    return tasks * requests / took_s


def _nothing(_: bytes) -> None:
    """Send nowhere."""


def _memory() -> str | None:
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() else None


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--processes", default="1,8,64")
    parser.add_argument("--interval-ms", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--requests", type=int, help="measure this many HTTP requests of each of 8 processes, and nothing else")
    parser.add_argument("--answer-ms", type=float, default=20.0)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    if options.requests is not None:
        for policy in (UNSCHEDULED, "lbf", "fcfs", "skipping-rr"):
            found = requests_per_s(policy, options.requests, options.answer_ms)
            rows.append({"series": "requests", "emission": policy, "answer_ms": options.answer_ms, "requests_per_s": found})
            if not options.json:
                print(f"8 tasks, an answer after {options.answer_ms:g} ms, policy {policy}: {found:.0f} requests/s")
        if options.json:
            print_json("emission", vars(options), rows)
        return
    for count in (int(text) for text in options.processes.split(",")):
        for busy in (False, True):
            with_, without = (
                cost(count, policy, options.interval_ms, options.seconds, busy=busy) for policy in ("lbf", UNSCHEDULED)
            )
            rows.append(
                {
                    "series": "waiting" if busy else "idle",
                    "processes": count,
                    "interval_ms": options.interval_ms,
                    **asdict(with_),
                    "baseline": UNSCHEDULED,
                    "baseline_processes_pct": without.processes_pct,
                    "baseline_tuples_per_s": without.tuples_per_s,
                }
            )
    times = takeovers(options.kills, options.interval_ms)
    if times:
        rows.append({"series": "takeover", "intervals_median": statistics.median(times), "intervals_max": max(times)})
    rows += [{"series": "queue", "emission": policy, "tuples_per_s": carried(policy)} for policy in ("lbf", UNSCHEDULED)]
    if options.json:
        print_json("emission", vars(options), rows)
    else:
        show(rows, options.interval_ms)


def show(rows: list[dict[str, object]], interval_ms: float) -> None:
    table = Table(title=f"τ = {interval_ms:g} ms; processor time in % of one core", title_justify="left")
    headings = ("", "n", "leading agent", "all agents", "all", "all, unscheduled", f"leading agent < {TARGET_PCT:g} %")
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left")
    for row in rows:
        if "agents_pct" in row:
            names = ("leading_agent_pct", "agents_pct", "processes_pct", "baseline_processes_pct")
            used = [float(str(row[name])) for name in names]
            good = "yes" if used[0] < TARGET_PCT else "no"
            table.add_row(str(row["series"]), str(row["processes"]), *(f"{one:.2f}" for one in used), good)
    console = Console()
    console.print(table)
    for row in rows:
        if row["series"] == "takeover":
            median, most = (float(str(row[name])) for name in ("intervals_median", "intervals_max"))
            console.print(
                f"After kill -9 of the leader another leads within {median:.2f} intervals (median), {most:.2f} at most."
            )
        if row["series"] == "queue":
            console.print(f"One queue, {row['emission']}: {float(str(row['tuples_per_s'])):,.0f} tuples/s")


if __name__ == "__main__":
    main()
