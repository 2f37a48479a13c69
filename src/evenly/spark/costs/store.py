"""What a streaming query knows of costs, in the folder `evenly/costs` of its checkpoint.

    <checkpoint>/evenly/costs/17.json   the scheduler as it was after batch 17: its model, the speeds of executors, its state

Of an operator of a dataflow it is in a folder of its name there.

A file is written whole, before its batch is committed. A batch that is run again reads the newest file BELOW its own number, so
whatever an earlier try of it has measured and written counts for nothing: no batch is counted twice.
"""

from __future__ import annotations

from urllib.parse import quote

from pyspark.sql import SparkSession

from evenly.costs.model import CostModel
from evenly.costs.scheduler import CostScheduler
from evenly.errors import DamagedData, InvalidCheckpoint
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.java_errors import Py4JJavaError

_SUFFIX = ".json"
_KEPT = 8


class CostStore:
    """Reads and writes the scheduler of one query, batch by batch."""

    def __init__(self, spark: SparkSession, checkpoint: str, of: str = "") -> None:
        """For the query of a checkpoint, or `of` one of its operators."""
        folder = Folder(spark, checkpoint).child("evenly").child("costs")
        self._folder = folder.child(quote(of, safe="")) if of else folder
        self._written: list[int] | None = None
        """The batches that there is a file of, since one was saved here: to list a folder is some calls for each file."""

    def before(self, batch_id: int) -> CostScheduler | None:
        """The scheduler as the last batch below `batch_id` left it; None if there is none."""
        older = [number for number in self._numbers() if number < batch_id]
        return self._read(older[-1]) if older else None

    def newest(self) -> CostScheduler | None:
        """The scheduler as the last batch left it that has been written."""
        numbers = self._numbers()
        return self._read(numbers[-1]) if numbers else None

    def save(self, batch_id: int, scheduler: CostScheduler) -> None:
        """Write the scheduler as `batch_id` leaves it, and remove what no batch can ask for any more."""
        self._folder.write(f"{batch_id}{_SUFFIX}", scheduler.to_json())
        known = self._numbers() if self._written is None else [*self._written, batch_id]
        older = sorted({number for number in known if number < batch_id})
        for number in older[:-_KEPT]:
            self._folder.remove(f"{number}{_SUFFIX}")
        self._written = [*older[-_KEPT:], batch_id]

    def _numbers(self) -> list[int]:
        names = [name.removesuffix(_SUFFIX) for name in self._folder.names() if name.endswith(_SUFFIX)]
        return sorted(int(name) for name in names if name.isdigit())

    def _read(self, number: int) -> CostScheduler:
        source = f"{self._folder.path}/{number}{_SUFFIX}"
        try:
            return CostScheduler.from_json(self._folder.read(f"{number}{_SUFFIX}", checked_by_caller=True), source=source)
        except Py4JJavaError as error:
            raise DamagedData(f"{source} cannot be read: {error.java_exception.toString()}") from error
        except DamagedData as error:
            raise DamagedData(f"{error}. Without this file the query goes on with an earlier one, or learns anew") from error


def saved_costs(spark: SparkSession, checkpoint: str) -> CostModel:
    """What the query of a checkpoint has learnt of costs, for `costs=` of another."""
    found = CostStore(spark, checkpoint).newest()
    if found is None:
        raise InvalidCheckpoint(
            f"there are no costs in {checkpoint}: it is not the checkpoint of stream_apply_by_cost, or no batch ended"
        )
    return found.model
