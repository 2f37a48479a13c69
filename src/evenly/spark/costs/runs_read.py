"""Which run of each part of a persisted result an action has read.

Spark may hold a part twice: a task and its speculative copy that end together both leave what they made where they ran, and an
action reads either. What is persisted may be lost besides, and computed again. A row may fail in one run and not in the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from evenly.costs.report import InstanceReport
from evenly.spark.jvm.observed import is_observed
from evenly.worker.executing import REPORT

_RUN = "__evenly_run"


class RunsRead:
    """`rows` are those of a result with reports; when an action has read them, `told` says of which runs they were.

    It is told by the first action, of the parts that it has read to their end.
    """

    def __init__(self, ran: DataFrame) -> None:
        self._ran, self._observation = ran, Observation()
        run = F.expr(f"if({REPORT} is null, null, concat(spark_partition_id(), ' ', sha2({REPORT}, 256)))")
        told = F.expr(f"collect_list({_RUN}) as {_RUN}")
        self.rows = ran.withColumn(_RUN, run).observe(self._observation, told).drop(_RUN)

    def told(self) -> dict[int, str]:
        """The run that was read of each part; none where no action was."""
        if not is_observed(self._observation, self._ran):
            return {}
        return {int(part): run for part, run in (one.split() for one in self._observation.get[_RUN])}


def runs_of(reports: Iterable[InstanceReport]) -> dict[str, InstanceReport]:
    """Reports by the run that each is of, as `RunsRead` tells it."""
    return {sha256(report.to_bytes()).hexdigest(): report for report in reports}


def may_contradict(first: Mapping[int, str], second: Mapping[int, str], known: Mapping[str, InstanceReport]) -> bool:
    """Whether two actions have read other runs of a part, and rows of it failed in one of them, as far as is known."""
    return any(
        first[part] != second[part] and any(run not in known or known[run].errors > 0 for run in (first[part], second[part]))
        for part in first.keys() & second.keys()
    )
