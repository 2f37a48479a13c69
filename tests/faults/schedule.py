"""What is run, on what, how, and what goes wrong when: all of it drawn from one number. No Spark here."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

BATCH = (
    "group_pandas",
    "group_native",
    "window",
    "join",
    "hot_join",
    "write",
    "cogroup",
    "place",
    "saved_mapping",
    "remembered",
    "split",
    "aggregate",
    "apply_pandas",
    "apply_arrow",
    "timed",
    "cost",
    "send",
    "flow",
    "diagnose",
)
STREAMS = (
    *("stream_count", "stream_dedup", "stream_window", "stream_join", "stream_move"),
    *("stream_cost", "stream_send", "stream_flow", "stream_apply"),
)
OPERATIONS = (*BATCH, *STREAMS)
LATER: tuple[str, ...] = ("stream_apply",)
"""Operations that joined when the others had been run: their seeds come after all others', which mean what they meant."""
STATEFUL = ("stream_count", "stream_dedup", "stream_window", "stream_join", "stream_move", "stream_apply")

ANYWHERE = ("executor", "worker", "python", "driver", "exception", "exit", "stop")
"""Faults at the n-th call: kill -9 of a process, an exception, os._exit, SIGSTOP and SIGCONT of the executor."""
BETWEEN_BATCHES = ("cores", "tick", "disk")
"""Faults before the n-th batch of a stream: another number of cores, ticks of state maintenance, a full disk."""
KINDS = (*ANYWHERE, *BETWEEN_BATCHES)

FILES = 4
"""Batches of a stream."""


@dataclass(frozen=True)
class Fault:
    """At the `at`-th call in the input or in the work, or before batch `at`; a driver is started again on `cores` cores."""

    kind: str
    where: str
    at: int
    cores: int = 3


@dataclass(frozen=True)
class Shape:
    """The input: rows, the key's type and name, and what differs when it is computed a second time."""

    rows: int = 600
    key: str = "int"
    name: str = "k"
    nulls: bool = False
    skew: str = "flat"
    twice: str = "same"


@dataclass(frozen=True)
class Settings:
    """How Spark is set."""

    instances: int = 3
    adaptive: bool = True
    speculation: bool = False
    store: str = "rocksdb"
    ansi: bool = True
    zone: str = "UTC"
    arrow_rows: int = 10_000
    partitions: int = 8


@dataclass(frozen=True)
class Options:
    """What an operation is asked for; each takes what it knows."""

    mode: str = "row"
    on_error: str = "fail"
    retries: int = 0
    learnt: bool = False
    to: str = "function"
    policy: str = "default"
    spread_on_row: bool = True
    with_key: bool = False
    left: bool = False
    change_at: int = 0
    restart_at: int = 0
    controller: bool = False
    look: bool = False
    other_type: bool = False
    how: str = "inner"


@dataclass(frozen=True)
class Schedule:
    """One run of the campaign."""

    seed: int
    operation: str
    shape: Shape
    settings: Settings
    options: Options
    faults: tuple[Fault, ...]

    @property
    def streaming(self) -> bool:
        return self.operation in STREAMS

    def told(self) -> str:
        """One line: what differs from the plainest schedule."""
        parts = [f"seed {self.seed}: {self.operation}"]
        for value in (self.shape, self.settings, self.options):
            plain = type(value)()
            changed = {f.name: getattr(value, f.name) for f in fields(value)}
            parts.extend(f"{name}={it!r}" for name, it in changed.items() if it != getattr(plain, name))
        parts.extend(f"{fault.kind} at {fault.where} {fault.at}" for fault in self.faults)
        return ", ".join(parts)

    def as_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str | dict[str, Any]) -> Schedule:
        told = json.loads(text) if isinstance(text, str) else text
        return cls(
            told["seed"],
            told["operation"],
            Shape(**told["shape"]),
            Settings(**told["settings"]),
            Options(**told["options"]),
            tuple(Fault(**fault) for fault in told["faults"]),
        )


def cells() -> list[tuple[str, str]]:
    """Every operation with every fault that it can meet, in an order of its own: consecutive seeds go through all of them."""
    every = [(operation, kind) for operation in OPERATIONS for kind in KINDS if _meets(operation, kind)]
    return sorted(every, key=lambda cell: (cell[0] in LATER, random.Random(" ".join(cell)).random()))


def covering(schedules: Iterable[Schedule], fewest: int = 25) -> list[Schedule]:
    """At least so many schedules that have every operation, every fault and every input that the given ones have.

    Those that one driver can serve come first, those that end it or start others last.
    """
    left, chosen = sorted(schedules, key=_price), []
    seen: set[object] = set()
    while left and (len(chosen) < fewest or any(_shown(one) - seen for one in left)):
        best = max(left, key=lambda one: (len(_shown(one) - seen), -left.index(one)))
        left.remove(best)
        seen |= _shown(best)
        chosen.append(best)
    return sorted(chosen, key=_price)


def _shown(schedule: Schedule) -> set[object]:
    """What is to be seen of a schedule: an input that differs is computed a second time when an executor is lost."""
    kinds = {fault.kind for fault in schedule.faults}
    again = {("computed again", schedule.shape.twice)} if kinds & {"executor", "worker"} else set()
    return {schedule.operation, *kinds, *again}


def _price(schedule: Schedule) -> tuple[int, ...]:
    """How much it takes to show something, roughly: rows, drivers that are started, streams, processes that are lost."""
    kinds = [fault.kind for fault in schedule.faults]
    restarts = sum(kind in {"driver", "cores"} for kind in kinds) + schedule.settings.speculation
    lost = sum(kind in {"executor", "worker", "exit", "stop"} for kind in kinds)
    return schedule.shape.rows < 100, restarts, schedule.streaming, schedule.settings.instances > 8, lost, schedule.seed


def _meets(operation: str, kind: str) -> bool:
    if kind == "tick":
        return operation in STATEFUL
    return kind in ANYWHERE or operation in STREAMS


def draw(seed: int) -> Schedule:
    """The schedule of a seed."""
    chance = random.Random(f"schedule {seed}")
    order = cells()
    operation, kind = order[seed % len(order)]
    streaming = operation in STREAMS
    shape = _shape(chance, operation, streaming=streaming)
    settings = Settings(
        instances=chance.choices((1, 2, 3, 8, 64), (1, 3, 3, 3, 0.4 if streaming else 1))[0],
        adaptive=chance.random() < 0.6,
        speculation=chance.random() < 0.25,
        store=chance.choice(("rocksdb", "changelog", "changelog", "hdfs")),
        ansi=chance.random() < 0.7,
        zone=chance.choice(("UTC", "UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata")),
        arrow_rows=chance.choice((20, 100, 10_000)),
        partitions=chance.choice((3, 8, 8, 20)),
    )
    options = Options(
        mode=chance.choice(("row", "row", "threads", "async", "batches")),
        on_error=chance.choice(("fail", "skip")),
        retries=chance.choice((0, 1)),
        learnt=chance.random() < 0.5,
        to=chance.choice(("tcp", "http", "function")),
        policy=chance.choice(("default", "none", "lbf", "fcfs")),
        spread_on_row=chance.random() < 0.7,
        with_key=chance.random() < 0.3,
        left=chance.random() < 0.3,
        change_at=chance.choice((0, 1, 2)) if operation == "stream_window" else 0,
        restart_at=chance.choice((0, 0, 2, 3)),
        controller=chance.random() < 0.4,
        look=chance.random() < 0.4,
        other_type=chance.random() < 0.2,
        how=chance.choice(("inner", "left", "right", "full", "semi", "anti")),
    )
    if operation == "stream_move":
        options = replace(options, change_at=chance.choice((1, 1, 2)))
    if operation == "stream_apply":
        options = replace(options, change_at=chance.choice((0, 1, 2)))
        settings = replace(settings, store="rocksdb" if settings.store == "hdfs" else settings.store)
    options = _known(options, operation)
    if options.other_type:
        shape = replace(shape, key="int")  # the other side's is long
    calls = {"input": 3, "work": _calls(operation, shape, options)}
    faults = [_fault(chance, kind, operation, calls)]
    if kind == "tick":
        # What a tick has spoilt after a change is seen by whoever loads the state anew.
        faults = [replace(fault, at=max(fault.at, options.change_at)) for fault in faults]
        faults.append(Fault("cores", "batch", FILES - 1, chance.choice((1, 2))))
    elif chance.random() < 0.3:
        others = [other for other in KINDS if other != kind and _meets(operation, other) and other != "disk"]
        faults.append(_fault(chance, chance.choice(others), operation, calls))
    return Schedule(seed, operation, shape, settings, options, tuple(faults))


_TAKES = {
    "join": ("left",),
    "hot_join": ("how", "spread_on_row"),
    "write": ("spread_on_row",),
    "split": ("spread_on_row",),
    "aggregate": ("spread_on_row",),
    "apply_pandas": ("with_key",),
    "apply_arrow": ("with_key",),
    "cost": ("mode", "on_error", "retries", "learnt"),
    "send": ("to", "policy"),
    "flow": ("mode",),
    "stream_flow": ("mode", "restart_at"),
    "stream_cost": ("mode", "on_error", "retries", "restart_at"),
    "stream_send": ("to", "policy", "restart_at"),
    "stream_join": ("restart_at", "controller", "look", "other_type"),
}
_OF_STREAMS = ("change_at", "restart_at", "controller", "look")


def _known(options: Options, operation: str) -> Options:
    """Only what the operation takes; the rest is as plain as can be."""
    taken = _TAKES.get(operation, _OF_STREAMS if operation in STREAMS else ())
    return Options(**{name: getattr(options, name) for name in taken})


_OWN_PYTHON = ("group_pandas", "cogroup", "place", "split", "cost", "stream_cost")
"""Spark's own mapInArrow and applyInPandas refuse frames with dots or backticks in their columns' names."""


def _shape(chance: random.Random, operation: str, *, streaming: bool) -> Shape:
    rows = chance.choices((0, 1, 300, 900, 3000), (0.4, 0.4, 3, 4, 2))[0]
    if streaming:
        rows = min(rows, 900) if operation != "stream_join" else min(rows, 300)
    kinds = ("int", "long", "string", "decimal", "date", "timestamp", "struct", "double", "binary", "boolean", "two")
    names = ("k", "k", "k", "user id", "id", "Key", "ключ", "a.b", "k`t", "__evenly_key", "select")
    differing = ("same", "order", "random", "time", "dedup", "floats")
    key, name = chance.choice(kinds), chance.choice(names)
    if operation in _OWN_PYTHON and name in {"a.b", "k`t"}:
        name = "user id"
    if operation == "write" and key in {"struct", "binary"}:
        key = "string"  # no folder has such a name
    if operation in {"cost", "stream_cost"} and name == "__evenly_key":
        name = "user id"  # apply_by_cost refuses such names with a word
    return Shape(
        rows=rows,
        key=key,
        name=name,
        nulls=chance.random() < 0.4,
        skew=chance.choice(("flat", "zipf", "hot", "one")),
        twice=chance.choice(("same", "random", "time")) if streaming else chance.choice(differing),
    )


def _calls(operation: str, shape: Shape, options: Options) -> int:
    """How many calls the work makes at least, if there are rows: moments beyond would never come."""
    by_row = (operation in {"cost", "stream_cost", "flow", "stream_flow"} and options.mode != "batches") or (
        operation in {"send", "stream_send"} and options.to == "function"
    )
    if by_row:
        return 40
    if operation in {"group_pandas", "cogroup", "apply_pandas", "apply_arrow", "timed", "aggregate", "split"}:
        return {"flat": 12, "zipf": 8, "hot": 6, "one": 1}[shape.skew] if shape.key != "boolean" else 1
    if operation in STREAMS:
        return 2 * FILES if operation == "stream_send" else FILES
    return 1 + (shape.skew != "one" and shape.key != "boolean")


def _fault(chance: random.Random, kind: str, operation: str, calls: dict[str, int]) -> Fault:
    cores = chance.choice((1, 2))
    if kind in BETWEEN_BATCHES:
        return Fault(kind, "batch", chance.randint(1, FILES - 1), cores)
    # What a driver only reads, or Spark writes, has no work of its own.
    where = "input" if operation in {"diagnose", "write"} else chance.choice(("input", "work", "work"))
    return Fault(kind, where, chance.randint(1, calls[where]), cores)


def simpler(schedule: Schedule) -> Iterator[Schedule]:
    """The schedules that are one step plainer, the largest steps first."""
    for place in range(len(schedule.faults)):
        yield replace(schedule, faults=schedule.faults[:place] + schedule.faults[place + 1 :])
    for part in ("shape", "options", "settings"):
        value = getattr(schedule, part)
        plain = type(value)()
        for field in fields(value):
            kept = part == "options" and schedule.operation == "stream_move" and field.name == "change_at"
            if getattr(value, field.name) != getattr(plain, field.name) and not kept:
                yield replace(schedule, **{part: replace(value, **{field.name: getattr(plain, field.name)})})
