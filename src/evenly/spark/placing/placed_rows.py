"""How many rows every partition of a placed DataFrame really holds."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenly.checks import checked_instances
from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.measures.load import imbalance_pct
from evenly.notebook import shown
from evenly.spark.frames import check_frame
from evenly.spark.placing.own_columns import own_name
from evenly.spark.sums import summed

_AT = own_name("partition")


@dataclass(frozen=True)
class PlacedRows:
    """The rows of every instance, in the order of their partitions."""

    rows: tuple[int, ...]

    @property
    def imbalance_pct(self) -> float:
        """λ of these rows: how much more than the mean the fullest instance has."""
        return imbalance_pct(self.rows)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        facts = {"rows": f"{sum(self.rows):,}", "λ": f"{self.imbalance_pct:.1f} %"}
        return shown(f"Rows of {len(self.rows)} instances", facts, {"rows": self.rows})


def placed_rows(df: DataFrame, *, instances: int) -> PlacedRows:
    """Count the rows of every partition of a DataFrame that `by_key` has placed: what a mapping promised, as it came out.

        evenly.placed_rows(placed, instances=64).imbalance_pct

    Runs one job, which computes `df` (cache it if it is used again) and sends a number for each partition, no rows. Of a
    result over placed rows it counts what the last stage puts out.
    """
    check_frame(df)
    instances = checked_instances(instances)
    if df.isStreaming:
        raise StreamingMismatch("placed_rows counts a batch: a streaming query tells what its partitions read in query.batches")
    counted = summed(df.select(F.spark_partition_id().alias(_AT)), [_AT], [F.count(F.lit(1))]).collect()
    rows = {int(at): int(number) for at, number in counted}
    if rows and max(rows) >= instances:
        raise InvalidParameter(
            f"instances={instances}, and there are rows in partition {max(rows)}, counted from 0: give the number they were "
            "placed over"
        )
    return PlacedRows(tuple(rows.get(at, 0) for at in range(instances)))
