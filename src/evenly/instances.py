"""How many instances, where nobody says it: from slots, keys, rows and measured times, with the reason in words.

The number is that of the slots, because then every slot has one task and all end together. It is another one only where that
is sure to cost nothing:

- fewer, where there are fewer keys than slots, keys stay whole and no others can come: an instance without a key has nothing
  to do;
- fewer, where times were measured and one group takes longer than an instance's share: what all others need to end with it,
  and a quarter more, will do. The heaviest key's share of *rows* never lowers the number, for its rows may be the cheap ones;
- fewer, where times were measured and tasks would be so short that starting them one after another takes longer;
- more, a multiple of the slots, where an instance would hold so many rows that a task which is lost costs much.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from evenly.checks import MAX_INSTANCES, checked_instances
from evenly.errors import InvalidParameter

AUTO: Literal["auto"] = "auto"
MOST_ROWS = 10_000_000
"""So many rows an instance is to hold at the most, as far as `MOST_ROUNDS` allows it."""
MOST_ROUNDS = 4
_START_S = 1e-3
"""The driver starts tasks one after another, and takes about so long for each."""
_CLEARLY = 1.1
_ROOM = 1.25
_LOCAL = re.compile(r"local(?:\[\s*(?P<slots>\d+)\s*(?:,[^\]]*)?\])?")


@dataclass(frozen=True)
class Auto:
    """That a number is to be chosen.

    `may_split`: keys may be on several instances. `same_rows`: what is counted are the very rows that are placed, so that no
    other keys can come. Only where keys stay whole and no others come are few keys a reason for few instances: with three
    keys that were remembered from a first try, a million keys would be on three instances for ever, and evenly so.
    """

    may_split: bool = False
    same_rows: bool = False

    @property
    def few_keys_count(self) -> bool:
        """Whether few keys are a reason for few instances."""
        return self.same_rows and not self.may_split


Instances = int | Literal["auto"] | Auto
"""How many instances: a whole number from 1 to 10,000, or "auto"."""


def asked_instances(instances: Instances, *, may_split: bool = False, same_rows: bool = False) -> int | Auto:
    """What a caller asks for, checked."""
    if isinstance(instances, Auto):
        return instances
    if isinstance(instances, str):
        if instances != AUTO:
            raise InvalidParameter(f"instances must be a whole number from 1 to {MAX_INSTANCES}, or 'auto', got {instances!r}")
        return Auto(may_split, same_rows)
    return checked_instances(instances)


@dataclass(frozen=True)
class Slots:
    """How many tasks of a session can run at once, and how that is known, in words."""

    number: int
    told: str

    @classmethod
    def of(cls, setting: Callable[[str], str | None], running: int | None) -> Slots | None:
        """From a session's settings (`setting` gives one by its name, or None) and from the tasks that its executors could run
        now (`running`; None: nobody can say). None if neither says anything.

        Executors that were asked for count though they are not there yet. With dynamic allocation those count that may come,
        up to as many tasks as `spark.sql.shuffle.partitions` gives a shuffle: for more Spark itself would not ask.
        """
        cpus = _number(setting("spark.task.cpus")) or 1
        each = (_number(setting("spark.executor.cores")) or 0) // cpus
        running, master = running or 0, setting("spark.master") or ""
        if re.match(r"local(\[|$)", master):  # what is said of executors is not for this one
            local = _LOCAL.fullmatch(master)
            number = running or (max(1, int(local["slots"] or 1) // cpus) if local else 0)
            return cls(number, f"{number:,} tasks can run at once, the master is {master}") if number else None
        if str(setting("spark.dynamicAllocation.enabled")).lower() == "true":
            usual = _number(setting("spark.sql.shuffle.partitions")) or 0
            most = (_number(setting("spark.dynamicAllocation.maxExecutors")) or 0) * max(each, 1)
            wanted = min(most, usual) if most and usual else most or usual
            if wanted > running:
                limit = f"up to {most:,} tasks" if most else "without a limit"
                which = "" if wanted == most else f", and spark.sql.shuffle.partitions is {usual:,}"
                return cls(wanted, f"dynamic allocation {limit}{which}")
            return cls(running, f"{running:,} tasks can run now, with dynamic allocation") if running else None
        executors = _number(setting("spark.executor.instances")) or 0
        asked = executors * max(each, 1)
        if asked > running:
            return cls(asked, f"{executors:,} executors of {max(each, 1):,} tasks each were asked for")
        if running:
            return cls(running, f"{running:,} tasks can run at once")
        cores = _number(setting("spark.cores.max")) or 0
        return cls(max(1, cores // cpus), f"spark.cores.max is {cores:,}") if cores else None


@dataclass(frozen=True)
class MeasuredTimes:
    """What all groups (or rows) of a stage take together, and the longest of them alone, in seconds."""

    total_s: float
    longest_s: float = 0.0


@dataclass(frozen=True)
class ChosenInstances:
    """A number of instances, and why."""

    number: int
    why: str

    def __str__(self) -> str:
        return f"{self.number:,} instance{'s' * (self.number != 1)}: {self.why}"


def choose_instances(
    slots: Slots,
    *,
    keys: int | None = None,
    heaviest: float = 0.0,
    rows: float | None = None,
    times: MeasuredTimes | None = None,
    may_split: bool = False,
    most: int = MAX_INSTANCES,
) -> ChosenInstances:
    """The number of instances for a stage on these slots.

    `keys` is how many keys (or rows, where each may go anywhere) there are, if each can only be on one instance and no others
    can come; `heaviest` the heaviest one's share of the rows, `rows` their number; None: not known. It is never above `most`.
    """
    number = min(slots.number, most)
    why = f"as many as slots ({slots.told})" if number == slots.number else f"not more can be placed evenly ({slots.told})"
    rounds = min(MOST_ROUNDS, math.ceil((rows or 0.0) / (MOST_ROWS * number)), most // number)
    if rounds > 1:
        number *= rounds
        why = f"{rounds} times the slots ({slots.told}), for {rows or 0.0:,.0f} rows"
    if times is not None and times.total_s > 0.0:
        number, why = _by_time(number, why, times)
    if keys and keys < number:
        number, why = keys, f"as many as keys, for more would have nothing to do; slots: {slots.told}"
    if heaviest * number > _CLEARLY and times is None and number > 1:
        why += (
            f". One key has {heaviest:.1%} of the rows, {heaviest * number:.1f} times an instance's share"
            f"{', and is split' if may_split else ': no number of instances helps that'}"
        )
    return ChosenInstances(number, why)


def _by_time(number: int, why: str, times: MeasuredTimes) -> tuple[int, str]:
    short = max(1, math.ceil(math.sqrt(times.total_s / _START_S)))
    if short < number:
        number, why = short, f"all work takes {times.total_s:.3g} s, and to start more tasks would take longer than they save"
    longest_s = min(times.longest_s, times.total_s)
    if longest_s * number > _CLEARLY * times.total_s:
        enough = 1 + math.ceil(_ROOM * (times.total_s - longest_s) / longest_s)
        if enough < number:
            number, why = enough, f"the longest takes {longest_s:.3g} s of {times.total_s:.3g} s, and all others end with it"
    return number, why


def _number(setting: str | None) -> int | None:
    """A whole number above 0; None for anything else, such as Spark's largest integer where there is no limit."""
    text = (setting or "").strip()
    number = int(text) if text.isdecimal() else 0
    return number if 0 < number < 2**31 - 1 else None
