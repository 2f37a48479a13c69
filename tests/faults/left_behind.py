"""What must not be left behind: persisted rows, queries, threads, processes, shared memory, temporary files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark.sql import SparkSession

from faults.cluster import TOKEN
from faults.own_threads import evenly_threads

_PATIENCE_S = 6.0
_OF_SPARK = (
    "spark-",
    "blockmgr-",
    "pyspark-",
    "hsperfdata",
    "artifacts",
    "StateStore-",
    "lib",
    "jna",
    "zstd",
    "snappy",
    "lz4",
    "temporary",
)


def of_driver(spark: SparkSession) -> str:
    """What is still there in the driver, and in the Python workers, after a while."""

    def found() -> str:
        persisted = spark.sparkContext._jsc.getPersistentRDDs().size()
        if persisted:
            return f"{persisted} persisted RDDs"
        active = spark._jsparkSession.streams().active()
        if len(active):
            return f"{len(active)} streaming queries"
        threads = evenly_threads()
        return f"threads in the driver: {threads}" if threads else ""

    return patiently(found) or patiently(lambda: _of_workers(spark))


def patiently(found: Callable[[], str]) -> str:
    """What is still found when nothing more can be expected to go away."""
    until = time.monotonic() + _PATIENCE_S
    while (what := found()) and time.monotonic() < until:
        time.sleep(0.1)
    return what


def _of_workers(spark: SparkSession) -> str:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        from faults.own_threads import evenly_threads

        yield pa.RecordBatch.from_pydict({"thread": pa.array(evenly_threads(), pa.string())})

    found = {row.thread for row in spark.range(0, 3, 1, 3).mapInArrow(look, "thread string").collect()}
    return f"threads in Python workers: {sorted(found)}" if found else ""


def of_machine(folder: Path, link: str, roots: list[int]) -> str:
    """Processes that nobody owns any more, the link's memory, temporary files that are not Spark's."""

    def found() -> str:
        shared = [str(path) for path in Path("/dev/shm").glob(f"*{link}*")] if Path("/dev/shm").is_dir() else []
        if shared:
            return f"shared memory {shared}"
        files = [path.name for path in (folder / "tmp").iterdir() if not path.name.startswith(_OF_SPARK)]
        if files:
            return f"temporary files {sorted(files)[:5]}"
        orphans = _orphans(str(folder), roots)
        return f"processes {orphans}" if orphans else ""

    return patiently(found)


def _orphans(token: str, roots: list[int]) -> list[str]:
    told = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(TOKEN) != token or process.status() == psutil.STATUS_ZOMBIE:
                continue
            line = {process.pid, *(parent.pid for parent in process.parents())}
            if not line & {*roots, os.getpid()}:
                told.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
        except psutil.Error:
            continue
    return told
