"""What an operator of Spark itself (`frame`, `state`) takes, measured where it runs: with Spark's own code, all slots busy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenly.dataflow.subjects import Subject
from evenly.errors import InvalidModel
from evenly.numbers import plain

_ALIKE = 0.1
"""Rows that leave half of a sample and all of it are in proportion, if they are so within this part."""


@dataclass(frozen=True)
class FrameCost:
    """`row_s`: seconds of one slot for each row that enters, while `slots` slots are busy with the same. `fixed_s`: seconds on
    the clock of every batch, however few rows: of its plan, its own stages, what it reads beside.

    `shuffles`: those that it makes itself, each of which ends tasks; whether Spark `merges` small partitions behind them.
    `tasks`: those in which it ends, if that is a number of
    its own (0: as many as slots behind a shuffle, and as before it without one). `sample`: rows of the dataflow's sample that
    entered it, `left` those that left, `left_of_half` those that left of the first half. `about`, `of`: as of a `SlotCurve`.

    Of an operator with state: `keys` that it kept when it was measured, and `late`, rows that its watermark dropped meanwhile.
    """

    name: str
    row_s: float
    fixed_s: float = 0.0
    slots: int = 1
    shuffles: int = 0
    tasks: int = 0
    sample: int = 0
    left: int = 0
    left_of_half: int = 0
    about: str = ""
    of: Subject | None = None
    keys: int = 0
    late: int = 0
    merges: bool = False

    def __post_init__(self) -> None:
        for name in ("row_s", "fixed_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise InvalidModel(f"{name} of {self.name!r} must be finite and at least 0, got {value}")
        if self.slots < 1 or min(self._counts) < 0:
            raise InvalidModel(f"slots of {self.name!r} must be at least 1, its shuffles, tasks, keys and rows at least 0")

    @property
    def _counts(self) -> tuple[int, ...]:
        return self.shuffles, self.tasks, self.sample, self.left, self.left_of_half, self.keys, self.late

    def doubts(self, slots: int) -> tuple[str, ...]:
        """What a plan on so many slots rests on that may not be so: of state and of what shuffles, for all else goes row by
        row."""
        if self.keys:
            return self._doubts_of_state(slots)
        if not self.shuffles:
            return ()
        name, half = repr(self.name), self.sample // 2
        found = [f"{name} shuffles rows, and was measured with copies of {self.sample:,}: more keys may take longer"]
        if half and abs(self.left - 2 * self.left_of_half) > _ALIKE * self.left:
            each, all_of_them = plain(self.left_of_half / half), plain(self.left / self.sample)
            found.append(
                f"rows that leave {name} are not in proportion to those that enter: {each} for each of {half:,}, "
                f"{all_of_them} of {self.sample:,}. Measure with about as many as a batch has (--rows)"
            )
        if self.merges:
            found.append(
                f"Spark merges small partitions behind {name}, so what follows may have fewer tasks than slots: give the edge "
                "behind it `grouping: shuffle`, or Spark the setting spark.sql.adaptive.enabled=false"
            )
        if slots != self.slots:
            found.append(f"{name} shuffles rows, and was measured with {self.slots} slots: more may not carry more of it")
        return tuple(found)

    def _doubts_of_state(self, slots: int) -> tuple[str, ...]:
        name = repr(self.name)
        told = f"{name} keeps state, and was measured while it kept {self.keys:,} keys that came again and again"
        found = [f"{told}: more of them, or more in a batch, may take longer"]
        if self.left != self.sample:
            found.append(
                f"how many rows leave {name} depends on what a batch has and what came before: it was {self.left:,} for "
                f"{self.sample:,}. Measure with many (--rows)"
            )
        if self.late:
            found.append(
                f"{self.late:,} rows came too late for the watermark of {name}, and took hardly any time: measure with rows in "
                "the order of their times"
            )
        if slots != self.slots:
            found.append(f"{name} keeps state, and was measured with {self.slots} slots: more may not carry more of it")
        return tuple(found)
