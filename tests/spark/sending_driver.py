"""A driver that sends rows again and again on a session that runs failed tasks again: the program of test_sink_kill.py.

python sending_driver.py PORT

For each line "LINK ROWS" that it reads it sends ROWS rows of 4 partitions to PORT, and prints rows and attempts of the tasks.
"""

import json
import sys

from pyspark.sql import functions as F

import evenly
from evenly.spark.session import local_session

PARTITIONS = 4


def main(port: int) -> None:
    # In local mode a task that fails is not run again, unless the master says so.
    spark = local_session("sending", slots=PARTITIONS, memory="512m", settings={"spark.master": f"local[{PARTITIONS},8]"})
    spark.range(8, numPartitions=PARTITIONS).mapInArrow(lambda batches: batches, "id long").count()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        link, rows = line.split()
        df = spark.range(int(rows), numPartitions=PARTITIONS).select(F.concat(F.lit("row "), "id").alias("text"))
        to = evenly.TcpLines("127.0.0.1", port, buffer_bytes=4_096)
        sent = evenly.send(df, to=to, link=link, policy="lbf", interval_ms=20.0, timeout_s=60.0)
        tasks = [(task.partition, task.rows, task.attempt) for task in sent.tasks]
        sys.stdout.write(json.dumps([sent.sender, tasks]) + "\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
