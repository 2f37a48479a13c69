"""What a query plan in an event log says of a stage: its operators, its functions, and the shuffles that it reads.

Every operator of a plan has metrics, and every metric has a number that the tasks report under. So the numbers that
a stage reported under say which operators it ran. A shuffle is in two stages: the one that reports "records read" reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from evenly.diagnosis.stages import PYTHON, Exchange, Work

_READ = "records read"
_ROWS_OUT = "number of output rows"
_FILES_READ = ("number of files read", "number of files")
_FILES_SIZE = ("size of files read", "size of files")
_PARTITIONING = re.compile(r"(\w*[pP]artitioning|SinglePartition)\b")
_ORIGIN = re.compile(r"\b(REPARTITION\w*|REBALANCE\w*|ENSURE_REQUIREMENTS)\b")
_ATTRIBUTE = re.compile(r"#\d+L?(-T\d+ms)?")
"""Where a stream's rows have a watermark, its delay stands behind the number."""
_WHOLE_ATTRIBUTE = re.compile(r"#\d+L?(-T\d+ms)?(?![\dL.\[])")
"""Of a column itself, and not of a field of it."""
_PLAIN = re.compile(r"^([^()#]+)#\d+L?(-T\d+ms)?$")
_INTERNAL = re.compile(r"^(_groupingexpression|_w\d+$|pythonUDF\d+$|_distribution|__)")
_FUNCTION = re.compile(r"(\w+)\(")
_JOINS = re.compile(r"^(Gpu|Photon)?(SortMergeJoin|ShuffledHashJoin|ShuffledSymmetricHashJoin|ShuffledJoin)")
_COGROUPS = re.compile(r"CoGroup")
_SCANS = re.compile(r"^(Gpu|Photon)?(Scan|BatchScan|FileScan|InMemoryTableScan|LocalTableScan|Range)\b")
_TEXT = 4_000
"""So many characters of an operator's description are kept."""
_PLUMBING = re.compile(
    r"^(Gpu|Photon)?(WholeStageCodegen|InputAdapter|AdaptiveSparkPlan|\w*QueryStage|AQEShuffleRead|CustomShuffleReader|"
    r"(Columnar)?(Exchange|ReusedExchange)|ShuffleExchange(Sink|Source)|ShuffleMapStage|ResultStage|ColumnarToRow|RowToColumnar|"
    r"CoalesceBatches|ShuffleCoalesce|Project|Filter|Sort)\b"
)
"""Operators by which nobody recognises a stage."""


@dataclass(eq=False)
class _Node:
    """An operator of a plan, in its place: the operators above it, and which of their inputs it is."""

    name: str
    text: str
    place: int
    above: _Node | None
    as_input: int
    below: list[_Node] = field(default_factory=list)

    def upwards(self) -> Iterator[_Node]:
        node = self.above
        while node is not None:
            yield node
            node = node.above

    def downwards(self) -> Iterator[_Node]:
        waiting = self.below[::-1]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.below[::-1])


@dataclass
class QueryPlan:
    """What is kept of a query's plan: its description, and for each metric's number the operator and what it stands for."""

    description: str
    numbered: dict[int, tuple[_Node, str]] = field(default_factory=dict)
    command: str = ""
    adaptive: bool = False
    reads_rdd: bool = False
    """Whether its rows are handed to it, as those of a batch to `foreachBatch`."""
    counted: dict[int, int] = field(default_factory=dict)
    """What the driver told of a query, by number: how many files a scan reads, and their size."""

    def learn(self, info: dict[str, Any]) -> None:
        """Take in a plan; an adaptive query sends a new one whenever it changes its mind."""
        if not info:
            return
        root = str(info.get("nodeName", ""))
        if root.startswith(("Execute ", "OverwriteByExpression", "AppendData")) or not self.command:
            self.command = root
        waiting: list[tuple[dict[str, Any], _Node | None, int]] = [(info, None, 0)]
        place = 0
        while waiting:
            told, above, as_input = waiting.pop()
            node = _Node(str(told.get("nodeName", "")), str(told.get("simpleString", ""))[:_TEXT], place, above, as_input)
            place += 1
            if above is not None:
                above.below.append(node)
            self.reads_rdd = self.reads_rdd or node.name.startswith("Scan ExistingRDD")
            self.adaptive = self.adaptive or node.name.startswith("AdaptiveSparkPlan")
            for metric in told.get("metrics", ()):
                self.numbered[int(metric["accumulatorId"])] = (node, str(metric.get("name", "")))
            children = list(enumerate(told.get("children", ())))
            waiting.extend((child, node, at) for at, child in reversed(children))

    def watched(self, number: int) -> str | None:
        """The operator whose count of rows is told under this number, task by task: a shuffle that is read, or a join."""
        node, metric = self.numbered.get(number, (None, ""))
        if node is None:
            return None
        if metric == _READ and "Exchange" in node.name:
            return f"read {number}"
        return "joined" if metric == _ROWS_OUT and _JOINS.match(node.name) else None

    def _told(self, nodes: list[_Node], names: tuple[str, ...]) -> int:
        """The sum of what the driver told of these operators under one of these names."""
        known = ((value, self.numbered.get(number)) for number, value in self.counted.items())
        return sum(value for value, told in known if told is not None and told[1] in names and told[0] in nodes)

    def work_of(self, numbers: set[int], rdds: tuple[str, ...] = ()) -> Work:
        """What a stage did which reported under these numbers."""
        nodes: dict[_Node, None] = {}
        reads: list[tuple[_Node, Exchange]] = []
        for number in sorted(numbers & self.numbered.keys()):
            node, metric = self.numbered[number]
            if "Exchange" in node.name or "Limit" in node.name:
                if metric == _READ and "Exchange" in node.name:
                    reads.append((node, replace(_exchange(node), number=number)))
            else:
                nodes[node] = None
        ran = sorted(nodes, key=lambda node: node.place)
        named = [node for node in ran if not _PLUMBING.match(node.name)]
        lowest = min((node.place for node in (*ran, *(node for node, _ in reads))), default=None)
        top = next((node for node in (*ran, *(node for node, _ in reads)) if node.place == lowest), None)
        return Work(
            operators=tuple(dict.fromkeys(node.name for node in named)),
            functions=tuple(dict.fromkeys(name for node in named if PYTHON.search(node.name) for name in _functions(node))),
            reads=tuple(exchange for _, exchange in sorted(reads, key=lambda read: read[0].place)),
            join=next((_WHOLE_ATTRIBUTE.sub("", node.text) for node in named if _JOINS.match(node.name)), ""),
            scan=next((node.text or node.name for node in reversed(named) if _SCANS.match(node.name)), ""),
            rdds=rdds,
            files=self._told(ran, _FILES_READ),
            files_bytes=self._told(ran, _FILES_SIZE),
            adaptive=self.adaptive,
            for_broadcast=top is not None and _feeds(top, "BroadcastExchange"),
            limited=top is not None and _feeds(top, "CollectLimit"),
            command=self.command,
        )


def _functions(node: _Node) -> list[str]:
    """The names of the Python functions in `MapInArrow score(id#1L)#2, …` and `ArrowEvalPython [f(id#1)#2L], …`."""
    return _FUNCTION.findall(node.text.partition(" ")[2])[:4]


def _feeds(node: _Node, kind: str) -> bool:
    """Whether the next boundary of stages above an operator is of this kind."""
    for one in node.upwards():
        if kind in one.name:
            return True
        if "Exchange" in one.name:
            return False
    return kind in node.name


def _exchange(node: _Node) -> Exchange:
    found = parse_exchange(node.text)
    internal = [name for name in found.keys if _INTERNAL.match(name)]
    if internal:
        told = [_made(node, name) if name in internal else name for name in found.keys]
        found = replace(found, expressions=tuple(told), keys=())
    below = node
    read = side = ""
    for above in node.upwards():
        if "ShuffleRead" in above.name or "ShuffleReader" in above.name:
            read = above.text.partition(" ")[2]
        elif _JOINS.match(above.name) or _COGROUPS.search(above.name):
            side = "left" if below.as_input == 0 else "right"
            break
        elif "Exchange" in above.name and "Reused" not in above.name:
            break
        below = above
    return replace(found, read=read, side=side)


def _made(node: _Node, name: str) -> str:
    """The expression that a column of Spark's own making stands for, from the projection that makes it."""
    for below in node.downwards():
        start = below.text.find("[")
        for one in _arguments(f"({below.text[start + 1 :].rstrip(']')})") if start >= 0 else []:
            made, is_named, as_what = one.rpartition(" AS ")
            if is_named and _ATTRIBUTE.sub("", as_what) == name:
                return _ATTRIBUTE.sub("", made)
    return name


def parse_exchange(text: str) -> Exchange:
    """The shuffle that `Exchange hashpartitioning(user#12, day#3L, 200), …` describes."""
    found = _PARTITIONING.search(text)
    if found is None:
        return Exchange(text.partition("(")[0].strip() or "Exchange")
    kind = found.group(1)
    origin = _ORIGIN.search(text)
    arguments = _arguments(text[found.end() :])
    partitions = int(arguments.pop()) if arguments and arguments[-1].isdecimal() else None
    arguments = list(dict.fromkeys(arguments))
    plain = [_PLAIN.match(argument) for argument in arguments]
    # Two columns of the same name, of both sides of a join, can be told apart by nobody.
    keys = tuple(dict.fromkeys(match.group(1).strip() for match in plain if match is not None))
    return Exchange(
        kind=kind,
        expressions=tuple(_ATTRIBUTE.sub("", argument) for argument in arguments),
        keys=keys if len(keys) == len(arguments) and kind == "hashpartitioning" else (),
        partitions=1 if kind == "SinglePartition" else partitions,
        origin=origin.group(1) if origin else "",
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
