"""The state of a streaming query, partition by partition: how uneven it is, and what would fix it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenly.diagnosis.keys import EVEN_PCT
from evenly.keys.carried import Carried
from evenly.measures.load import imbalance_pct
from evenly.notebook import shown

MOST_OF_IT = 0.8
_FEW_ROWS = 100
"""With fewer rows per instance, chance alone makes them uneven."""


def _even_pct(rows: Sequence[int]) -> float:
    """The λ up to which rows are even: a small one, or what chance makes of so few rows."""
    mean = sum(rows) / len(rows) if rows else 0.0
    if not 0.0 < mean < _FEW_ROWS:
        return EVEN_PCT
    return max(EVEN_PCT, 100.0 * float(np.sqrt(2.0 * np.log(max(len(rows), 2)) / mean)))


@dataclass(frozen=True)
class StateDiagnosis:
    """The state of one stateful operator: the rows of each partition in its store, after batch `batch`.

    `store` is Spark's name of the store, or of the state variable; a stream-stream join has one for each side.
    """

    operator: int
    name: str
    store: str
    batch: int
    rows: tuple[int, ...]

    @property
    def instances(self) -> int:
        """Its partitions."""
        return len(self.rows)

    @cached_property
    def imbalance_pct(self) -> float:
        """λ of the state rows."""
        return imbalance_pct(self.rows)

    @cached_property
    def heaviest(self) -> tuple[tuple[int, int], ...]:
        """The fewest partitions that hold `MOST_OF_IT` of the state: (partition, rows), the heaviest first."""
        rows = np.asarray(self.rows, np.int64)
        if rows.sum() == 0:
            return ()
        order = np.argsort(-rows, kind="stable")
        needed = int(np.searchsorted(np.cumsum(rows[order]), MOST_OF_IT * rows.sum())) + 1
        return tuple((int(place), int(rows[place])) for place in order[:needed])

    @property
    def even(self) -> bool:
        """Whether there is nothing to do: λ is small, or no more than chance makes of so few rows."""
        return self.imbalance_pct <= _even_pct(self.rows)

    @property
    def why(self) -> str:
        """The state in a sentence."""
        if not self.heaviest:
            return "there is no state"
        total = sum(self.rows)
        if self.even:
            return f"the state is even: {total:,} rows, λ {self.imbalance_pct:.0f} %"
        count = len(self.heaviest)
        share = sum(rows for _, rows in self.heaviest) / total
        place, most = self.heaviest[0]
        return (
            f"{count} of {self.instances} partitions {'holds' if count == 1 else 'hold'} {share:.0%} of the state; "
            f"partition {place} alone has {most:,} of {total:,} rows"
        )

    def row(self) -> dict[str, object]:
        """As a flat object."""
        return {
            "series": "store",
            "operator": self.name,
            "operator_id": self.operator,
            "store": self.store,
            "batch": self.batch,
            "instances": self.instances,
            "rows": sum(self.rows),
            "imbalance_pct_rows": self.imbalance_pct,
            "heaviest_partition": self.heaviest[0][0] if self.heaviest else None,
            "heaviest_rows": self.heaviest[0][1] if self.heaviest else 0,
            "partitions_with_most": len(self.heaviest),
            "verdict": "even" if self.even else "uneven",
            "why": self.why,
        }


@dataclass(frozen=True)
class CheckpointDiagnosis:
    """The stores of a checkpoint, which versions of Evenly's mapping stand beside it, and what the last batches carried.

    `expected_pct` is the λ of the rows that the last of these mappings was made for: above 0 where a key is too heavy.
    A mapping balances the rows that batches carry, so it is these that say whether it fits; the state says where memory goes.
    """

    checkpoint: str
    stores: tuple[StateDiagnosis, ...]
    mappings: tuple[int, ...]
    carried: Carried | None = None
    expected_pct: float = 0.0

    @property
    def carried_even(self) -> bool | None:
        """Whether what the last batches carried under the mapping in force was even; None where that is not known."""
        if self.carried is None or not self.mappings or self.carried.version != self.mappings[-1]:
            return None
        return self.carried.imbalance_pct <= _even_pct(self.carried.rows)

    @property
    def carried_told(self) -> str:
        """What the last batches carried, in a sentence; empty where that is not known."""
        if self.carried is None or self.carried_even is None:
            return ""
        rows = sum(self.carried.rows)
        counted = "1 row" if rows == 1 else f"{rows:,} rows"
        batches = "batch" if self.carried.batches == 1 else f"{self.carried.batches} batches"
        return f"the last {batches} carried {counted}, λ {self.carried.imbalance_pct:.0f} % over the instances"

    @property
    def advice(self) -> str:
        """What to do."""
        even = all(store.even for store in self.stores)
        if self.mappings and self.carried_even is not None:
            return self._under_mapping(even=even)
        if even:
            return "The state is even: nothing to do."
        partitions = max(store.instances for store in self.stores if not store.even)
        if self.mappings:
            return (
                f"Evenly's mapping (version {self.mappings[-1]}) stands beside the checkpoint. It balances the rows that "
                "batches carry, and what they carried is not kept here, so uneven state alone does not say that they have "
                "drifted: query.batches of the running query does. A query of evenly.stream_by_key with its controller changes "
                "the mapping by itself where they have."
            )
        return (
            "No mapping of Evenly stands beside the checkpoint: start the query anew, with a new checkpoint, by "
            f"evenly.stream_by_key(rows, build, key=…, instances={partitions}, checkpoint=…)."
        )

    def _under_mapping(self, *, even: bool) -> str:
        named = f"Evenly's mapping (version {self.mappings[-1]})"
        if self.carried is not None and not self.carried_even:
            if self.carried.imbalance_pct <= self.expected_pct + EVEN_PCT:
                return (
                    f"The rows are uneven under {named}: {self.carried_told}, and were when it was made (λ "
                    f"{self.expected_pct:.0f} %). They have not drifted, so a new mapping does not help: whole keys are too "
                    "heavy for so many instances. Take fewer instances, with a new checkpoint, or a key of more columns."
                )
            return (
                f"The rows have drifted away from {named}: {self.carried_told}. Start the query again with "
                "evenly.stream_by_key, which makes a new mapping and moves the state to it."
            )
        if even:
            return f"The state is even and so are the rows under {named}: {self.carried_told}. Nothing to do."
        return (
            f"The rows are even under {named}: {self.carried_told}. Nothing to do: the state is uneven because keys differ in "
            "how many rows they have, which takes memory and not time."
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        facts: dict[str, object] = {"checkpoint": self.checkpoint}
        loads: dict[str, Sequence[float]] = {}
        for store in self.stores:
            name = f"operator {store.operator}, {store.name} {store.store}".strip()
            facts[name] = store.why
            loads[f"state rows of {name}"] = store.rows
        if self.carried is not None:
            loads["rows of the last batches"] = self.carried.rows
        return shown("State of a query", facts | {"advice": self.advice}, loads)

    def results(self) -> list[dict[str, object]]:
        """Flat objects for programs: one per store, then one per partition of each store."""
        stores = [{**store.row(), "mapping_versions": len(self.mappings)} for store in self.stores]
        parts: list[dict[str, object]] = [
            {
                "series": "partition",
                "operator": store.name,
                "operator_id": store.operator,
                "store": store.store,
                "x": i,
                "rows": rows,
            }
            for store in self.stores
            for i, rows in enumerate(store.rows)
        ]
        return stores + self._carried_row() + parts

    def _carried_row(self) -> list[dict[str, object]]:
        if self.carried is None:
            return []
        even = self.carried_even
        return [
            {
                "series": "carried",
                "mapping_version": self.carried.version,
                "batches": self.carried.batches,
                "batch": self.carried.last_batch,
                "rows": sum(self.carried.rows),
                "imbalance_pct_rows": self.carried.imbalance_pct,
                "verdict": None if even is None else "even" if even else "uneven",
            }
        ]


def checkpoint_diagnosis(
    checkpoint: str,
    stores: Sequence[StateDiagnosis],
    mappings: Sequence[int],
    carried: Carried | None = None,
    expected_pct: float = 0.0,
) -> CheckpointDiagnosis:
    """The stores that matter least even first."""
    ordered = tuple(sorted(stores, key=lambda one: -one.imbalance_pct))
    return CheckpointDiagnosis(checkpoint, ordered, tuple(sorted(mappings)), carried, expected_pct)
