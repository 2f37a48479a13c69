"""What a query plan in an event log says of a stage: its operators, and the keys of the shuffle that it reads.

Every operator of a plan has metrics, and every metric has a number that the tasks report under. So the numbers that
a stage reported under say which operators it ran. A shuffle is in two stages: the one that reports "records read" reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from evenly.diagnosis.stages import Exchange

_READ = "records read"
_PARTITIONING = re.compile(r"(\w*[pP]artitioning|SinglePartition)\b")
_ATTRIBUTE = re.compile(r"#\d+L?")
_PLAIN = re.compile(r"^([^()#]+)#\d+L?$")
_PLUMBING = (
    "WholeStageCodegen",
    "InputAdapter",
    "AdaptiveSparkPlan",
    "ShuffleQueryStage",
    "BroadcastQueryStage",
    "ResultQueryStage",
    "AQEShuffleRead",
    "Exchange",
    "ReusedExchange",
    "ColumnarToRow",
    "Project",
    "Filter",
    "Sort",
)
"""Operators by which nobody recognises a stage."""


@dataclass
class QueryPlan:
    """What is kept of a query's plan: its description, and for each metric's number what it stands for."""

    description: str
    operators: dict[int, str] = field(default_factory=dict)
    exchanges: dict[int, Exchange] = field(default_factory=dict)

    def learn(self, info: dict[str, Any]) -> None:
        """Take in a plan; an adaptive query sends a new one whenever it changes its mind."""
        for node in _nodes(info):
            name = str(node.get("nodeName", ""))
            for metric in node.get("metrics", ()):
                if name.partition(" ")[0] not in _PLUMBING:
                    self.operators[int(metric["accumulatorId"])] = name
                elif name in {"Exchange", "ReusedExchange"} and metric.get("name") == _READ:
                    self.exchanges[int(metric["accumulatorId"])] = parse_exchange(str(node.get("simpleString", "")))

    def exchange_of(self, numbers: set[int]) -> Exchange | None:
        """The shuffle that a stage reads which reported under these numbers (that with keys, if there are several)."""
        read = [exchange for number, exchange in self.exchanges.items() if number in numbers]
        return max(read, key=lambda exchange: len(exchange.keys), default=None)

    def operators_of(self, numbers: set[int]) -> tuple[str, ...]:
        """What a stage computed which reported under these numbers, the last operator first."""
        return tuple(dict.fromkeys(name for number, name in self.operators.items() if number in numbers))


def _nodes(info: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waiting = [info]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.get("children", ())))


def parse_exchange(text: str) -> Exchange:
    """The shuffle that `Exchange hashpartitioning(user#12, day#3L, 200), …` describes."""
    found = _PARTITIONING.search(text)
    if found is None:
        return Exchange(text.partition("(")[0].strip() or "Exchange")
    kind = found.group(1)
    arguments = _arguments(text[found.end() :])
    partitions = int(arguments.pop()) if arguments and arguments[-1].isdigit() else None
    plain = [_PLAIN.match(argument) for argument in arguments]
    keys = tuple(match.group(1).strip() for match in plain if match is not None)
    return Exchange(
        kind=kind,
        expressions=tuple(_ATTRIBUTE.sub("", argument) for argument in arguments),
        keys=keys if len(keys) == len(arguments) and kind == "hashpartitioning" else (),
        partitions=1 if kind == "SinglePartition" else partitions,
    )


def _arguments(text: str) -> list[str]:
    """The arguments of a call whose opening parenthesis is the first character, cut at its own commas only."""
    if not text.startswith("("):
        return []
    depth, start = 0, 1
    found: list[str] = []
    for place, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and character == ","):
            found.append(text[start:place].strip())
            start = place + 1
        if depth == 0:
            break
    return [argument for argument in found if argument]
