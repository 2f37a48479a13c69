"""Whether what was made of a DataFrame reads that more than once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame


def reads_again(made: DataFrame, given: DataFrame) -> bool:
    """Whether `made` reads what `given` reads more often than `given` itself: then its rows are computed as often."""
    before = list(_leaves(given._jdf.queryExecution().analyzed()))
    after = list(_leaves(made._jdf.queryExecution().analyzed()))
    return len(after) > len(before) and any(_alike(leaf, after) > _alike(leaf, before) for leaf in before)


def _leaves(plan: Any) -> Iterator[Any]:
    """What a plan reads, in its subqueries too."""
    for part in (plan, *_all(plan.subqueriesAll())):
        yield from _all(part.collectLeaves())


def _all(found: Any) -> Iterator[Any]:
    """The elements of a Seq of Scala's."""
    return (found.apply(at) for at in range(found.length()))


def _alike(leaf: Any, leaves: list[Any]) -> int:
    return sum(bool(leaf.sameResult(other)) for other in leaves)
