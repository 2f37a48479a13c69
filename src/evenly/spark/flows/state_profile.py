"""What an operator with state takes, measured as a stream runs it: whole batches with it and without it, at two sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

from evenly.dataflow.graph import Dataflow, Edge, Operator
from evenly.dataflow.subjects import subject_of
from evenly.errors import InvalidModel
from evenly.planning.micro_batches.frame_costs import FrameCost
from evenly.spark.flows.timing import batches_of, seconds_of

_BATCHES, _WARMING = 5, 2
_MORE_ROWS, _MOST_FASTER, _MOST_ROWS = 1_000, 10, 2_000_000
"""Rows of a large batch: at least, times as many where they take no time to speak of, and at most."""
_MORE, _CLEARLY = 0.1, 2.0
_SOURCE, _NAMED, _SINK, _PLAIN = "evenly: rows", "evenly: named", "evenly: nowhere", "evenly: plain"


@dataclass(frozen=True)
class _Took:
    """Seconds of a batch, of the least disturbed one, by how many they differed, and what Spark tells of the last."""

    seconds: float
    apart_s: float
    last: StreamingQueryProgress


class StateProfile:
    """One operator with state, on all slots, behind the operators of Spark itself that lead to it (`path`: these and it, each
    with the edge that enters it), for one of them may say how late rows may come. `rows` enter the first.

    The rows are the batches of a stream, in their order, and larger batches have each row several times: the same keys, at the
    same times, in the same batches. What the operator takes is how much longer batches take with it than with a mere shuffle
    in its place: what rows more take is the slope between two sizes, and what is left at the small one is fixed (what keys
    take, and writing the state down, are in there).
    """

    def __init__(
        self, flow: Dataflow, path: Sequence[tuple[Edge, Operator]], rows: DataFrame, *, slots: int, seconds: float, base: str
    ) -> None:
        self._flow, self._path, self._base = flow, path, base
        self._edge, self._one = path[-1]
        self._slots, self._enough_s = slots, _MORE * seconds
        self._instances = self._edge.instances or slots
        self._names, self._spark = rows.columns, rows.sparkSession
        self._count = rows.count()
        if self._count < _BATCHES * slots:
            raise InvalidModel(
                f"{self._count} rows of the sample reach {self._one.name!r}, which is measured with {_BATCHES} batches for "
                f"{slots} slots: take more (--rows)"
            )
        numbered = rows.toDF(*(f"c{at}" for at in range(len(self._names)))).coalesce(1)
        self._sample = numbered.withColumn("k", F.monotonically_increasing_id()).persist()
        self._runs = self._late = 0
        self._there: set[str] = set()
        self._left_names: list[str] = []

    def cost(self) -> tuple[FrameCost, DataFrame]:
        """Measured; and the rows that left it."""
        try:
            return self._cost()
        finally:
            self._sample.unpersist()

    def _cost(self) -> tuple[FrameCost, DataFrame]:
        each = self._count / _BATCHES
        few, copies = self._took(1), max(2, math.ceil(_MORE_ROWS / each))
        while not self._tells(few, many := self._took(copies)) and _MOST_FASTER * copies * each <= _MOST_ROWS:
            copies *= _MOST_FASTER
        small_s = few.seconds - self._took(1, state=False).seconds
        large_s = many.seconds - self._took(copies, state=False).seconds
        wall_row_s = max(0.0, (large_s - small_s) / ((copies - 1) * each))
        part = math.ceil(self._instances / self._slots) / self._instances
        left = self._left()
        cost = FrameCost(
            self._one.model_name,
            row_s=wall_row_s / part,
            fixed_s=max(0.0, small_s - wall_row_s * each),
            slots=self._slots,
            sample=self._count,
            left=left.count(),
            keys=sum(it.numRowsTotal for it in few.last.stateOperators),
            late=self._late,
            about=f"{_BATCHES} batches of the {self._count} rows that reached it in {self._flow.name}",
            of=subject_of(self._flow, self._one),
        )
        return cost, left

    def _tells(self, few: _Took, many: _Took) -> bool:
        """Whether more rows take clearly longer: by more than batches of one size differ, where the machine is busy."""
        return many.seconds - few.seconds > max(self._enough_s, _CLEARLY * max(few.apart_s, many.apart_s))

    def _took(self, copies: int, *, state: bool = True) -> _Took:
        batches = batches_of(self._spark, self._streamed(copies, state=state), self._checkpoint())
        came = sum(one.numInputRows for one in batches)
        if len(batches) != _BATCHES or came != copies * self._count:
            raise InvalidModel(f"{self._one.name!r} got {came} rows of {copies * self._count} in {len(batches)} batches")
        if state and copies == 1:
            self._late = sum(it.numRowsDroppedByWatermark for one in batches for it in one.stateOperators)
        took_s = [seconds_of(one) for one in batches[_WARMING:]]
        return _Took(min(took_s), max(took_s) - min(took_s), batches[-1])

    def _left(self) -> DataFrame:
        """What leaves it of the sample."""
        path = f"{self._base}/left"

        def plain(frame: DataFrame) -> DataFrame:
            self._left_names = frame.columns
            return frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))

        flow = self._streamed(1)
        written = Operator(_SINK, kind="sink", format="parquet", path=path)
        operators = (*flow.operators[:-1], Operator(_PLAIN, kind="frame", function=plain), written)
        edges = (*flow.edges[:-1], replace(flow.edges[-1], end=_PLAIN), Edge(_PLAIN, _SINK))
        batches_of(self._spark, replace(flow, operators=operators, edges=edges), self._checkpoint())
        return self._spark.read.parquet(path).drop("batch").toDF(*self._left_names)

    def _streamed(self, copies: int, *, state: bool = True) -> Dataflow:
        """The operators as a dataflow of their own; without its state its rows are shuffled all the same."""
        path, names = self._written(copies), self._names
        source = Operator(_SOURCE, kind="source", format="parquet", path=path, options={"maxFilesPerTrigger": str(self._slots)})
        named = Operator(_NAMED, kind="frame", function=lambda frame: frame.toDF(*names))
        sink = Operator(_SINK, kind="sink", format="noop", options={"mode": "append"})
        operators, edges = [source, named], [Edge(_SOURCE, _NAMED)]
        for at, (entering, one) in enumerate(self._path):
            edge = replace(entering, start=operators[-1].name)
            if at == 0:  # these rows have taken it already
                edge = replace(edge, where="")
            if one is not self._one:
                operators.append(one)
                edges.append(edge)
            elif state:
                operators.append(one)
                edges += [replace(edge, instances=self._instances), Edge(one.name, _SINK)]
            else:
                edges.append(replace(edge, end=_SINK, grouping="shuffle", columns=(), instances=self._instances))
        return Dataflow(f"{self._flow.name}: {self._one.name}", (*operators, sink), tuple(edges))

    def _checkpoint(self) -> str:
        self._runs += 1
        return f"{self._base}/checkpoint-{self._runs}"

    def _written(self, copies: int) -> str:
        """The batches as files, one for each slot, each row so many times; a stream reads them in the order of their times."""
        path = f"{self._base}/rows-{copies}"
        if path in self._there:
            return path
        for number in range(_BATCHES):
            rows = self._sample.where(F.expr(f"k * {_BATCHES} div {self._count} = {number}")).drop("k")
            again = rows.withColumn("again", F.explode(F.sequence(F.lit(1), F.lit(copies)))).drop("again")
            again.repartition(self._slots).write.mode("append").parquet(path)
        self._there.add(path)
        return path
