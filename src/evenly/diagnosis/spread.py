"""How a plan spreads rows over instances, in words: its shuffles, from the input on, and what they do to skewed keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenly.notebook import shown

ShuffleKind = Literal["hash", "slot", "id", "range", "round robin", "single", "copy", "other"]


@dataclass(frozen=True)
class PlannedShuffle:
    """A shuffle that Spark has planned.

    - `kind`: by Spark's "hash" of columns, by key and "slot" as `by_key` does, by the number in a column ("id"), by "range",
      in turn ("round robin"), to a "single" partition, as a "copy" to every executor; "other" with Spark's own words as `by`.
    - `by`: the columns; none of our own.
    - `partitions`: to how many; None of copies.
    - `ours`: whether it is Evenly's placement.
    - `asked`: whether the job asked for it (`repartition` and the like), and not an operator.
    - `reader`: the operator that reads it, as Spark calls it; None if it is the result.
    - `chosen`: why there are so many partitions, if `instances="auto"` chose their number.
    - `merges`: whether adaptive execution may merge its partitions where they are small.
    - `pieces`: whether Evenly has cut what instances do into pieces, of which slots take one after the other.
    - `slots_for`: for how many instances slots among the columns were made; 0 if there are none, or that is not known.
    """

    kind: ShuffleKind
    by: tuple[str, ...]
    partitions: int | None
    ours: bool = False
    asked: bool = False
    reader: str | None = None
    merges: bool = False
    chosen: str = ""
    slots_for: int = 0
    pieces: bool = False

    def __str__(self) -> str:
        return f"{self._way()}{self._number()}{self._whose()}: {self._effect()}"

    def _way(self) -> str:
        columns = f"({', '.join(self.by)})"
        return {
            "hash": f"by Spark's hash of {columns}",
            "slot": f"by {columns}",
            "id": f"by the number of its {'piece' if self.pieces else 'instance'}"
            if self.ours
            else f"by the number in {columns}",
            "range": f"by ranges of {columns}",
            "round robin": "in turn",
            "single": "all rows together",
            "copy": "a copy to every executor",
            "other": columns,
        }[self.kind]

    def _number(self) -> str:
        if self.partitions is None or self.kind == "single":
            return ""
        merged = ", of which adaptive execution may merge small ones" if self.merges else ""
        why = f" ({self.chosen})" if self.chosen else ""
        return f", to {self.partitions:,} partition{'s' * (self.partitions != 1)}{merged}{why}"

    def _whose(self) -> str:
        if self.ours:
            return ", placed by Evenly"
        if self.asked:
            return ", as the job asks"
        return "" if self.reader is None else f", for {self.reader}"

    def _effect(self) -> str:
        if self.ours and self.pieces:
            return "from large pieces to small ones, which slots take as they come free; those of a size have about as much"
        if self.ours:
            return "about as many rows on each, or as much of the weight, time or cost that was learnt"
        if self.kind == "slot" and self.slots_for not in (0, self.partitions):
            return f"as even as by Spark's hash, for the slots lead to {self.slots_for:,} partitions"
        return {
            "hash": "all rows of a key are on one instance, however many they are, and several heavy keys may meet there",
            "slot": "as the slots lead",
            "id": "as even as the numbers are",
            "range": "about as many rows on each, by a sample; rows that are equal stay together",
            "round robin": "as many rows on each",
            "single": "one instance has all the work",
            "copy": "nothing is shuffled",
            "other": "as Spark does it",
        }[self.kind]


@dataclass(frozen=True)
class Explanation:
    """How the rows of a DataFrame are spread, and why: its shuffles from the input on, and placed rows that are shuffled again.

    `again` are sentences, one for each place where rows that Evenly has placed are shuffled once more by their key, because the
    slot was forgotten; `apart` those where slots of two mappings meet, and results are wrong: a join by them misses rows, and a
    union grouped by them has a key in two groups, as rows have that are grouped by a key which was changed behind its slot.
    """

    shuffles: tuple[PlannedShuffle, ...]
    again: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()

    @property
    def placed(self) -> bool:
        """Whether Evenly places rows in it."""
        return any(it.ours for it in self.shuffles)

    def __str__(self) -> str:
        lines = [f"{at}. {it}" for at, it in enumerate(self.shuffles, start=1)]
        lines = lines or ["no shuffle: instances have what the input's partitions have"]
        lines += [f"forgotten slot: {it}" for it in self.again]
        lines += [f"wrong: {it}" for it in self.apart]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        facts: dict[str, object] = {f"shuffle {at}": it for at, it in enumerate(self.shuffles, start=1)}
        facts = facts or {"shuffles": "none: instances have what the input's partitions have"}
        facts |= {f"forgotten slot {at}": it for at, it in enumerate(self.again, start=1)}
        facts |= {f"wrong {at}": it for at, it in enumerate(self.apart, start=1)}
        return shown("How rows are spread", facts)
