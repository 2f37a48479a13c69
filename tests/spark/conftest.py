"""One Spark session for all tests that need one."""

from collections.abc import Iterator

import pytest
from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.sql import SparkSession

from evenly.spark.session import local_session

PARTITIONS = 8


def look_up_once(kind):
    """Keep what a name of Java stands for: to find it Java looks into each of Spark's 250 jars, a sixth of all tests' time."""
    ask = kind.__getattr__

    def found(parent, name):
        there = ask(parent, name)
        if isinstance(there, JavaClass) or name.islower():  # what looks like a package may be a class not yet imported
            parent.__dict__[name] = there
        return there

    kind.__getattr__ = found


look_up_once(JVMView)
look_up_once(JavaPackage)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_session(
        "evenly tests",
        slots=2,
        spark__sql__shuffle__partitions=str(PARTITIONS),
        spark__sql__warehouse__dir=str(tmp_path_factory.mktemp("warehouse")),
        spark__sql__session__timeZone="UTC",
    )
    yield session
    session.stop()
