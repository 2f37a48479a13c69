"""Dataflows on a cluster of two workers, `evenly run` as its driver: an executor, a worker and the driver are killed in the
middle of them, each by kill -9. What was ended is started again, and the rows are those of a run that nobody disturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="dataflows run on PySpark")
pytest.importorskip("psutil", reason="processes of a cluster are found with psutil")

from faults.cluster import HOSTS, Cluster, NoCluster, environment
from faults.killed_functions import FAULT, FOLDER
from faults.runner import Outside
from kafka_broker import Broker, NoKafka, connector

pytestmark = pytest.mark.long

ROWS, FILES = 240, 6
KAFKA = """
dataflow: from kafka
operators:
  read:
    kind: source
    format: kafka
    options: {{kafka.bootstrap.servers: "{address}", subscribe: numbers, startingOffsets: earliest, maxOffsetsPerTrigger: 60}}
  parse: {{kind: row, function: "killed_functions:parsed", schema: "id long, partition int, offset long"}}
  double: {{kind: row, function: "killed_functions:doubled", schema: "id long, twice long", threads: 2}}
  parsed: {{kind: sink, format: parquet, path: "{folder}/parsed", exactly_once: true}}
  doubled: {{kind: sink, format: parquet, path: "{folder}/doubled", exactly_once: true}}
edges: [[read, parse], [parse, double], [parse, parsed], [double, doubled]]
"""
EDGES = """
dataflow: through edges
operators:
  read: {{kind: source, format: parquet, path: "{input}", schema: "id long, v long, g int", options: {{maxFilesPerTrigger: 2}}}}
  work: {{kind: row, function: "killed_functions:worked", schema: "id long, v long, g int"}}
  add: {{kind: batch, function: "killed_functions:added", schema: "id long, v long, g int"}}
  double: {{kind: row, function: "killed_functions:doubled", schema: "id long, twice long"}}
  keyed: {{kind: sink, format: parquet, path: "{folder}/keyed"}}
  costed: {{kind: sink, format: parquet, path: "{folder}/costed"}}
edges:
  - {{from: read, to: work, grouping: shuffle, instances: 3}}
  - {{from: work, to: add, grouping: key, columns: g, instances: 3}}
  - {{from: work, to: double, where: "v >= 0", grouping: cost, columns: g, instances: 3}}
  - [add, keyed]
  - [double, costed]
"""
SINKS = {"kafka": ("parsed", "doubled"), "edges": ("keyed", "costed")}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    try:
        running = Cluster(tmp_path_factory.mktemp("cluster"), HOSTS[:2])
    except NoCluster as error:
        pytest.skip(str(error))
    yield running
    running.close()


@pytest.fixture(scope="module")
def flows(tmp_path_factory):
    """The two dataflows, to be completed by the folder of their sinks."""
    folder = tmp_path_factory.mktemp("input")
    each = ROWS // FILES
    for number in range(FILES):
        ids = range(number * each, (number + 1) * each)
        made = pa.table({"id": ids, "v": [3 * one for one in ids], "g": pa.array([one % 5 for one in ids], pa.int32())})
        pq.write_table(made, folder / f"{number}.parquet")
    try:
        with Broker(tmp_path_factory.mktemp("kafka")) as broker:
            broker.produce("numbers", list(map(str, range(ROWS))))
            yield {
                "kafka": lambda at: KAFKA.format(address=broker.address, folder=at),
                "edges": lambda at: EDGES.format(input=folder, folder=at),
            }
    except NoKafka as error:
        pytest.skip(str(error))


class Driver:
    """`evenly run` on a cluster, a session of processes of its own."""

    def __init__(self, cluster, folder, fault):
        shared = environment(cluster.folder) | {FAULT: fault, FOLDER: str(folder)}
        settings = {
            "spark.jars": connector(),
            "spark.executor.memory": "600m",
            "spark.executor.cores": "1",
            "spark.driver.memory": "800m",
            "spark.task.maxFailures": "8",
            "spark.sql.shuffle.partitions": "3",
            "spark.locality.wait": "0s",
            "spark.local.dir": str(cluster.folder / "tmp"),
        }
        for name in ("PYTHONPATH", "PYTHONWARNINGS", "TMPDIR", "EVENLY_FAULTS_CAMPAIGN", FAULT, FOLDER):
            settings[f"spark.executorEnv.{name}"] = shared[name]
        command = [sys.executable, "-m", "evenly", "run", str(folder / "flow.yaml"), "--checkpoint", str(folder / "checkpoint")]
        command += ["--until-read", "--json", "--master", cluster.address]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        self.log = folder / "log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=log, env=shared, cwd=Path(__file__).parent, start_new_session=True
            )

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)


def ran(cluster, folder, text, fault):
    """A dataflow until it has read everything, however often it is started."""
    (folder / "flow.yaml").write_text(text)
    for _ in range(3):
        cluster.mend()
        driver = Driver(cluster, folder, fault)
        outside = Outside(folder, driver)
        try:
            code = driver.process.wait(400)
        finally:
            outside.end()
            if driver.process.poll() is None:
                driver.kill()
        if code == 0:
            return
        assert code == -signal.SIGKILL, driver.log.read_text()[-4000:]
    raise AssertionError("it ended again and again")


def rows(folder, sink):
    table = pq.read_table(folder / sink)
    names = sorted(set(table.column_names) - {"batch"})
    return Counter(zip(*(table.column(name).to_pylist() for name in names), strict=True))


@pytest.fixture(scope="module", params=["kafka", "edges"])
def undisturbed(request, cluster, flows, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"undisturbed {request.param}")
    ran(cluster, folder, flows[request.param](folder), "none")
    found = {sink: rows(folder, sink) for sink in SINKS[request.param]}
    first, second = SINKS[request.param]
    assert sum(found[first].values()) == len(found[first]) == ROWS
    assert sum(found[second].values()) == sum(0 if one % 10 == 0 else 2 if one % 7 == 0 else 1 for one in range(ROWS))
    return request.param, found


@pytest.mark.parametrize("fault", ["executor", "worker", "driver"])
def test_rows_are_those_of_an_undisturbed_run(cluster, flows, undisturbed, tmp_path, fault):
    name, expected = undisturbed
    ran(cluster, tmp_path, flows[name](tmp_path), fault)
    assert (tmp_path / "fired-0").exists()
    assert {sink: rows(tmp_path, sink) for sink in SINKS[name]} == expected
