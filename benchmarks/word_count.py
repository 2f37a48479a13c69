"""The word-count testbed of the Hone paper on Spark: sentences, split by 10 tasks at a time, words over one limited link.

python benchmarks/word_count.py [FOLDER] [--load 0.95] [--interval-ms 10,50,130] [--seconds 4] [--rounds 1] [--json]

Sentences (of `wiki_sent_1` in FOLDER, or generated, 1 to 32 words each) arrive at fixed times at 10 Spark tasks of one machine,
which split them and send every word by itself, padded to a frame of 1,000 bytes, to a process that counts. All connections
share that process's token bucket: that is the link, so fast that it is busy for `--load` of the time. `none`: nobody decides
who sends, and the link takes from connections in turn, as a network does. Otherwise the policy paces the tasks' queues.

Completion time of a word: from the arrival of its sentence to its arrival at the counting process. Every word counts, also
those that were still queued when the last sentence had come. `ideal link` is computed: a link that no busy machine holds up,
first come first served, which no rule can beat on average. Shuffle grouping deals sentences out in turn; partial key
grouping (PKG) gives each word to the less loaded of the two tasks of its key.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import selectors
import socket
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import BarrierTaskContext
from pyspark.sql import DataFrame, SparkSession

from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.emission.destinations import NumberedRow
from evenly.emission.destinations.delivery import Pacing, Partition, deliver
from evenly.emission.link.outgoing import UNSCHEDULED
from evenly.kernels.types import F64
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.rivals.splitting.partial_key import PKG
from evenly.spark.session import local_session
from evenly.streams import zipf

TASKS = 10
FRAME_BYTES, MOST_WORD_BYTES = 1_000, 900
LEAD_S, BURST_S = 1.5, 0.02
"""From when all tasks are ready to the first sentence (Spark may take a second to tell them so); and the time that a link may
catch up on if no frame was there."""
POLICIES = ("lbf", "skipping-rr", "fcfs")
MOST_WORDS = 32
STREAM = "wiki_sent_1"
IDEAL = "ideal link"


def sentences(folder: str | None, count: int, seed: int) -> tuple[str, list[str]]:
    """The name of the stream, and so many sentences of it."""
    path = Path(folder or "") / f"{STREAM}.parquet"
    if folder is not None and path.exists():
        for batch in pq.ParquetFile(path).iter_batches(count, columns=["text"]):
            return STREAM, batch.column(0).to_pylist()
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, MOST_WORDS + 1, count)
    words = iter(zipf(1.0).draw(int(lengths.sum()), seed=seed).tolist())
    return "generated", [" ".join(f"w{next(words)}" for _ in range(length)) for length in lengths]


def placed(spark: SparkSession, texts: list[str], grouping: str, each_ms: float) -> DataFrame:
    """What arrives at which task and when: sentences in turn, or words by PKG."""
    due = [number * each_ms for number in range(len(texts))]
    if grouping == "pkg":
        due = [at for at, text in zip(due, texts, strict=True) for _ in text.split()]
        texts = [word for text in texts for word in text.split()]
        tasks = PKG(TASKS, distinct=True).route(np.array(texts))
    else:
        tasks = RoundRobin(TASKS).route(np.arange(len(texts)), 0.0)
    table = pa.table({"task": pa.array(tasks, pa.int32()), "due_ms": due, "number": np.arange(len(texts)), "text": texts})
    rows = spark.createDataFrame(table).repartitionById(TASKS, "task").sortWithinPartitions("number").persist()
    rows.count()
    return rows


class Frames:
    """The link as a destination: a frame is sent when the link has taken it, so that nothing waits in the kernel's buffers."""

    rows_at_once, limits = 1, 2

    def __init__(self, port: int) -> None:
        self._port = port

    def connect(self, timeout_s: float) -> FrameConnection:
        return FrameConnection(socket.create_connection(("127.0.0.1", self._port), timeout_s))


class FrameConnection:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, rows: Sequence[NumberedRow]) -> None:
        for row in rows:
            self._socket.sendall((b"%d %s " % (row.partition, row.body)).ljust(FRAME_BYTES, b"."))
            if not self._socket.recv(1):
                raise ConnectionError("the link is gone")

    def flush(self) -> None:
        """Every frame has been taken."""

    def close(self) -> None:
        self._socket.close()


def receive(ends: Connection, bytes_per_s: float) -> None:
    """The link and the counting process: takes frames of all connections in turn, as fast as the bucket allows."""
    with socket.create_server(("127.0.0.1", 0), backlog=TASKS) as listener, selectors.DefaultSelector() as ready:
        ready.register(listener, selectors.EVENT_READ)
        ready.register(ends, selectors.EVENT_READ)
        ends.send(listener.getsockname()[1])
        counts: dict[bytes, int] = {}
        found: list[tuple[int, int, int]] = []
        free_s = time.monotonic()
        while True:
            came = ready.select(0)
            if not came:
                # Only a link that nobody uses loses time; one whose process was held up makes up for it.
                came = ready.select()
                free_s = max(free_s, time.monotonic() - BURST_S)
            for key, _ in came:
                if key.fileobj is ends:
                    ends.send(found)
                    return
                if key.fileobj is listener:
                    accepted, _ = listener.accept()
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    ready.register(accepted, selectors.EVENT_READ)
                    continue
                one = key.fileobj
                assert isinstance(one, socket.socket)
                frame = one.recv(FRAME_BYTES, socket.MSG_WAITALL)
                if not frame:
                    ready.unregister(one)
                    one.close()
                    continue
                free_s += FRAME_BYTES / bytes_per_s
                time.sleep(max(0.0, free_s - time.monotonic()))
                task, due_ns, word, _ = frame.split(b" ", 3)
                counts[word] = counts.get(word, 0) + 1
                found.append((int(task), int(due_ns), time.monotonic_ns()))
                one.send(b".")


@dataclass(frozen=True)
class Run:
    """What came of one run: completion times in ms, and the task of each."""

    completion_ms: F64
    task: F64


def run(rows: DataFrame, policy: str, interval_ms: float, bytes_per_s: float, *, hurry: bool = False) -> Run:
    """All rows through the link once, when they are due or in a hurry; all tasks begin together."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=receive, args=(theirs, bytes_per_s), daemon=True)
    process.start()
    port = ours.recv()
    to = Frames(port)
    pacing = Pacing(link=f"word-count.{uuid.uuid4().hex[:12]}", policy=policy, interval_ms=interval_ms, timeout_s=60.0)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = pa.Table.from_batches(batches)
        if held.num_rows == 0:
            return
        number = held.column("task")[0].as_py()
        due_ms = [0.0] * held.num_rows if hurry else held.column("due_ms").to_pylist()
        ready_ns = BarrierTaskContext.get().allGather(str(time.monotonic_ns()))
        words = _words(zip(due_ms, held.column("text").to_pylist(), strict=True), max(map(int, ready_ns)) + int(LEAD_S * 1e9))
        done = deliver(words, to, Partition("word-count", 0, number), pacing)
        yield pa.RecordBatch.from_pydict({"rows": [done.rows]})

    sent = sum(row.rows for row in rows.mapInArrow(task, "rows long", barrier=True).collect())
    ours.send("end")
    found = np.array(ours.recv(), np.int64)
    process.join(10.0)
    if len(found) != sent:
        raise SystemExit(f"{sent} words were sent and {len(found)} came")
    return Run((found[:, 2] - found[:, 1]) / 1e6, found[:, 0].astype(np.float64))


def _words(arrivals: Iterator[tuple[float, str]], start_ns: int) -> Iterator[bytes]:
    """Every word when its sentence is due."""
    for due_ms, text in arrivals:
        due_ns = start_ns + int(due_ms * 1e6)
        left_s = (due_ns - time.monotonic_ns()) / 1e9
        if left_s > 0.0:
            time.sleep(left_s)
        for word in text.split():
            yield b"%d %s" % (due_ns, word.encode()[:MOST_WORD_BYTES])


def ideal(texts: list[str], each_ms: float, bytes_per_s: float) -> Run:
    """The same sentences through a link that is never held up, first come first served: what no rule can beat on average."""
    word_ms, free_ms, found = 1e3 * FRAME_BYTES / bytes_per_s, 0.0, []
    for number, text in enumerate(texts):
        for _ in text.split():
            free_ms = max(free_ms, number * each_ms - 1e3 * BURST_S) + word_ms
            found.append((max(free_ms - number * each_ms, 0.0), number % TASKS))
    times = np.array(found)
    return Run(times[:, 0], times[:, 1])


def summary(told: dict[str, object], runs: list[Run]) -> Iterator[dict[str, object]]:
    """One row for a setting, and one for each task."""
    all_ms, task = np.concatenate([one.completion_ms for one in runs]), np.concatenate([one.task for one in runs])
    means = [float(all_ms[task == number].mean()) for number in range(TASKS)]
    rounds = [float(one.completion_ms.mean()) for one in runs]
    yield {
        **told,
        "series": "run",
        "tuples": all_ms.size,
        "completion_ms_mean": float(all_ms.mean()),
        "completion_ms_p99": float(np.percentile(all_ms, 99)),
        "round_ms_min": min(rounds),
        "round_ms_max": max(rounds),
        "fastest_task_ms": min(means),
        "slowest_task_ms": max(means),
    }
    for number, mean_ms in enumerate(means):
        yield {**told, "series": "task", "x": number, "completion_ms_mean": mean_ms}


def measured(options: argparse.Namespace) -> list[dict[str, object]]:
    """All settings, one after the other, in one session."""
    intervals = [float(text) for text in options.interval_ms.split(",")]
    each_ms = 1e3 / options.sentences_per_s
    stream, texts = sentences(options.folder, round(options.seconds * options.sentences_per_s), options.seed)
    words = sum(len(text.split()) for text in texts)
    bytes_per_s = words * FRAME_BYTES / options.seconds / options.load
    results: list[dict[str, object]] = []
    spark = local_session("word count", slots=TASKS, memory="1g")
    try:
        for grouping in options.grouping.split(","):
            rows = placed(spark, texts, grouping, each_ms)
            run(rows, UNSCHEDULED, 10.0, 100.0 * bytes_per_s, hurry=True)  # starts the Python workers
            settings = [(UNSCHEDULED, intervals[0]), *((policy, tau) for tau in intervals for policy in POLICIES)]
            found: dict[tuple[str, float], list[Run]] = {setting: [] for setting in settings}
            found[IDEAL, intervals[0]] = [ideal(texts, each_ms, bytes_per_s)]
            for turn in range(options.rounds):
                for policy, interval_ms in settings:
                    one = run(rows, policy, interval_ms, bytes_per_s)
                    found[policy, interval_ms].append(one)
                    text = f"{grouping}, {policy}, {interval_ms:g} ms, round {turn + 1}: {one.completion_ms.mean():.0f} ms"
                    print(text, file=sys.stderr, flush=True)
            for (policy, interval_ms), runs in found.items():
                told = {
                    "stream": stream,
                    "grouping": "round-robin" if grouping == "shuffle" else grouping,
                    "emission": policy,
                    "interval_ms": None if policy in (UNSCHEDULED, IDEAL) else interval_ms,
                    "load": options.load,
                }
                results += list(summary(told, runs))
            rows.unpersist()
    finally:
        spark.stop()
    return results


def tables(results: list[dict[str, object]]) -> Iterator[str]:
    """Markdown: by interval and policy, then by task."""
    runs = [row for row in results if row["series"] == "run"]
    for grouping in dict.fromkeys(row["grouping"] for row in runs):
        mine = [row for row in runs if row["grouping"] == grouping]
        first = mine[0]
        yield f"\n**{grouping}, {first['tuples']:,} words of {first['stream']}, load {first['load']}**: completion time in ms\n"
        yield "| policy | τ, ms | mean (of rounds) | p99 | fastest task | slowest task |\n|---|---|---|---|---|---|"
        for row in mine:
            tau = "" if row["interval_ms"] is None else f"{row['interval_ms']:g}"
            mean = f"{row['completion_ms_mean']:.0f} ({row['round_ms_min']:.0f} to {row['round_ms_max']:.0f})"
            names = ("completion_ms_p99", "fastest_task_ms", "slowest_task_ms")
            yield f"| `{row['emission']}` | {tau} | {mean} | " + " | ".join(f"{row[name]:.0f}" for name in names) + " |"
        shown = [(row["emission"], row["interval_ms"]) for row in mine if row["interval_ms"] in (None, _middle(mine))]
        yield f"\nMean completion time of each task, τ = {_middle(mine):g} ms\n"
        yield "| policy | " + " | ".join(str(task) for task in range(TASKS)) + " |\n|---|" + "---|" * TASKS
        for policy, interval_ms in shown:
            means = [
                f"{row['completion_ms_mean']:.0f}"
                for row in results
                if (row["series"], row["grouping"], row["emission"], row["interval_ms"])
                == ("task", grouping, policy, interval_ms)
            ]
            yield f"| `{policy}` | " + " | ".join(means) + " |"


def _middle(runs: list[dict[str, object]]) -> float:
    taus = sorted({float(str(row["interval_ms"])) for row in runs if row["interval_ms"] is not None})
    return taus[len(taus) // 2]


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("folder", nargs="?", default=os.environ.get("EVENLY_DATA") or None)
    parser.add_argument("--load", type=float, default=0.95, help="how much of the time the link is busy, on average")
    parser.add_argument("--interval-ms", default="10,50,130")
    parser.add_argument("--grouping", default="shuffle,pkg")
    parser.add_argument("--sentences-per-s", type=float, default=30.0, help="of all tasks")
    parser.add_argument("--seconds", type=float, default=4.0, help="of arrivals, for each setting")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each setting, in turn")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    results = measured(options)
    if options.json:
        print_json("word-count", vars(options), results)
    else:
        print("\n".join(tables(results)))


if __name__ == "__main__":
    main()
