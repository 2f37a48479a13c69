"""A local Spark session for demonstrations, benchmarks and tests."""

from __future__ import annotations

import os
import sys
from importlib.resources import as_file, files

from pyspark.sql import SparkSession

from evenly.spark.java import provide_java


def local_session(name: str, *, slots: int, memory: str = "2g", **settings: str) -> SparkSession:
    """Spark on this machine alone, with `slots` tasks at a time, no web UI, and quiet logs.

    `settings` are Spark settings with `__` for the dots: `spark__sql__adaptive__enabled="false"`.
    """
    provide_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with as_file(files("evenly.spark") / "log4j2.properties") as logging:
        builder = (
            SparkSession.Builder()
            .master(f"local[{slots}]")
            .appName(name)
            .config("spark.driver.memory", memory)
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{logging}")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", str(slots))
        )
        for key, value in settings.items():
            builder = builder.config(key.replace("__", "."), value)
        return builder.getOrCreate()
