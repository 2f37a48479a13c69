"""A Spark session on this machine: for a first try, demonstrations, benchmarks and tests."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from evenly.errors import InvalidParameter
from evenly.spark.java import provide_java

_SIZE = re.compile(r"[1-9]\d*[kmgtKMGT]")


def local_session(
    name: str = "evenly", *, slots: int | None = None, memory: str = "2g", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Spark on this machine alone, with `slots` tasks at a time (by default as many as there are cores), no web UI, quiet logs.

    Finds a Java as `provide_java` does, and runs your functions with the Python that this is called from, whether or not its
    environment is activated. `memory` is for Spark itself; `settings` are more of Spark's own, which go before these.

        spark = evenly.local_session(slots=4, settings={"spark.sql.session.timeZone": "UTC"})

    Where this process has a session already, that one is returned as it is, if it has as many slots and these settings.
    """
    wanted = os.cpu_count() or 1 if slots is None else slots
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        raise InvalidParameter(f"slots must be a whole number of tasks at a time, at least 1, got {slots!r}")
    if not isinstance(memory, str) or _SIZE.fullmatch(memory) is None:
        raise InvalidParameter(f"memory must be a size as Java takes it, such as '512m' or '2g', got {memory!r}")
    given = {str(key): _told(value) for key, value in (settings or {}).items()}
    master = given.get("spark.master", f"local[{wanted}]")
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - nothing public tells of it without making one
        # A session is active in the thread that made it; others get the one of the application.
        running = SparkSession.getActiveSession() or SparkSession.Builder().getOrCreate()
        return _the_one_that_runs(running, {**given, "spark.master": master})
    provide_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with as_file(files("evenly.spark") / "log4j2.properties") as logging:
        builder = (
            SparkSession.Builder()
            .master(master)
            .appName(name)
            .config("spark.driver.memory", memory)
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={Path(logging).resolve().as_uri()}")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", str(wanted))
        )
        for key, value in given.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def cluster_session(name: str, settings: Mapping[str, str]) -> SparkSession:
    """A session on the cluster that `spark.master` of the settings names; all else is as Spark has it there."""
    provide_java()
    builder = SparkSession.Builder().appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _told(value: object) -> str:
    """A setting as Spark keeps it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _the_one_that_runs(running: SparkSession, wanted: Mapping[str, str]) -> SparkSession:
    for key, value in wanted.items():
        there = running.conf.get(key, None)
        if there != value:
            raise InvalidParameter(
                f"this process has a Spark session already, with {key} = {there} and not {value}: use it, or stop it before"
            )
    return running
