"""The program that runs schedules on a cluster: one JSON object a line comes in, one goes out. It may be killed at any time.

python -m faults.driver MASTER CORES SPECULATION FOLDER
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import quick_java
from evenly.errors import EvenlyError
from faults import left_behind
from faults.cluster import DAEMON, environment
from faults.operations import OPERATIONS
from faults.schedule import Schedule, Settings
from faults.work import Restart, Rows, Work

_PROVIDER = "org.apache.spark.sql.execution.streaming.state.{}StateStoreProvider"
MAINTENANCE = "1s"
_NOTICED = ("indeterminate output", "indeterminate results")
"""What Spark says that has noticed that what it computed again is not what was lost, and cannot take results back."""


def session(master: str, cores: str, speculation: str, folder: Path) -> SparkSession:
    quick_java.look_up_names_once()
    shared = environment(folder)
    java = f"-Djava.io.tmpdir={folder / 'tmp'}"
    settings = {
        "spark.cores.max": cores,
        "spark.executor.cores": "1",
        "spark.executor.memory": "600m",
        "spark.driver.memory": "800m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
        "spark.local.dir": str(folder / "tmp"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.locality.wait": "0s",
        "spark.task.maxFailures": "8",
        "spark.scheduler.minRegisteredResourcesRatio": "0.3",
        "spark.speculation": speculation,
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.sql.streaming.stateStore.maintenanceInterval": MAINTENANCE,
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    }
    if DAEMON in os.environ:
        settings["spark.python.daemon.module"] = os.environ[DAEMON]
    builder = SparkSession.Builder().master(master).appName("faults")
    for name, value in settings.items():
        builder = builder.config(name, value)
    for name in ("PYTHONPATH", "PYTHONWARNINGS", "TMPDIR", "EVENLY_FAULTS_CAMPAIGN"):
        builder = builder.config(f"spark.executorEnv.{name}", shared[name])
    return builder.getOrCreate()


def prepared(root: SparkSession, settings: Settings) -> SparkSession:
    """A session of its own with the settings of a schedule."""
    spark = root.newSession()
    for name, value in {
        "spark.sql.adaptive.enabled": settings.adaptive,
        "spark.sql.ansi.enabled": settings.ansi,
        "spark.sql.session.timeZone": settings.zone,
        "spark.sql.execution.arrow.maxRecordsPerBatch": settings.arrow_rows,
        "spark.sql.shuffle.partitions": settings.partitions,
        "spark.sql.streaming.stateStore.providerClass": _PROVIDER.format(
            "HDFSBacked" if settings.store == "hdfs" else "RocksDB"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": settings.store == "changelog",
    }.items():
        spark.conf.set(name, str(value).lower() if isinstance(value, bool) else str(value))
    return spark


def ran(root: SparkSession, told: dict[str, Any]) -> dict[str, Any]:
    """The outcome of one schedule, as far as the driver can see it."""
    schedule, folder = Schedule.from_json(told["schedule"]), Path(told["folder"])
    work = Work(prepared(root, schedule.settings), schedule, folder, told["receiver"], told["link"])
    operation = OPERATIONS[schedule.operation]
    expected_at = folder / "expected.json"
    if not expected_at.exists():
        work.keep("expected.json", operation.only(operation.expected(work)))
    outcome: dict[str, Any] = {"verdict": "right"}
    try:
        found = operation.run(work)
    except Restart as restart:
        return {"restart": restart.cores}
    except EvenlyError as error:
        refused = schedule.options.other_type and schedule.operation == "stream_join"
        outcome = {"verdict": "refused" if refused else "error", "why": f"{type(error).__name__}: {error}"[:1500]}
    except Exception as error:  # noqa: BLE001 - an error is an outcome
        noticed = schedule.shape.twice != "same" and any(said in str(error) for said in _NOTICED)
        outcome = {
            "verdict": "refused" if noticed else "error",
            "why": f"{type(error).__name__}: {error}"[:1500],
            "trace": traceback.format_exc()[-3000:],
        }
    else:
        if schedule.operation not in {"send", "stream_send"}:
            work.keep("found.json", found)
            difference = differs(json.loads(expected_at.read_text()), json.loads((folder / "found.json").read_text()))
            if difference:
                outcome = {"verdict": "wrong", "why": difference}
    left = left_behind.of_driver(root)
    if left and outcome["verdict"] in {"right", "refused"}:
        outcome = {"verdict": "left behind", "why": left}
    return outcome


def differs(expected: Rows, found: Rows) -> str:
    """What is too much and what is missing, "" if nothing is."""
    wanted, got = (Counter(json.dumps(row) for row in rows) for rows in (expected, found))
    missing, extra = wanted - got, got - wanted
    if not missing and not extra:
        return ""
    lost, much = (", ".join(list(some)[:3]) for some in (missing, extra))
    return (
        f"{len(expected)} rows expected, {len(found)} found; {missing.total()} missing ({lost}), "
        f"{extra.total()} too many ({much})"
    )


def main(master: str, cores: str, speculation: str, folder: str) -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    said, sys.stdout = sys.stdout, sys.stderr
    root = session(master, cores, speculation, Path(folder))
    root.sparkContext.setLogLevel("ERROR")
    said.write(json.dumps({"ready": root.sparkContext.applicationId}) + "\n")
    said.flush()
    for line in sys.stdin:
        told = json.loads(line)
        try:
            outcome = ran(root, told)
        except Exception:  # noqa: BLE001 - the campaign must go on
            outcome = {"verdict": "error", "why": "in the campaign itself", "trace": traceback.format_exc()[-3000:]}
        for query in root._jsparkSession.streams().active():
            query.stop()
        root.catalog.clearCache()
        said.write(json.dumps(outcome) + "\n")
        said.flush()
    root.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
