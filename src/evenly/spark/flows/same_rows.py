"""Whether all that read a result of a dataflow have read the same rows.

What several edges read is computed once and persisted. But Spark computes again what is lost with an executor, and it may hold
a part twice, where a task and its speculative copy ended together. A function that gives other rows in its second run then
gives one sink other rows than another: of two edges whose conditions are each other's opposite a row takes both, or none.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from evenly.spark.costs.row_ids import content_hash
from evenly.spark.jvm.observed import is_observed

_LOW, _HIGH = "low", "high"
Digest = tuple[int, int]


class SameRows:
    """Gives rows to those that read all of them, and afterwards says which results were not the same to all.

    Rows are told apart by a sum of hashes, whatever their order and parts. An action that an observation is not told of (a sink
    that was not written) says nothing.
    """

    def __init__(self) -> None:
        self._read: dict[str, list[tuple[Observation, DataFrame]]] = {}

    def read(self, what: str, rows: DataFrame) -> DataFrame:
        """`rows` for one reader of the result `what`, whose first action reads all of them once."""
        observation = Observation()
        self._read.setdefault(what, []).append((observation, rows))
        # Two sums of 32 bits each: one of 64 would overflow, which is an error under ANSI.
        hashed = content_hash(rows)
        low, high = hashed.bitwiseAND(F.lit(2**32 - 1)), F.shiftrightunsigned(hashed, 32)
        return rows.observe(observation, F.sum(low).alias(_LOW), F.sum(high).alias(_HIGH))

    def differing(self) -> Sequence[str]:
        """The results of which two readers have read other rows. For when everything has been written."""
        return [what for what, readers in self._read.items() if len({found for it in readers if (found := _told(*it))}) > 1]


def _told(observation: Observation, rows: DataFrame) -> Digest | None:
    if not is_observed(observation, rows):
        return None
    told = observation.get
    return int(told.get(_LOW) or 0), int(told.get(_HIGH) or 0)
