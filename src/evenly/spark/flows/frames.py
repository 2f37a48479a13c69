"""The stages of a dataflow as DataFrames: of a batch, or of one micro-batch of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from evenly.costs.call_options import CallOptions
from evenly.dataflow.graph import Dataflow, Edge, Operator
from evenly.dataflow.stages import Stage
from evenly.errors import InvalidDataflow, InvalidKeys, InvalidParameter, UnknownColumn
from evenly.spark.arrow_schema import arrow_schema
from evenly.spark.costs.apply_by_cost import apply_by_cost
from evenly.spark.costs.options import checked_schema
from evenly.spark.costs.stage import results_of
from evenly.spark.features import Feature, require
from evenly.spark.flows.functions import loaded
from evenly.spark.flows.watch import Reports
from evenly.spark.keyed.by_key import by_key
from evenly.spark.placing.placement import AT
from evenly.spark.python_workers import check_python
from evenly.worker.executing import REPORT
from evenly.worker.flowing import Graph, Node, flowing
from evenly.worker.results import Shape

_REPORT = StructField(REPORT, BinaryType())


@dataclass
class Frames:
    """What leaves each operator of a dataflow, made stage by stage; `begun` has what is there already.

    What several stages read is persisted: `release` lets go of it. `by_cost` runs the operators of a stream whose rows are
    dealt out by their cost (None: a batch on its own); `reports` takes what workers tell (None: nobody asks).
    """

    flow: Dataflow
    stages: tuple[Stage, ...]
    begun: Mapping[str, DataFrame]
    by_cost: Callable[[str, DataFrame], DataFrame] | None = None
    reports: Reports | None = None
    _made: dict[str, DataFrame] = field(default_factory=dict)
    _kept: list[DataFrame] = field(default_factory=list)

    def of_sinks(self) -> dict[str, DataFrame]:
        """What each sink is to get."""
        for name, rows in self.begun.items():
            self._made[name] = self._once(rows) if self._readers(name) > 1 else rows
        found = {}
        for stage in self.stages:
            if all(name in self._made for name in stage.operators):
                continue
            rows = self._rows(stage)
            if stage.kind == "sink":
                name = stage.operators[0]
                # A function may do more than one thing with its rows, which are the same each time.
                found[name] = self._once(rows) if self.flow.by_name[name].function else rows
            else:
                self._make(stage, rows)
        return found

    def release(self) -> None:
        """Nothing of it is needed any more."""
        for kept in self._kept:
            kept.unpersist()

    def leaving(self, stage: Stage, rows: DataFrame) -> DataFrame:
        """What the one exit of a stage gives, of its rows; also of a stream."""
        left = self._ran(stage, rows)
        return results_of(left) if stage.kind == "worker" else left

    def _ran(self, stage: Stage, rows: DataFrame) -> DataFrame:
        """What leaves a stage, with the reports of its workers."""
        one = self.flow.by_name[stage.operators[0]]
        if stage.kind == "frame":
            return checked_frame(loaded(one)(rows), one)
        if stage.kind == "cost":
            return self._by_cost(stage, one, rows)
        check_python(rows.sparkSession)
        graph, schema = self._graph(stage, rows), self._schema(stage, rows)
        # On their way columns have names of ours: PySpark takes a dot in a name for a field's. Arrow does not tell how many
        # rows of no columns there are.
        sent = rows.toDF(*(f"c{at}" for at in range(len(rows.columns)))) if rows.columns else rows.select(F.lit(0).alias("c"))
        return sent.mapInArrow(flowing(graph), schema)

    def grouped(self, edge: Edge, rows: DataFrame) -> DataFrame:
        """The rows of an edge where its end finds them; for state, `stream_by_key` places them."""
        return self._placed(edge, self._taken(edge, rows))

    def _taken(self, edge: Edge, rows: DataFrame) -> DataFrame:
        """What takes an edge."""
        with told_at(self.flow, edge, f"the condition of {edge.start} -> {edge.end} cannot be asked"):
            return rows.where(edge.where) if edge.where else rows

    def _placed(self, edge: Edge, rows: DataFrame) -> DataFrame:
        with told_at(self.flow, edge, f"the edge {edge.start} -> {edge.end} cannot be grouped"):
            return self._dealt(edge, rows)

    def _dealt(self, edge: Edge, rows: DataFrame) -> DataFrame:
        instances = edge.instances or default_instances(rows.sparkSession)
        if edge.grouping == "shuffle":
            return rows.repartition(instances)
        if edge.grouping == "duplicate":
            return _everywhere(rows, instances)
        if edge.grouping == "key" and self.flow.by_name[edge.end].kind != "state":
            return by_key(rows, key=list(edge.columns), instances=instances, slot=None)
        return rows

    def _make(self, stage: Stage, rows: DataFrame) -> None:
        left, worker = self._ran(stage, rows), stage.kind == "worker"
        kept = stage.kind == "cost" and self.by_cost is not None  # as a batch by cost of a stream is, by itself
        if not kept and (len(stage.exits) > 1 or self._readers(stage.exits[0]) > 1):
            left = self._once(left)
            if worker and self.reports is not None:
                self.reports.persisted(left)
        elif worker and self.reports is not None:
            left = self.reports.observe(left)
        left = results_of(left) if worker else left
        if len(stage.exits) == 1:
            self._made[stage.exits[0]] = left
            return
        for place, name in enumerate(stage.exits):
            self._made[name] = left.where(F.col("exit") == place).select(f"e{place}.*")

    def _readers(self, name: str) -> int:
        """How often what leaves an operator is read: by each stage, and once more where a mapping is learnt from it (a source
        is then read again)."""
        return sum(any(edge.start == name for edge in stage.inputs) for stage in self.stages) + self._teaches(name)

    def _teaches(self, name: str) -> bool:
        ends = (self.flow.by_name[edge.end] for edge in self.flow.out_of[name] if edge.grouping == "key")
        return self.flow.by_name[name].kind != "source" and any(end.kind != "state" for end in ends)

    def _once(self, rows: DataFrame) -> DataFrame:
        """Rows that are read several times and computed once."""
        self._kept.append(rows.persist())
        return self._kept[-1]

    def _rows(self, stage: Stage) -> DataFrame:
        """What enters a stage."""
        if stage.kind == "worker" and stage.fed_by is not None:
            return self._made[stage.fed_by]
        entering = [self._taken(edge, self._made[edge.start]) for edge in stage.inputs]
        one = self.flow.by_name[stage.operators[0]]
        kinds = [sorted((name.lower(), kind) for name, kind in it.dtypes) for it in entering]
        if any(it != kinds[0] for it in kinds):
            told = "; ".join(", ".join(f"{name} {kind}" for name, kind in it.dtypes) for it in entering)
            raise self.flow.error(
                f"the edges to {one.name!r} have different columns ({told}): give what leads there the same schema", one
            )
        # Edges that meet have one grouping (`stages_of`). Dealt out one by one, a key would have an instance for each of them.
        moved = [(edge, it) for edge, it in zip(stage.inputs, entering, strict=True) if edge.grouping != "forward"]
        stays = [it for edge, it in zip(stage.inputs, entering, strict=True) if edge.grouping == "forward"]
        if moved:
            stays.append(self._placed(moved[0][0], reduce(DataFrame.unionByName, [it for _, it in moved])))
        return reduce(DataFrame.unionByName, stays)

    def _by_cost(self, stage: Stage, one: Operator, rows: DataFrame) -> DataFrame:
        if self.by_cost is not None:
            return self.by_cost(one.name, rows)
        edge = stage.inputs[0]
        instances = edge.instances or default_instances(rows.sparkSession)
        self._parsed(rows, one)
        with told_at(self.flow, edge, f"the edge {edge.start} -> {edge.end} cannot be grouped"):
            return apply_by_cost(
                rows,
                loaded(one),
                one.schema,
                cost_key=list(edge.columns),
                instances=instances,
                call=CallOptions(threads=one.threads or 1),
            )

    def _graph(self, stage: Stage, rows: DataFrame) -> Graph:
        at = {name: place for place, name in enumerate(stage.operators)}
        nodes = []
        for name in stage.operators:
            one = self.flow.by_name[name]
            nullable, strict = self._parsed(rows, one)
            nodes.append(
                Node(
                    name,
                    loaded(one),
                    Shape(arrow_schema(rows.sparkSession, nullable), strict),
                    by_row=one.kind == "row",
                    threads=one.threads or 1,
                    after=tuple(at[edge.end] for edge in self.flow.out_of[name] if edge.end in at),
                    exit=stage.exits.index(name) if name in stage.exits else None,
                )
            )
        entries = dict.fromkeys(at[edge.end] for edge in stage.inputs)  # edges that meet are one union, which enters once
        return Graph(tuple(nodes), tuple(entries), tuple(rows.columns))

    def _parsed(self, rows: DataFrame, one: Operator) -> tuple[StructType, frozenset[str]]:
        """The schema of what leaves an operator, all of it nullable, and the fields that are not."""
        with told_at(self.flow, one, f"the operator {one.name!r}"):
            parsed = checked_schema(rows, one.schema, skip=False)
        nullable = StructType([StructField(it.name, it.dataType, nullable=True) for it in parsed.fields])
        return nullable, frozenset(it.name for it in parsed.fields if not it.nullable)

    def _schema(self, stage: Stage, rows: DataFrame) -> StructType:
        exits = [self._parsed(rows, self.flow.by_name[name])[0] for name in stage.exits]
        if len(exits) == 1:
            return StructType([*exits[0].fields, _REPORT])
        structs = [StructField(f"e{place}", schema) for place, schema in enumerate(exits)]
        return StructType([StructField("exit", IntegerType()), *structs, _REPORT])


def _everywhere(rows: DataFrame, instances: int) -> DataFrame:
    """Every row in each of so many partitions."""
    require(rows.sparkSession, Feature.REPARTITION_BY_ID, by="an edge that is grouped by duplicate", remedy="Use shuffle")
    copies = rows.withColumn(AT, F.explode(F.sequence(F.lit(0), F.lit(instances - 1))))
    return copies.repartitionById(instances, AT).drop(AT)


@contextmanager
def told_at(flow: Dataflow, at: Operator | Edge, what: str) -> Iterator[None]:
    """What is wrong with a part of the description, with its file and line. What a user's function raises is not that."""
    try:
        yield
    except (AnalysisException, UnknownColumn, InvalidKeys, InvalidParameter) as error:
        raise flow.error(f"{what}: {first_line(error)}", at) from error


def first_line(error: Exception) -> str:
    """What an error says first."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def checked_frame(found: object, one: Operator) -> DataFrame:
    """What a user's function gave, if it is a DataFrame."""
    if not isinstance(found, DataFrame):
        raise InvalidDataflow(f"the function of {one.name!r} returned {type(found).__name__}: return a DataFrame")
    return found


def default_instances(spark: SparkSession) -> int:
    """As many instances as Spark makes of a shuffle."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
