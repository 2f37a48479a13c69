"""Where a worker finds the columns of what was sent to it; `spark/keyed/layout.py` lays them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROWS_A_RESULT = 10_000
"""Results of groups are put together until there are so many rows."""


@dataclass(frozen=True)
class Layout:
    """Positions of the columns that a worker gets.

    The first `width` are the user's columns, those up to `carried` are keys that are no column of their own. `flags` are
    pairs of a carried column and the column that says where it was null. `keys` are where the key's values
    are; `compared` are the columns in which a change means a new group. `names` are those of the carried columns: on the way
    all columns have plain names, because PySpark takes a dot in a name for a struct's field. `id` is where the key's 64-bit id
    is, if it is sent (else -1).
    """

    width: int
    carried: int
    flags: tuple[tuple[int, int], ...]
    keys: tuple[int, ...]
    compared: tuple[int, ...]
    names: tuple[str, ...]
    id: int = -1


@dataclass(frozen=True)
class Timed:
    """That groups are timed: what the column of reports is called, what a report's row has in all others (by name; null where
    that may be), and how many groups it tells one by one."""

    report: str
    others: Mapping[str, Any]
    most_groups: int
