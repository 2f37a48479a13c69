"""Mappings of the edges of a stream that are grouped by key and lead to no state.

Any mapping puts all rows of a key on one instance, so an old one is never wrong, only less even. To learn one reads the rows
of the batch once more, which most batches can do without. It is learnt from the first batch, and again when what it has lost
since, as workers behind the edge tell, has come to what learning takes. Where they tell nothing (Spark's own operators, what
is persisted), it is learnt again after 1, 2, 4, 8 and 16 batches, and then every 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from evenly.dataflow.graph import Edge
from evenly.dataflow.reports import WorkerReport, by_instance, measured
from evenly.dataflow.tuning import Way
from evenly.keys.mapping import Mapping
from evenly.keys.relearning import Relearning
from evenly.spark.features import Feature, has
from evenly.spark.keyed.by_key import by_key
from evenly.spark.keyed.keys import key_names
from evenly.spark.keyed.learning import learn_mapping
from evenly.spark.placing.mapping_check import check_mapping
from evenly.spark.placing.placement import AT, Routes, routes, with_instances

_LONGEST = 16


@dataclass
class _Learnt:
    mapping: Mapping
    age: int = 0
    """Batches in a row that it has placed and nobody told of."""
    told: bool = False
    lasts: int = 1
    lost: Relearning = field(default_factory=Relearning)
    routes: Routes | None = None
    """Where its keys go, as columns: made once, for making them is most of what placing a batch costs the driver."""


class EdgeMappings:
    """What a query has learnt of its edges by key; `begin` tells it that a batch begins, `told` what came of it on `slots`."""

    def __init__(self, slots: int = 1) -> None:
        self._slots = slots
        self._learnt: dict[Way, _Learnt] = {}

    def begin(self) -> None:
        """A batch begins."""
        for one in self._learnt.values():
            one.age, one.told = 0 if one.told else one.age + 1, False

    def told(self, reports: Sequence[WorkerReport]) -> None:
        """A batch has been written: what workers reported of it."""
        each, together = by_instance(reports), measured(reports)
        for (_, end), one in self._learnt.items():
            told = each.get(end)
            if told is None or told.instance.size != one.mapping.instances:
                continue  # nobody told, or not all of them
            one.told = True
            one.lost.tell(told.rows_in, told.seconds, span_s=together[end].span_s, slots=self._slots)

    def is_due(self, edge: Edge, instances: int) -> bool:
        """Whether the mapping of an edge to so many instances is to be learnt from this batch."""
        found = self._learnt.get((edge.start, edge.end))
        return found is None or found.age >= found.lasts or found.lost.due or found.mapping.instances != instances

    def placed(self, edge: Edge, rows: DataFrame, instances: int, *, learnt_from: DataFrame) -> DataFrame:
        """The rows of an edge, each on the instance of its key; a mapping is learnt from rows that are the same."""
        found, key = self._of(edge, learnt_from, instances), list(edge.columns)
        if not has(rows.sparkSession, Feature.REPARTITION_BY_ID):
            return by_key(rows, key=key, instances=instances, slot=None, mapping=found.mapping)
        names = key_names(rows, key)
        check_mapping(found.mapping, rows, names, instances)
        if found.routes is None:
            found.routes = routes(rows, {AT: found.mapping})
        return with_instances(rows, found.routes, names).repartitionById(instances, AT).drop(AT)

    def _of(self, edge: Edge, rows: DataFrame, instances: int) -> _Learnt:
        """The mapping of an edge: the one that is known, or a new one, learnt from these rows."""
        way = (edge.start, edge.end)
        found = self._learnt.get(way)
        if found is None or self.is_due(edge, instances):
            mapping = learn_mapping(rows, key=list(edge.columns), instances=instances)
            lasts = 1 if found is None else min(2 * found.lasts, _LONGEST)
            promised_pct = max(mapping.fitted_imbalance_pct, mapping.expected_imbalance_pct or 0.0)
            found = self._learnt[way] = _Learnt(mapping, lasts=lasts, lost=Relearning(promised_pct))
        return found
