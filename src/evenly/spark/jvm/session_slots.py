"""How many tasks of a session can run at once: what its executors have room for now, and what its settings promise."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from evenly.instances import Slots
from evenly.spark.features import Feature, has

_MANY = 1 << 20


def session_slots(spark: Any) -> Slots:
    """The slots of a session.

    Spark Connect has no way to ask what runs: there settings are asked, and where they say nothing a job of a few
    milliseconds, whose number of tasks is Spark's default parallelism.
    """
    found = _told(spark)
    if found is not None:
        return found
    number = int(spark.sparkContext.defaultParallelism) if has(spark, Feature.PLANS) else _default_parallelism(spark)
    return Slots(number, f"Spark's default parallelism is {number:,}")


def known_slots(spark: Any) -> int | None:
    """The same, but nothing is run to find out: None where neither executors nor settings say it."""
    found = _told(spark)
    return None if found is None else found.number


def _told(spark: Any) -> Slots | None:
    def setting(name: str) -> str | None:
        try:
            # Asked for with a default of ours, even none, a setting that nobody has set is that, and not Spark's own default.
            value = spark.conf.get(name) if name.startswith("spark.sql.") else spark.conf.get(name, None)
        except PySparkException:  # a server may hide its settings
            return None
        return None if value is None else str(value)

    return Slots.of(setting, _running(spark) if has(spark, Feature.PLANS) else None)


def _running(spark: Any) -> int | None:
    """The tasks that the executors which are there can run at once, as Spark's scheduler counts them."""
    context = spark.sparkContext._jsc.sc()
    try:
        return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
    except (Py4JError, AttributeError):  # not what a Spark promises to have
        return None


def _default_parallelism(spark: Any) -> int:
    last = spark.range(_MANY).select(F.spark_partition_id().alias("at")).select(F.max("at")).first()
    return 1 + int(last[0])
