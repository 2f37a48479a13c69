"""A dataflow from a real Kafka to Parquet and to Kafka, killed and resumed: once in the files, at least once in the topic."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="dataflows run on PySpark")

from kafka_broker import Broker, NoKafka, connector
from waiting import until

FIRST, LATER = 240, 60
FLOW = """
dataflow: numbers
operators:
  lines:
    kind: source
    format: kafka
    options: {{kafka.bootstrap.servers: "{address}", subscribe: numbers, startingOffsets: earliest, maxOffsetsPerTrigger: 90}}
  parse: {{kind: row, function: "reading:parsed", schema: "id long, twice long, partition int", threads: 2}}
  text: {{kind: frame, function: "reading:as_messages"}}
  files: {{kind: sink, format: parquet, path: "{folder}/files", exactly_once: true}}
  told: {{kind: sink, format: kafka, options: {{kafka.bootstrap.servers: "{address}", topic: doubled}}}}
  last: {{kind: sink, function: "reading:held"}}
edges:
  - {{from: lines, to: parse, where: "value is not null"}}
  - [parse, files]
  - [parse, text]
  - [text, told]
  - {{from: text, to: last, where: "false"}}
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    try:
        with Broker(tmp_path_factory.mktemp("kafka")) as running:
            yield running
    except NoKafka as error:
        pytest.skip(str(error))


def running(folder, *more):
    """`evenly run`, a session of processes of its own."""
    command = [sys.executable, "-m", "evenly", "run", str(folder / "flow.yaml"), "--checkpoint", str(folder / "checkpoint")]
    settings = {"spark.jars": connector(), "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    options = [f"{name}={value}" for name, value in settings.items()]
    command += ["--until-read", "--json", *(part for option in options for part in ("--conf", option)), *more]
    environment = os.environ | {"EVENLY_TEST_MARK": str(folder / "held"), "PYTHONWARNINGS": "ignore"}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=Path(__file__).parent, start_new_session=True
        )


def in_files(folder):
    return Counter(pq.read_table(folder / "files", columns=["id", "twice"]).to_pandas().itertuples(index=False, name=None))


def test_rows_of_kafka_are_once_in_files_and_at_least_once_in_kafka_whatever_is_killed(broker, tmp_path):
    (tmp_path / "flow.yaml").write_text(FLOW.format(address=broker.address, folder=tmp_path))
    broker.produce("numbers", [*map(str, range(FIRST)), "no number"])
    first = running(tmp_path)
    try:
        until(lambda: (tmp_path / "held").exists() or first.poll() is not None, "a batch that waits")
        assert first.poll() is None, (tmp_path / "log").read_text()[-3000:]
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        first.stdout.close()
    broker.produce("numbers", list(map(str, range(FIRST, FIRST + LATER))))
    second = running(tmp_path)
    said, _ = second.communicate(timeout=300)
    assert second.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    batches = {row["batch"] for row in json.loads(said)["results"] if row["series"] == "batch"}
    assert min(batches) == 1  # the batch that was not committed
    expected = Counter({(number, 2 * number): 1 for number in range(FIRST + LATER)})
    assert in_files(tmp_path) == expected
    told = Counter(broker.values("doubled"))
    assert set(told) == {str(2 * number) for number in range(FIRST + LATER)}
    again = {str(2 * number) for number in batch_of(tmp_path, 1)}  # was in Kafka when its query was killed
    assert told == Counter({value: 2 if value in again else 1 for value in told})


def batch_of(folder, number):
    return pq.read_table(folder / "files" / f"batch={number}", columns=["id"]).column("id").to_pylist()
