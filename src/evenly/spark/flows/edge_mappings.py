"""Mappings of the edges of a stream that are grouped by key and lead to no state.

Any mapping puts all rows of a key on one instance, so an old one is never wrong, only less even. To learn one reads the rows of
the batch once more, which most batches can do without: it is learnt from the first batch, again after 1, 2, 4, 8 and 16
batches, and then every 16.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from evenly.dataflow.graph import Edge
from evenly.dataflow.tuning import Way
from evenly.keys.mapping import Mapping
from evenly.spark.keyed.learning import learn_mapping

_LONGEST = 16


@dataclass
class _Learnt:
    mapping: Mapping
    age: int = 0
    """Batches that it has placed, this one included."""
    lasts: int = 1


class EdgeMappings:
    """What a query has learnt of its edges by key; `begin` tells it that a batch begins."""

    def __init__(self) -> None:
        self._learnt: dict[Way, _Learnt] = {}

    def begin(self) -> None:
        """A batch begins."""
        for one in self._learnt.values():
            one.age += 1

    def is_due(self, edge: Edge, instances: int) -> bool:
        """Whether the mapping of an edge to so many instances is to be learnt from this batch."""
        found = self._learnt.get((edge.start, edge.end))
        return found is None or found.age >= found.lasts or found.mapping.instances != instances

    def of(self, edge: Edge, rows: DataFrame, instances: int) -> Mapping:
        """The mapping of an edge: the one that is known, or a new one, learnt from these rows."""
        way = (edge.start, edge.end)
        found = self._learnt.get(way)
        if found is None or self.is_due(edge, instances):
            mapping = learn_mapping(rows, key=list(edge.columns), instances=instances)
            lasts = 1 if found is None else min(2 * found.lasts, _LONGEST)
            found = self._learnt[way] = _Learnt(mapping, lasts=lasts)
        return found.mapping
