"""A Spark session on a release before 4.1, where `repartitionById` is missing."""

import pytest
from pyspark.sql import DataFrame

from evenly.spark.session import local_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    if hasattr(DataFrame, "repartitionById"):
        pytest.skip("this Spark is not an old one: run make test-old-spark")
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    session = local_session("evenly on an old Spark", slots=2, settings={"spark.sql.warehouse.dir": warehouse})
    session.conf.set("spark.sql.shuffle.partitions", "4")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    yield session
    session.stop()
