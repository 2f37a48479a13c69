"""Which Spark has what: the one table that every gate in this package asks.

Versions are those in which Spark's own documentation or source has a thing first. A gate either has another way to go on
(`has`) or refuses with one error that names what is missing, the Spark that has it and the one found (`require`).

With Spark Connect the client and the server may be of different releases: the earlier one counts, for both must know a thing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

import pyspark
from pyspark.sql import SparkSession

from evenly.errors import UnsupportedSpark

Release = tuple[int, ...]
"""The first two numbers of a version, (4, 1) for 4.1.2: what Spark adds, it adds with these."""


@dataclass(frozen=True)
class Needs:
    """What a feature is called in messages, the first release that has it, and whether only classic sessions do.

    Where something is an internal of Spark, which may change with any release, `tested` are those that it was tried with.
    """

    what: str
    since: Release = (3, 5)
    classic: bool = False
    tested: tuple[Release, ...] = ()


class Feature(Enum):
    """Everything that not every Spark has, and that something here asks for."""

    SCALAR_SUBQUERY = Needs("DataFrame.scalar", since=(4, 0))
    TO_ARROW = Needs("DataFrame.toArrow", since=(4, 0))
    REPARTITION_BY_ID = Needs("DataFrame.repartitionById", since=(4, 1))
    ARROW_UDF = Needs("functions.arrow_udf", since=(4, 1))
    TOP_K = Needs("the aggregate approx_top_k", since=(4, 1))
    SUMS_BY_KEY = Needs("the aggregate tuple_sketch_agg_double", since=(4, 2))
    TRANSFORM_WITH_STATE = Needs("transformWithState over rows", since=(4, 1))
    PACED_SOURCE = Needs("sources in Python that a query paces", since=(4, 2), classic=True)
    # Spark Connect shows neither plans nor files, and looks at an expression only when something runs.
    FOLDERS = Needs("folders through the driver's Java", classic=True)
    PLANS = Needs("plans in the driver's Java", classic=True)
    ANALYSIS_AT_ONCE = Needs("analysis of an expression when it is written", classic=True)
    STATE_READER = Needs("the data source 'statestore'", since=(4, 0), classic=True)
    HELD_ARRAYS = Needs("array constants as they lie in a row", since=(4, 0), classic=True, tested=((4, 3),))
    STATE_REWRITER = Needs("Spark's internal StateRewriter", since=(4, 2), classic=True, tested=((4, 3),))


@dataclass(frozen=True)
class Found:
    """A Spark as it was found: its version, and whether through Spark Connect."""

    version: str
    connect: bool = False

    @classmethod
    def of(cls, spark: Any) -> Found:
        """That of a session: the server's version, or the client's where that is earlier. It is asked once."""
        if spark not in _known:
            told = (str(spark.version), pyspark.__version__)
            version = min(filter(release, told), key=release, default=told[0])
            _known[spark] = cls(version, not isinstance(spark, SparkSession))
        return _known[spark]

    def __str__(self) -> str:
        return f"Spark {self.version} through Spark Connect" if self.connect else f"Spark {self.version}"


_known: WeakKeyDictionary[Any, Found] = WeakKeyDictionary()


def release(version: str) -> Release:
    """The release of a version such as 4.1.0, 4.2.0-preview3 or 3.5.1-amzn-0; () for a text that is none."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return tuple(map(int, numbers.groups())) if numbers else ()


def missing(feature: Feature, found: Found) -> str | None:
    """What a Spark lacks of a feature, in words; None if it has it. Whether it was `tested` there is another question."""
    needs = feature.value
    if release(found.version) >= needs.since and not (needs.classic and found.connect):
        return None
    kind = "a classic session of Spark" if needs.classic else "Spark"
    return f"{needs.what}, which {kind} {_told(needs.since)} or later has; this is {found}"


def untested(feature: Feature, found: Found) -> str | None:
    """What is untried about a feature on a Spark, in words; None if it was tested there."""
    tested = feature.value.tested
    if not tested or release(found.version) in tested:
        return None
    return f"{feature.value.what}, which was tested with Spark {', '.join(map(_told, tested))} alone; this is {found}"


def has(spark: Any, feature: Feature) -> bool:
    """Whether the Spark of a session has a feature, for a gate that has another way."""
    return missing(feature, Found.of(spark)) is None


def has_tested(spark: Any, feature: Feature) -> bool:
    """Whether it has the feature and is of a release that it was tested with, for a gate that has another way."""
    return has(spark, feature) and untested(feature, Found.of(spark)) is None


def require(spark: Any, feature: Feature, *, by: str, remedy: str) -> None:
    """Refuse the Spark of a session that lacks a feature which `by` cannot do without."""
    why = missing(feature, Found.of(spark))
    if why is not None:
        raise UnsupportedSpark(f"{by} needs {why}. {remedy}")


def _told(at: Release) -> str:
    return ".".join(map(str, at))
