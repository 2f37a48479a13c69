"""The stages of a dataflow as DataFrames: of a batch, or of one micro-batch of a stream."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Protocol

from pyspark import StorageLevel
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from evenly.costs.call_options import CallOptions
from evenly.dataflow.ends import CONSOLE, FILES, KAFKA, SENT, TABLE
from evenly.dataflow.graph import Dataflow, Edge, Operator
from evenly.dataflow.stages import Stage
from evenly.dataflow.tuning import Tuning
from evenly.errors import EvenlyError
from evenly.spark.arrow_schema import arrow_schema
from evenly.spark.costs.options import StageOptions, checked_key
from evenly.spark.costs.row_ids import with_id
from evenly.spark.costs.stage import CallStage, results_of
from evenly.spark.features import Feature, require
from evenly.spark.flows.costed import costed_call, costed_rows
from evenly.spark.flows.edge_mappings import EdgeMappings
from evenly.spark.flows.functions import loaded
from evenly.spark.flows.same_rows import SameRows
from evenly.spark.flows.schemas import parsed
from evenly.spark.flows.watch import OfCosts, Reports
from evenly.spark.jvm.read_again import reads_again
from evenly.spark.keyed.by_key import by_key
from evenly.spark.keyed.keys import key_names
from evenly.spark.keyed.learning import learn_mapping
from evenly.spark.placing.placement import AT
from evenly.spark.python_workers import check_python, on_workers
from evenly.spark.worker_errors import own_error
from evenly.worker.executing import REPORT
from evenly.worker.flowing import Graph, Node, flowing
from evenly.worker.letters import failed_function
from evenly.worker.results import Shape

_REPORT = StructField(REPORT, BinaryType())


class CostedBatch(Protocol):
    """Runs an operator of a stream over rows that are dealt out by cost; persisted, if they may be read again or in part."""

    def __call__(self, name: str, entering: DataFrame, /, *, persisted: bool) -> DataFrame: ...


@dataclass(frozen=True)
class _Shared:
    """A result that is persisted, and how the rows of one operator are had of it."""

    what: str
    rows: DataFrame
    of: Callable[[DataFrame], DataFrame]


@dataclass
class Frames:
    """What leaves each operator of a dataflow, made stage by stage; `begun` has what is there already.

    What several stages read is persisted: `release` lets go of it. `by_cost` runs the operators of a stream whose rows are
    dealt out by their cost (None: a batch on its own); `reports` takes what workers tell (None: nobody asks). `tuning` has
    threads and instances, `mappings` what a stream has learnt of its keys before (None: each is learnt from the rows at hand).
    `same` looks whether what is persisted is the same to all that read it whole (None: nobody asks).
    """

    flow: Dataflow
    stages: tuple[Stage, ...]
    begun: Mapping[str, DataFrame]
    by_cost: CostedBatch | None = None
    reports: Reports | None = None
    tuning: Tuning = field(default_factory=Tuning)
    mappings: EdgeMappings | None = None
    same: SameRows | None = None
    _made: dict[str, DataFrame] = field(default_factory=dict)
    _kept: list[DataFrame] = field(default_factory=list)
    _shared: dict[str, _Shared] = field(default_factory=dict)

    def of_sinks(self) -> dict[str, DataFrame]:
        """What each sink is to get."""
        for name, rows in self.begun.items():
            self._made[name] = self._once(rows) if self._readers(name) > 1 else rows
            if not self._is_read_again_alike(name):
                self._share([name], self._made[name], lambda _, rows: rows)
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

    def one_by_one(self) -> Iterator[tuple[Stage, DataFrame]]:
        """Each stage with what enters it, persisted: to look at what a dataflow does to a few rows of tables.

        What leaves state is for the caller to find out (`found`), before he goes on."""
        self._made |= self.begun
        for stage in self.stages:
            if not all(name in self._made for name in stage.operators):
                rows = self._once(self._rows(stage))
                yield stage, rows
                if stage.kind not in ("sink", "state"):
                    self._make(stage, rows)

    def found(self, name: str, rows: DataFrame) -> None:
        """What leaves an operator."""
        self._made[name] = rows

    def rows_of(self, edge: Edge) -> DataFrame:
        """What is on an edge whose start has been made."""
        return self.grouped(edge, self._made[edge.start])

    def release(self) -> None:
        """Nothing of it is needed any more."""
        for kept in self._kept:
            kept.unpersist()

    def leaving(self, stage: Stage, rows: DataFrame) -> DataFrame:
        """What the one exit of a stage gives, of its rows; also of a stream."""
        left = self.reported(stage, rows)
        return self._results(stage, left)

    def _results(self, stage: Stage, left: DataFrame) -> DataFrame:
        """What leaves a stage without the reports of its workers."""
        if not self._reports(stage):
            return left
        return costed_rows(results_of(left)) if stage.kind == "cost" else results_of(left)

    def _reports(self, stage: Stage) -> bool:
        """Whether what leaves a stage has the reports of its workers."""
        return stage.kind == "worker" or (stage.kind == "cost" and self.by_cost is None)

    def reported(self, stage: Stage, rows: DataFrame) -> DataFrame:
        """What leaves a stage, with the reports of its workers."""
        one = self.flow.by_name[stage.operators[0]]
        if stage.kind == "frame":
            return called_frame(self.flow, one, rows)
        if stage.kind == "cost":
            return self._by_cost(stage, one, rows)
        check_python(rows.sparkSession)
        graph, schema = self.graph(stage, rows), self._schema(stage, rows)
        # On their way columns have names of ours: PySpark takes a dot in a name for a field's. Arrow does not tell how many
        # rows of no columns there are.
        sent = rows.toDF(*(f"c{at}" for at in range(len(rows.columns)))) if rows.columns else rows.select(F.lit(0).alias("c"))
        self._check_types(one, rows)
        return sent.mapInArrow(on_workers(rows.sparkSession, flowing(graph)), schema)

    def _check_types(self, one: Operator, rows: DataFrame) -> None:
        """Refuse columns that Spark cannot hand over to Python."""
        plain = StructType([StructField(f"c{at}", field.dataType) for at, field in enumerate(rows.schema.fields)])
        try:
            arrow_schema(rows.sparkSession, plain)
        except PySparkException as error:
            raise self.flow.error(f"{one.name!r} cannot get its rows: {error} Cast that column before", one) from error
        except ValueError:  # Arrow's own, of arrays that can only be empty: Spark hands them over all the same
            return

    def grouped(self, edge: Edge, rows: DataFrame) -> DataFrame:
        """The rows of an edge where its end finds them; for state, `stream_by_key` places them."""
        rows = self._taken(edge, rows)
        return self._placed(edge, rows, rows)

    def _taken(self, edge: Edge, rows: DataFrame) -> DataFrame:
        """The rows that take an edge."""
        try:
            rows = rows.where(edge.where) if edge.where else rows
            if edge.grouping == "key":
                key_names(rows, list(edge.columns))
            elif edge.grouping == "cost":
                with_id(rows, checked_key(list(edge.columns)))
        except (AnalysisException, EvenlyError) as error:
            what = f"the edge {edge.start} -> {edge.end}"
            raise self.flow.error(f"{what} cannot be taken: {next(iter(str(error).strip().splitlines()))}", edge) from error
        return rows

    def _placed(self, edge: Edge, rows: DataFrame, alike: DataFrame) -> DataFrame:
        """Rows of one or more edges that are grouped as this one; where their keys are to be learnt, that is of `alike`."""
        instances = self.tuning.instances_of(edge, default_instances(rows.sparkSession))
        if edge.grouping == "shuffle":
            return rows.repartition(instances)
        if edge.grouping == "duplicate":
            return _everywhere(rows, instances)
        if edge.grouping == "key" and self.flow.by_name[edge.end].kind != "state":
            key = list(edge.columns)
            if self.mappings is not None:
                return self.mappings.placed(edge, rows, instances, learnt_from=alike)
            mapping = None if alike is rows else learn_mapping(alike, key=key, instances=instances)
            return by_key(rows, key=key, instances=instances, slot=None, mapping=mapping)
        return rows

    def _make(self, stage: Stage, rows: DataFrame) -> None:
        left, reporting = self.reported(stage, rows), self._reports(stage)
        if stage.kind == "frame" and reads_again(left, rows):
            self._once(rows)  # or what is before it would be called again, and give other rows each time, where it can
        costs = self._of_costs(stage) if stage.kind == "cost" else None
        kept = stage.kind == "cost" and self.by_cost is not None  # as a batch by cost of a stream is, by itself, where needed
        persisted = not kept and (len(stage.exits) > 1 or self._readers(stage.exits[0]) > 1)
        reports = self.reports if reporting else None
        if reports is not None and not reports.wants(stage, persisted=persisted):
            reports = None
        if persisted:
            left = self._once(left)
            if reports is not None:
                reports.persisted(left, costs)
        elif reports is not None:
            left = reports.observe(left, costs)

        def of_exit(place: int, left: DataFrame) -> DataFrame:
            left = self._results(stage, left)
            return left if len(stage.exits) == 1 else left.where(F.col("exit") == place).select(f"e{place}.*")

        for place, name in enumerate(stage.exits):
            self._made[name] = of_exit(place, left)
        if persisted or kept:
            self._share(stage.exits, left, of_exit)

    def _share(self, exits: Sequence[str], rows: DataFrame, of_exit: Callable[[int, DataFrame], DataFrame]) -> None:
        """Have those who read all of a persisted result compared, where there are several."""
        reading = sum(self._reads_all(stage) for stage in self.stages for edge in stage.inputs if edge.start in exits)
        if self.same is not None and reading > 1:
            for place, name in enumerate(exits):
                self._shared[name] = _Shared(", ".join(exits), rows, partial(of_exit, place))

    def _is_read_again_alike(self, name: str) -> bool:
        """Whether it is a source that gives the same rows when it is read again."""
        one = self.flow.by_name[name]
        return one.kind == "source" and not one.function and one.format != TABLE

    def _reads_all(self, stage: Stage) -> bool:
        """Whether the first action on what a stage makes of its rows is known to read all of them, and once.

        To learn a mapping reads a part, as functions and the console may, and formats that are others' do what they like.
        """
        if stage.kind == "sink":
            sink = self.flow.by_name[stage.operators[0]]
            return not sink.function and sink.format in (*FILES, *SENT, KAFKA)
        onward = [(it, edge) for it in self.stages for edge in it.inputs if edge.start in stage.exits]
        return stage.kind in ("worker", "cost") and all(self._reads_all(it) and not self._learns(edge) for it, edge in onward)

    def _read(self, name: str, stage: Stage) -> DataFrame:
        """What leaves an operator, for one stage."""
        shared = self._shared.get(name)
        if shared is None or self.same is None or not self._reads_all(stage):
            return self._made[name]
        return shared.of(self.same.read(shared.what, shared.rows))

    def _readers(self, name: str) -> int:
        """How often what leaves an operator is read: once more where a mapping is learnt from it (a source is read again)."""
        source = self.flow.by_name[name].kind == "source"
        return sum(
            max((1 if source or not self._learns(edge) else 2 for edge in stage.inputs if edge.start == name), default=0)
            for stage in self.stages
        )

    def _goes_to_one_sink(self, name: str) -> bool:
        """Whether all that leaves an operator is read once, by what leads to one sink and reads neither twice nor in part."""
        if self._readers(name) != 1:
            return False
        reader = next(stage for stage in self.stages if any(edge.start == name for edge in stage.inputs))
        if reader.kind == "sink":
            sink = self.flow.by_name[reader.operators[0]]
            return not sink.function and sink.format != CONSOLE
        return reader.kind in ("worker", "cost") and len(reader.exits) == 1 and self._goes_to_one_sink(reader.exits[0])

    def _learns(self, edge: Edge) -> bool:
        edge = self.flow.into[edge.end][0]  # edges by key to one operator have one mapping, which is kept by the first
        if edge.grouping != "key" or self.mappings is None:
            return edge.grouping == "key"
        usual = default_instances(next(iter(self.begun.values())).sparkSession)
        return self.mappings.is_due(edge, self.tuning.instances_of(edge, usual))

    def _once(self, rows: DataFrame) -> DataFrame:
        """Rows that are read several times and computed once. What somebody else has persisted stays his."""
        if rows.storageLevel == StorageLevel.NONE:
            self._kept.append(rows.persist())
        return rows

    def _rows(self, stage: Stage) -> DataFrame:
        """What enters a stage."""
        if stage.kind == "worker" and stage.fed_by is not None:
            return self._read(stage.fed_by, stage)
        one = self.flow.by_name[stage.operators[0]]
        # What is placed alike is placed together: rows of a key meet, from whichever edge they come.
        alike: dict[tuple[object, ...], list[Edge]] = {}
        for edge in stage.inputs:
            alike.setdefault((edge.grouping, edge.columns, edge.instances), []).append(edge)
        taken = [[self._taken(edge, self._read(edge.start, stage)) for edge in edges] for edges in alike.values()]
        self._check_same(one, [rows.schema for entering in taken for rows in entering])
        groups = []
        for edges, entering in zip(alike.values(), taken, strict=True):
            rows = looked_at = self._union(one, entering)
            if edges[0].grouping == "key" and any(edge.start in self._shared for edge in edges):
                # To learn reads a part, and what is read first would be taken for all.
                looked_at = self._union(one, [self._taken(edge, self._made[edge.start]) for edge in edges])
            groups.append(self._placed(edges[0], rows, looked_at))
        return self._union(one, groups)

    def _union(self, one: Operator, entering: Sequence[DataFrame]) -> DataFrame:
        try:
            return reduce(DataFrame.unionByName, entering)
        except AnalysisException as error:  # of columns that are called alike
            told = next(iter(str(error).strip().splitlines()))
            raise self.flow.error(f"the edges to {one.name!r} cannot be joined: {told}", one) from error

    def _check_same(self, one: Operator, entering: Sequence[StructType]) -> None:
        """Refuse edges to an operator whose rows differ in names or types of columns."""
        fields = [[(field.name, field.dataType.simpleString()) for field in it.fields] for it in entering]
        kinds = [sorted((name.lower(), kind) for name, kind in it) for it in fields]
        if any(it != kinds[0] for it in kinds):
            told = "; ".join(", ".join(f"{name} {kind}" for name, kind in it) for it in fields)
            raise self.flow.error(
                f"the edges to {one.name!r} have different columns ({told}): give what leads there the same schema", one
            )

    def _of_costs(self, stage: Stage) -> OfCosts:
        one = self.flow.by_name[stage.operators[0]]
        return OfCosts(one.name, self.tuning.threads_of(one))

    def _by_cost(self, stage: Stage, one: Operator, rows: DataFrame) -> DataFrame:
        if self.by_cost is not None:
            return self.by_cost(one.name, rows, persisted=not self._goes_to_one_sink(one.name))
        edge = stage.inputs[0]
        instances = self.tuning.instances_of(edge, default_instances(rows.sparkSession))
        options = StageOptions(instances, call=CallOptions(threads=self.tuning.threads_of(one)))
        function, schema = costed_call(self.flow, one, rows)
        calls = CallStage.of(rows, function, schema, options)
        if self.reports is None:
            return calls.evenly(rows, report=False)
        return calls.evenly(with_id(rows, checked_key(list(edge.columns))))

    def graph(self, stage: Stage, rows: DataFrame) -> Graph:
        """The operators of a worker, for rows with these columns."""
        at = {name: place for place, name in enumerate(stage.operators)}
        nodes = []
        made = {} if stage.fed_by is None else {stage.fed_by: rows.schema}
        for name in stage.operators:
            one = self.flow.by_name[name]
            entering = [made[edge.start] for edge in self.flow.into[name] if edge.start in made]
            self._check_same(one, entering)
            nullable, strict = parsed(self.flow, one, rows)
            nodes.append(
                Node(
                    name,
                    loaded(one),
                    Shape(arrow_schema(rows.sparkSession, nullable), strict),
                    by_row=one.kind == "row",
                    threads=self.tuning.threads_of(one),
                    after=tuple(at[edge.end] for edge in self.flow.out_of[name] if edge.end in at),
                    exit=stage.exits.index(name) if name in stage.exits else None,
                    reads=tuple(entering[0].names) if len(entering) > 1 else (),
                )
            )
            made[name] = nullable
        # Several edges to one operator are one input by now.
        entries = dict.fromkeys(at[edge.end] for edge in stage.inputs)
        return Graph(tuple(nodes), tuple(entries), tuple(rows.columns), uuid.uuid4().hex)

    def _schema(self, stage: Stage, rows: DataFrame) -> StructType:
        exits = [parsed(self.flow, self.flow.by_name[name], rows)[0] for name in stage.exits]
        if len(exits) == 1:
            return StructType([*exits[0].fields, _REPORT])
        structs = [StructField(f"e{place}", schema) for place, schema in enumerate(exits)]
        return StructType([StructField("exit", IntegerType()), *structs, _REPORT])


def called_frame(flow: Dataflow, one: Operator, given: DataFrame | SparkSession) -> DataFrame:
    """What the function of an operator makes of a DataFrame, or of the session."""
    try:
        found = loaded(one)(given)
    except AnalysisException as error:
        told = next(iter(str(error).strip().splitlines()))
        raise flow.error(f"the function of {one.name!r} asks Spark for what there is not: {told}", one) from error
    except EvenlyError:
        raise
    except Exception as error:
        raise (own_error(error) or failed_function(f"the function of {one.name!r}", error)) from error
    if not isinstance(found, DataFrame):
        got = f"{type(found).__module__.partition('.')[0]}.{type(found).__name__}"
        raise flow.error(
            f"the function of {one.name!r} returned {got.removeprefix('builtins.')}: return a DataFrame of Spark", one
        )
    return found


def default_instances(spark: SparkSession) -> int:
    """As many instances as Spark makes of a shuffle."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 200)


def _everywhere(rows: DataFrame, instances: int) -> DataFrame:
    """Every row in each of so many partitions."""
    require(rows.sparkSession, Feature.REPARTITION_BY_ID, by="an edge that is grouped by duplicate", remedy="Use shuffle")
    copies = rows.withColumn(AT, F.explode(F.sequence(F.lit(0), F.lit(instances - 1))))
    return copies.repartitionById(instances, AT).drop(AT)
