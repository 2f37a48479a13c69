"""Whether slots lead where `murmur3.py` says on this Spark, asked once of an application, before its first placement.

A Spark that hashed in another way would still give the right groups, on instances as uneven as ever, without a word. So one row
of constants is hashed: for keys of several types the slot is computed that should lead to a hash of 0, 1, 2, …, by the
arithmetic that places rows, and Spark is asked for the hash of the key and the slot. The optimizer evaluates that in the
driver, so no job runs and no executor is waited for; later placements find the answer in 0.02 ms. It is the function `hash`
that is asked, not a shuffle: shuffles have the same hash of all keys that are taken here (strings with a collation are not).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from evenly.errors import UnsupportedSpark
from evenly.spark.features import Found
from evenly.spark.placing import murmur3
from evenly.spark.placing.placement import slot_of, turned

_LOG = logging.getLogger(__name__)

KEYS = {
    "int": "-7",
    "bigint": "1234567890123L",
    "boolean": "true",
    "double": "2.5D",
    "decimal": "12345678901234567890.5BD",
    "string": "'a key'",
    "binary": "X'0102030405'",
    "date": "date'2020-02-29'",
    "timestamp": "timestamp_micros(1582934400000001)",
    "array": "array(1L, null)",
    "struct": "named_struct('a', 1, 'b', 'x')",
    "null": "cast(null as string)",
    "two columns": "'a', 3",
}
"""A key of each kind, as SQL."""

_asking = threading.Lock()
_wrong: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()
"""For each application the kinds of keys whose slots do not lead where they should. Hashing is Spark's code and no setting of
a session, and every batch of a stream has a session of its own."""


def slots_lead(spark: Any, *, by: str) -> bool:
    """Whether slots lead to their instances; where they do not, that is logged for `by`, which is to place rows without."""
    wrong = _wrong_kinds(spark)
    if wrong:
        _LOG.warning("%s: %s. Rows are placed by Spark's hash of the key alone, as uneven as that is", by, _told(spark, wrong))
    return not wrong


def check_slots_lead(spark: Any, *, by: str) -> None:
    """Refuse a Spark on which slots do not lead to their instances, where there is no other way to place rows."""
    wrong = _wrong_kinds(spark)
    if wrong:
        raise UnsupportedSpark(
            f"{by}: {_told(spark, wrong)}. State of a stream would be on any instance: group by the key without Evenly"
        )


def disagreeing(hashes: Sequence[int]) -> tuple[str, ...]:
    """The kinds of `KEYS` whose key and slot did not hash to 0, 1, 2, …, in the order of `KEYS`."""
    return tuple(kind for wanted, (kind, found) in enumerate(zip(KEYS, hashes, strict=True)) if found != wanted)


def _wrong_kinds(spark: Any) -> tuple[str, ...]:
    found = Found.of(spark)
    application = spark if found.connect else spark.sparkContext
    with _asking:
        if application not in _wrong:
            _wrong[application] = disagreeing(_hashes(spark))
            _LOG.debug("%s hashes as expected: %s", found, not _wrong[application])
        return _wrong[application]


def _hashes(spark: Any) -> list[int]:
    row = spark.sql(_question()).collect()[0]
    return list(row[0])


def _question() -> str:
    """One text, so that asking takes a handful of calls of the JVM (through Spark Connect one request)."""
    keys, constants = KEYS.values(), murmur3.partition_constants(len(KEYS)).tolist()
    mixed = ", ".join(f"({constant}) ^ hash({key})" for constant, key in zip(constants, keys, strict=True))
    slots = f"transform(transform(array({mixed}), it -> {turned('it')}), it -> {slot_of('it')})"
    hashes = ", ".join(f"hash({key}, slots[{at}])" for at, key in enumerate(keys))
    # Over a row, for without one the optimizer would leave `transform` to a job.
    return f"SELECT array({hashes}) FROM (SELECT {slots} AS slots FROM VALUES (0))"  # noqa: S608 - all of it is ours


def _told(spark: Any, wrong: tuple[str, ...]) -> str:
    return f"{Found.of(spark)} hashes keys of {', '.join(wrong)} in another way than this release of Evenly expects"
