"""A paced sink: rows leave through one link, whose turn it is says a policy, and each arrives at least once.

Tasks send orders to a collector over TCP, in the order of their partition. Every line says which row it is,
so that the collector drops what comes twice. A dataflow that does the same is the example `words`.
"""

from __future__ import annotations

import socketserver
import threading

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import evenly


class Orders(socketserver.StreamRequestHandler):
    """Takes lines in, each once, and acknowledges how many came so far."""

    def handle(self) -> None:
        seen: dict[bytes, int] = self.server.seen  # type: ignore[attr-defined]
        count = 0
        for count, line in enumerate(self.rfile, 1):  # noqa: B007 - acknowledged after the last
            partition, number, body = line[:-1].rsplit(b"\t", 2)
            if int(number) > seen.get(partition, -1):
                seen[partition] = int(number)
                self.server.taken.append(body)  # type: ignore[attr-defined]
        self.wfile.write(b"%d\n" % count)


class Collector(socketserver.ThreadingTCPServer):
    """Listens on a free port of this machine."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Orders)
        self.seen: dict[bytes, int] = {}
        self.taken: list[bytes] = []


def main(spark: SparkSession, *, rows: int = 20_000, instances: int = 4) -> int:
    """Send all rows; the number of those that the collector has, each counted once."""
    orders = spark.range(rows).select("id", F.lit("paid").alias("state")).repartition(instances, "id")
    with Collector() as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        to = evenly.TcpLines("127.0.0.1", collector.server_address[1])
        sent = evenly.send(orders, to=to, link="gallery", policy="fcfs")
        print(f"sent {sent.rows:,} rows of {len(sent.tasks)} partitions, {len(collector.taken):,} arrived")
        collector.shutdown()
    return len(collector.taken)


if __name__ == "__main__":
    main(evenly.local_session(slots=4))
