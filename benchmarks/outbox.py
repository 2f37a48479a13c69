"""What it costs to keep what a batch sends: `stream_send` with and without its outbox, whole jobs in turn in one run.

python benchmarks/outbox.py [--rows 50000] [--batches 4] [--widths 100,1000,10000] [--rounds 3] [--rate 0] [--json]

Files of rows of a width are sent to a process on loopback that counts lines and acknowledges them. A job is a whole query,
from its start to the end of its last batch, on a checkpoint of its own. `--rows` are those of a batch at 100 bytes; wider rows
are fewer, so that a batch has the same bytes. `--rate` limits what the process takes, in MB/s: a destination that is slower
than a disk hides most of what the outbox costs.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.spark.session import local_session

SLOTS, FILES = 2, 2
NARROW_BYTES = 100
WAYS = {"without": False, "outbox": True}


def receive(listener: socket.socket, rate_bytes_s: float) -> None:
    """Count the lines of every connection, and say so at its end; all connections share the rate (0: no limit)."""
    mutex, free_at_s = threading.Lock(), [0.0]

    def take_in(connection: socket.socket) -> None:
        count = 0
        with suppress(OSError), connection:
            while data := connection.recv(1 << 16):
                count += data.count(b"\n")
                if rate_bytes_s:
                    with mutex:
                        free_at_s[0] = max(free_at_s[0], time.monotonic()) + len(data) / rate_bytes_s
                        wait_s = free_at_s[0] - time.monotonic()
                    time.sleep(max(wait_s, 0.0))
            connection.sendall(b"%d\n" % count)

    while True:
        connection, _ = listener.accept()
        threading.Thread(target=take_in, args=(connection,), daemon=True).start()


def write_batches(folder: Path, batches: int, rows: int, width: int) -> None:
    """Files of rows that do not compress, `FILES` a batch."""
    random = np.random.default_rng(width)
    for number in range(batches * FILES):
        count = rows // FILES
        letters = random.integers(97, 123, count * width, dtype=np.uint8).tobytes()
        bodies = [letters[at * width : (at + 1) * width] for at in range(count)]
        pq.write_table(pa.table({"body": pa.array(bodies, pa.binary())}), folder / f"{number:04d}.parquet", compression="none")


def job(spark: SparkSession, folder: Path, checkpoint: Path, port: int, *, repeatable: bool) -> tuple[float, float]:
    """The seconds of a whole query, and the mean of its batches without the first."""
    rows = spark.readStream.schema("body binary").option("maxFilesPerTrigger", FILES).parquet(str(folder))
    started = time.perf_counter()
    query = evenly.stream_send(
        rows,
        to=evenly.TcpLines("127.0.0.1", port, rows_at_once=100, buffer_bytes=1 << 20),
        checkpoint=checkpoint,
        trigger={"availableNow": True},
        repeatable=repeatable,
    )
    query.awaitTermination()
    seconds = time.perf_counter() - started
    batches = [it.durationMs["triggerExecution"] / 1e3 for it in query.recentProgress if it.numInputRows]
    return seconds, statistics.fmean(batches[1:] or batches)


def measure(
    spark: SparkSession, port: int, *, rows: int, batches: int, widths: list[int], rounds: int
) -> list[dict[str, object]]:
    """Both ways in turn, `rounds` times each after one that warms up; medians."""
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for width in widths:
            count = max(FILES, rows * NARROW_BYTES // width)
            folder = Path(temporary, str(width))
            folder.mkdir()
            write_batches(folder, batches, count, width)
            timed: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
            for turn in range(rounds + 1):
                for name, repeatable in WAYS.items():
                    checkpoint = Path(temporary, f"checkpoint-{width}-{turn}-{name}")
                    seconds, a_batch = job(spark, folder, checkpoint, port, repeatable=repeatable)
                    shutil.rmtree(checkpoint)
                    print(f"{width} bytes, round {turn} of {rounds}: {name} {seconds:.2f} s", file=sys.stderr, flush=True)
                    if turn:
                        timed[name].append((seconds, a_batch))
            medians = {name: tuple(map(statistics.median, zip(*values, strict=True))) for name, values in timed.items()}
            results += [
                {
                    "series": name,
                    "width_bytes": width,
                    "rows": count * batches,
                    "seconds": medians[name][0],
                    "batch_seconds": medians[name][1],
                    "ratio": medians[name][0] / medians["without"][0],
                    "batch_ratio": medians[name][1] / medians["without"][1],
                }
                for name in WAYS
            ]
            shutil.rmtree(folder)
    return results


def show(results: list[dict[str, object]]) -> None:
    table = Table(
        title="stream_send: whole jobs and later batches, and their ratio to the same without outbox", title_justify="left"
    )
    for heading in ("bytes a row", "rows", "way", "job, s", "ratio", "a later batch, s", "ratio"):
        table.add_column(heading)
    for row in results:
        figures = [f"{row[name]:.2f}" for name in ("seconds", "ratio", "batch_seconds", "batch_ratio")]
        table.add_row(f"{row['width_bytes']:,}", f"{row['rows']:,}", str(row["series"]), *figures)
    Console().print(table)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--rows", type=int, default=50_000, help="rows of a batch at 100 bytes")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--widths", default="100,1000,10000", help="bytes a row")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0.0, help="MB/s that the destination takes, 0 for no limit")
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    receiver = multiprocessing.get_context("fork").Process(target=receive, args=(listener, options.rate * 1e6), daemon=True)
    receiver.start()
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    spark = local_session("evenly benchmark", slots=SLOTS, memory="2g")
    widths = [int(width) for width in options.widths.split(",")]
    port = listener.getsockname()[1]
    try:
        results = measure(spark, port, rows=options.rows, batches=options.batches, widths=widths, rounds=options.rounds)
    finally:
        receiver.terminate()
    spark.stop()
    if options.json:
        parameters = {name: getattr(options, name) for name in ("rows", "batches", "widths", "rounds", "rate")}
        print_json("outbox", parameters, results)
    else:
        show(results)


if __name__ == "__main__":
    main()
