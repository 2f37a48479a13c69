"""One Spark session for all tests that need one."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from visiting import ROCKSDB, Visits

import quick_java
import quick_python
from evenly.spark.session import local_session

PARTITIONS = 8

# On local files Spark's default starts three processes for each file of a checkpoint, a fifth of the time of these tests.
# Drivers that are killed and the campaign of faults run with the default.
IN_PROCESS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# Every name of Java that a test uses is looked up once.
quick_java.look_up_names_once()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as environment:
        quick_python.find_daemon(environment)
        session = local_session(
            "evenly tests",
            slots=2,
            settings={
                "spark.sql.shuffle.partitions": str(PARTITIONS),
                "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
                "spark.sql.session.timeZone": "UTC",
                "spark.sql.streaming.checkpointFileManagerClass": IN_PROCESS,
                "spark.python.daemon.module": quick_python.DAEMON,
            },
        )
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def no_ended_queries(request):
    """Spark remembers queries that ended until it is told not to: those of another test are not this one's."""
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark").streams.resetTerminated()


@pytest.fixture
def rocksdb(spark):
    """State that can be moved."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    yield
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


@pytest.fixture
def visits(spark, tmp_path):
    return Visits(spark, tmp_path)
