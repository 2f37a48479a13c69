"""The program of test_stream_apply_by_cost_cluster.py: a cluster of a master and three workers, on hosts of their own here.

python clustered_costs.py FOLDER

Batch 1 loses a worker and its executor while it runs, in batch 2 a task fails twice, in batch 3 a task waits until Spark has
started a copy of it. Then another query runs on what is left of the cluster, where one executor is five times slower.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pyspark
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession

import evenly
from evenly.spark.java import provide_java

ROWS, INSTANCES = 240, 6
WORKERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
KILLED, FAILED, COPIED = 1, 2, 3
PATIENCE_S = 120.0

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests


class Disturbed:
    """Costs 150 ms for one kind of rows in ten, and misbehaves once in each batch but the first."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.rows = 0

    def __call__(self, row):
        self.rows += 1
        print("a row was run")  # noqa: T201
        context = TaskContext.get()
        if row.part == KILLED and context.partitionId() >= len(WORKERS) and self.rows == 2 and self.first("killed"):
            # Not in the first wave of tasks: results that this executor holds already are lost, and what it has routed.
            executor = psutil.Process(os.getppid()).parent()
            worker = executor.parent()
            worker.send_signal(signal.SIGKILL)
            executor.send_signal(signal.SIGKILL)
            time.sleep(PATIENCE_S)
        if row.part == FAILED and context.partitionId() == 1 and self.rows == 3 and context.attemptNumber() < 2:
            self.first(f"failed {context.attemptNumber()}")
            raise RuntimeError("twice")
        if row.part == COPIED and context.partitionId() == 2 and self.rows == 1:
            self.first(f"copied {context.attemptNumber()}")
            until = time.time() + PATIENCE_S
            while context.attemptNumber() == 0 and not (self.folder / "copied 1").exists() and time.time() < until:
                time.sleep(0.15)
        if row.kind == 0:
            time.sleep(0.15)  # enough for dealing by cost to pay
        return row.id, row.part

    def first(self, name):
        """Whether this is the first to leave a mark."""
        try:
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def unequal(folder):
    """A function that is five times slower on the executor that called it first."""

    def call(row):
        mark, mine = Path(folder, "slow"), str(os.getppid())
        try:
            with mark.open("x") as file:
                file.write(mine)
        except FileExistsError:
            pass
        time.sleep(0.010 if mark.read_text() == mine else 0.002)
        return row.id

    return call


def start(folder, kind, *arguments):
    """A process of a standalone cluster; the log is where it says what it is bound to."""
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "192m"}
    with (folder / f"{kind}{len(arguments)}-{arguments[1]}.log").open("w") as log:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=folder)


def found(folder, pattern, text):
    """Waits until a log says something, and gives the rest of that line."""
    until = time.time() + PATIENCE_S
    while time.time() < until:
        for path in folder.glob(pattern):
            for line in path.read_text(errors="replace").splitlines():
                if text in line:
                    return line.split(text)[1].split()[0]
        time.sleep(0.1)
    raise TimeoutError(f"no {text!r} in {pattern}")


def main(folder: Path) -> None:
    provide_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    processes = [start(folder, "Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")]
    try:
        address = found(folder, "Master*.log", "Starting Spark master at ").rstrip()
        for host in WORKERS:
            options = ("--host", host, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "512m")
            processes.append(start(folder, "Worker", *options, "--work-dir", str(folder / "work"), address))
        for host in WORKERS:
            found(folder, f"Worker*{host}.log", "Successfully registered with master ")
        spark = session(address)
        spark.sparkContext.setLogLevel("OFF")
        try:
            told = disturbed(spark, folder)
            told.update(uneven(spark, folder))
        finally:
            spark.stop()
        printed = [path.read_text(errors="replace").count("a row was run") for path in folder.glob("work/*/*/stderr")]
        told["printed"] = sum(printed)
        sys.stdout.write(json.dumps(told) + "\n")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def session(address):
    settings = {
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.locality.wait": "0s",  # else Spark leaves slots idle for the host that the rows were dealt on
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "3s",
        "spark.sql.shuffle.partitions": "3",
    }
    builder = SparkSession.Builder().master(address).appName("clustered costs")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def stage(spark, folder, name, files, rows):
    """Files of rows, one kind in ten costly."""
    for part in range(files):
        numbers = spark.range(part * rows, (part + 1) * rows, 1, 1)
        numbers.selectExpr("id", f"{part} as part", "cast(id % 10 as int) as kind").write.mode("append").parquet(
            str(folder / name)
        )
    schema = "id long, part int, kind int"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))


def run(stream, function, schema, folder, name, **options):
    """What the sink got in each batch, and the watch."""
    written, watch = {}, evenly.CostWatch()

    def sink(results, batch_id):
        written[batch_id] = [row[0] for row in results.collect()]

    query = evenly.stream_apply_by_cost(
        stream,
        function,
        schema,
        cost_key="kind",
        sink=sink,
        checkpoint=folder / f"checkpoint {name}",
        trigger={"availableNow": True},
        watch=watch,
        **options,
    )
    query.awaitTermination()
    return written, watch


def disturbed(spark, folder):
    stream = stage(spark, folder, "in", 4, ROWS)
    written, watch = run(stream, Disturbed(folder), "id long, part int", folder, "in", instances=INSTANCES, routers=3)
    kinds = {row.id: row.kind for row in spark.range(10).selectExpr("xxhash64(cast(id as int)) as id", "id as kind").collect()}
    counts = []
    for batch in watch.batches:
        seen = Counter()
        for report in batch.reports:
            for identity, count in zip(report.ids.tolist(), report.counts.tolist(), strict=True):
                seen[kinds[identity]] += count
        counts.append([seen[kind] for kind in range(10)])
    return {
        "written": {number: sorted(ids) for number, ids in written.items()},
        "counts": counts,
        "rows": [sum(report.rows for report in batch.reports) for batch in watch.batches],
        "marks": sorted(path.name for path in folder.iterdir() if path.name.startswith(("killed", "failed", "copied"))),
        "executors": [len({report.executor for report in batch.reports}) for batch in watch.batches],
        "even": [batch.decision.even for batch in watch.batches],
    }


def uneven(spark, folder):
    stream = stage(spark, folder, "in2", 4, 300)
    _, watch = run(stream, unequal(folder), "id long", folder, "in2", instances=2)
    slow = (folder / "slow").read_text()
    shares = []
    for batch in watch.batches:
        rows = Counter()
        for report in batch.reports:
            rows[report.executor.split(":")[1] == slow] += report.rows
        shares.append(rows[True] / sum(rows.values()))
    return {"slow share": shares, "partitions": [len(batch.reports) for batch in watch.batches]}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
