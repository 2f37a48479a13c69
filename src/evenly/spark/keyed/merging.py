"""Aggregates of a user's own: what a caller gives. What workers do with it is in `worker/groups/merging`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql.types import StructType

from evenly.errors import InvalidParameter
from evenly.spark.keyed.functions import check_no_iterator


@dataclass(frozen=True)
class Merging:
    """An aggregate of your own: `merge([partial(rows), partial(other rows), ...])` is the result for all those rows.

        total = evenly.Merging(lambda rows: rows.cents.sum(), lambda sums: pd.DataFrame({"cents": [sum(sums)]}), "cents long")
        evenly.aggregate_by_key(df, total, key="user", instances=64)

    - `partial(rows)` gets rows of one key as a pandas DataFrame with the columns of the input, at least one row, as
      `applyInPandas` would give them, and returns anything that can be pickled: a frame, a tuple, a sketch.
    - `merge(partials)` gets the list of what `partial` returned for one key, one or more, in no promised order, and returns
      a pandas DataFrame with the columns of `schema`, without the key columns: those are added.

    How the rows of a key are cut must not matter for the result. That is what lets a hot key run on several instances.
    `merge=None` says that the function does not merge: `partial` returns the result's frame itself, and a key that
    is too hot for one instance is an error.
    """

    partial: Callable[[pd.DataFrame], Any]
    merge: Callable[[list[Any]], pd.DataFrame] | None
    schema: str | StructType

    def __post_init__(self) -> None:
        for name, function in (("partial", self.partial), ("merge", self.merge)):
            if name == "merge" and function is None:
                continue
            if not callable(function):
                raise InvalidParameter(f"{name} must be a function, got {function!r}")
            check_no_iterator(function, f"{name} of a Merging")
