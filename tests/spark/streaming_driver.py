"""A query that sends the files of FOLDER/in to PORT, on SLOTS cores: the program of test_sink_kill.py that is killed.

python streaming_driver.py PORT FOLDER SLOTS
"""

import sys

import evenly
from evenly.spark.session import local_session


def main(port: int, folder: str, slots: int) -> None:
    spark = local_session("streaming", slots=slots, memory="512m")
    rows = spark.readStream.schema("text string").parquet(f"{folder}/in")
    to = evenly.TcpLines("127.0.0.1", port, buffer_bytes=4_096)
    query = evenly.stream_send(rows, to=to, checkpoint=f"{folder}/checkpoint", trigger={"availableNow": True}, timeout_s=60.0)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
