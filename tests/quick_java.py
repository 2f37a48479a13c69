"""Java as tests want it: processes that live for seconds, many of them, on few cores.

    python tests/quick_java.py FILE

writes an archive of the classes that Spark loads, once for an environment (`make test` does). A Java process that starts from
it takes about half the processor time. Java itself checks that an archive fits, and does without one that does not.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
# Machine code is not worth optimising: two cores compile it for longer than they run it. By default there is little room for
# such code, which a session of many tests fills. Hadoop renames and creates local files with a process each.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"


def hurry() -> None:
    """Let every Java process that is started from here, by whomever, start quickly."""
    archived = f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else ""
    os.environ.setdefault("JDK_JAVA_OPTIONS", _OPTIONS + archived)


def look_up_names_once() -> None:
    """Keep what a name of Java stands for: Java looks for it in 250 jars, a sixth of all its time in tests."""
    from py4j.java_gateway import JavaClass, JavaPackage, JVMView

    for kind in (JVMView, JavaPackage):

        def found(parent, name, ask=kind.__getattr__):
            there = ask(parent, name)
            if isinstance(there, JavaClass) or name.islower():  # what looks like a package may be a class not yet imported
                parent.__dict__[name] = there
            return there

        kind.__getattr__ = found


def archive(path: Path) -> None:
    """What a session loads that does a little of everything."""
    from evenly.spark.session import local_session

    unfinished = path.with_suffix(".unfinished")
    os.environ["JDK_JAVA_OPTIONS"] = _OPTIONS
    # For the process of Spark alone: the one that finds out how to start it must not write the file.
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    spark = local_session("classes", slots=2, settings={"spark.sql.streaming.stateStore.providerClass": _ROCKSDB})
    folder = tempfile.mkdtemp()
    try:
        rows = spark.range(100).selectExpr(
            "id", "id % 7 as key", "cast(id as string) as text", "timestamp_seconds(id) as moment"
        )
        rows.write.parquet(f"{folder}/rows")
        rows = spark.read.parquet(f"{folder}/rows")
        rows.groupBy("key").applyInPandas(lambda group: group[["key"]], "key long").collect()
        rows.mapInArrow(lambda batches: batches, rows.schema).groupBy("key").agg({"id": "sum"}).toPandas()
        rows.join(rows.selectExpr("key", "id as other"), "key").orderBy("id").write.json(f"{folder}/joined")
        stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/rows").withWatermark("moment", "1 minute")
        counts = stream.groupBy("key", "moment").count().writeStream.outputMode("update")
        written = counts.foreachBatch(lambda batch, number: batch.write.parquet(f"{folder}/{number}"))
        started = written.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
        started.awaitTermination()
        java = spark.sparkContext._gateway.proc
        spark.stop()
        spark.sparkContext._gateway.shutdown()
        java.stdin.close()
        java.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    unfinished.replace(path)


_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

if __name__ == "__main__":
    archive(Path(sys.argv[1]))
