"""What a table's keys mean for a number of instances: how uneven Spark's hash is, what Evenly makes of it, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from evenly.diagnosis.calls import aggregate_by_key_call, by_key_call
from evenly.errors import InvalidParameter
from evenly.keys.expectation import Expectation
from evenly.measures.load import imbalance_pct
from evenly.notebook import shown

EVEN_PCT = 10.0
"""λ up to which a stage counts as even: the busiest instance has at most a tenth more than the mean."""

COMBINED = (
    "Aggregates that Spark combines before the shuffle (count, sum, avg, min, max, approx_count_distinct…) ship one row per "
    "key and task, so hot keys do not hurt them. They hurt what ships every row: applyInPandas, transformWithState, windows, "
    "joins, deduplication, collect_list."
)


class KeyAdvice(StrEnum):
    """What to do about the keys of a table."""

    NOTHING = "nothing to do"
    BY_KEY = "by_key"
    SPLIT = "split"


@dataclass(frozen=True)
class HeavyKey:
    """One of the heaviest keys: its values, as text, its rows (or what they weigh), and their part of all."""

    key: str
    rows: float
    share: float


@dataclass(frozen=True)
class KeysAt:
    """The keys on one number of instances: the rows of every instance by Spark's hash and by Evenly, both counted.

    `heaviest_share` is the part of all rows that the heaviest key has: no grouping of whole keys can be better than an
    instance with that key alone. `expected` is what held-back rows say of new ones under such a mapping. `weight` is what rows
    count for, as Python writes it, if not one: whatever is called rows is then that.
    """

    keys: tuple[str, ...]
    instances: int
    rows_by_hash: tuple[float, ...]
    rows_by_evenly: tuple[float, ...]
    heaviest_share: float
    expected: Expectation | None = None
    weight: str | None = None

    def __post_init__(self) -> None:
        if len(self.rows_by_hash) != self.instances or len(self.rows_by_evenly) != self.instances:
            raise InvalidParameter(f"{self.instances} instances need the rows of each, got {len(self.rows_by_hash)}")

    @cached_property
    def hash_pct(self) -> float:
        """λ under Spark's hash."""
        return imbalance_pct(self.rows_by_hash)

    @cached_property
    def evenly_pct(self) -> float:
        """λ under Evenly's mapping of whole keys (DKG)."""
        return imbalance_pct(self.rows_by_evenly)

    @property
    def least_pct(self) -> float:
        """The λ that no grouping of whole keys goes below: share of the heaviest key times instances, less 1."""
        return max(0.0, (self.heaviest_share * self.instances - 1.0) * 100.0)

    @property
    def advice(self) -> KeyAdvice:
        """Nothing where the hash is even; splitting where one key is too heavy for an instance; else placing whole keys.

        Also splitting where whole keys cannot be made even for other reasons: a few keys, none too heavy alone.
        """
        if self.hash_pct <= EVEN_PCT:
            return KeyAdvice.NOTHING
        if self.least_pct > EVEN_PCT or (self.evenly_pct > EVEN_PCT and self.evenly_pct > 0.9 * self.hash_pct):
            return KeyAdvice.SPLIT
        return KeyAdvice.BY_KEY

    @property
    def most_instances(self) -> int:
        """The most instances on which the heaviest key still fits in an instance's share."""
        return max(1, int(1.0 / self.heaviest_share)) if self.heaviest_share > 0.0 else self.instances

    @property
    def of_all(self) -> str:
        """What shares are shares of."""
        return "the rows" if self.weight is None else "all weight"

    @property
    def why(self) -> str:
        """The advice in a sentence."""
        if self.advice is KeyAdvice.NOTHING:
            return f"Spark's hash is even: λ is {self.hash_pct:.1f} %"
        if self.advice is KeyAdvice.SPLIT and self.least_pct > EVEN_PCT:
            return (
                f"the heaviest key has {self.heaviest_share:.1%} of {self.of_all}, and an instance's share is "
                f"{1.0 / self.instances:.1%}: split it, or take at most {self.most_instances} instances"
            )
        if self.advice is KeyAdvice.SPLIT:
            return f"no placement of whole keys helps (λ stays {self.evenly_pct:.1f} %): split keys, or take fewer instances"
        new_rows = "" if self.expected is None else f"; of new rows {self.expected} are to be expected"
        return f"λ falls from {self.hash_pct:.1f} % to {self.evenly_pct:.1f} %{new_rows}"

    @property
    def call(self) -> str | None:
        """Code to paste; none if what rows count for cannot be written down."""
        if self.advice is KeyAdvice.NOTHING or self.weight == "":
            return None
        make = by_key_call if self.advice is KeyAdvice.BY_KEY else aggregate_by_key_call
        return make(self.keys, self.instances, weight=self.weight)

    def row(self) -> dict[str, object]:
        """As a flat object."""
        return {
            "series": "instances",
            "key": ",".join(self.keys),
            "instances": self.instances,
            "imbalance_pct_hash": self.hash_pct,
            "imbalance_pct_evenly": self.evenly_pct,
            "least_imbalance_pct": self.least_pct,
            "imbalance_pct_new_low": None if self.expected is None else self.expected.low_pct,
            "imbalance_pct_new_high": None if self.expected is None else self.expected.high_pct,
            "verdict": self.advice.value,
            "why": self.why,
            "call": self.call,
        }


@dataclass(frozen=True)
class KeysDiagnosis:
    """The keys of a table: how many, which are heavy, and what they mean for each number of instances.

    `unit` is "rows", or "weight" where rows count for something else: what is called rows is then that.
    """

    keys: tuple[str, ...]
    rows: float
    distinct_keys: int
    heaviest: tuple[HeavyKey, ...]
    at: tuple[KeysAt, ...]
    unit: str = "rows"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        facts: dict[str, object] = {self.unit: f"{self.rows:,}", "distinct keys": f"{self.distinct_keys:,}"}
        facts |= {f"heavy: {one.key}": f"{one.rows:,} {self.unit}, {one.share:.1%}" for one in self.heaviest[:3]}
        loads: dict[str, Sequence[float]] = {}
        for one in self.at:
            facts[f"{one.instances} instances"] = one.why
            loads[f"{one.instances} instances by Spark's hash"] = one.rows_by_hash
            loads[f"{one.instances} instances by Evenly"] = one.rows_by_evenly
        return shown(f"Keys {', '.join(self.keys)}", facts, loads)

    def results(self) -> list[dict[str, object]]:
        """Flat objects for programs: the table, its heaviest keys, then one for each number of instances."""
        table: dict[str, object] = {
            "series": "table",
            "key": ",".join(self.keys),
            "rows": self.rows,
            "distinct_keys": self.distinct_keys,
        }
        heavy: list[dict[str, object]] = [
            {"series": "key", "x": one.key, "rows": one.rows, "share_pct": 100.0 * one.share} for one in self.heaviest
        ]
        return [table, *heavy, *(one.row() for one in self.at)]


def shown_key(values: Sequence[object]) -> str:
    """A key as people read it: its values with commas between, null as such, long text cut."""
    texts = ["null" if value is None else str(value) for value in values]
    return ", ".join(text if len(text) <= 40 else f"{text[:39]}…" for text in texts)
