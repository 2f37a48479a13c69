"""What one slot carries of each operator of a dataflow, measured where it will run: in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenly.dataflow.graph import Dataflow, Edge, Operator
from evenly.dataflow.reports import WorkerReport
from evenly.dataflow.stages import IN_WORKER, Stage, stages_of
from evenly.dataflow.subjects import subject_of
from evenly.dataflow.tuning import Way
from evenly.errors import InvalidModel, InvalidParameter
from evenly.planning.micro_batches.curves import CurvePoint, SlotCurve
from evenly.planning.micro_batches.fitting import Sizes, profile_curve, slope
from evenly.planning.micro_batches.frame_costs import FrameCost
from evenly.planning.micro_batches.models import MeasuredEdge, SparkModels
from evenly.spark.features import Feature, require
from evenly.spark.flows.ends import read
from evenly.spark.flows.frame_profile import FrameProfile
from evenly.spark.flows.frames import Frames
from evenly.spark.flows.state_profile import StateProfile
from evenly.spark.flows.timing import scratch
from evenly.spark.python_workers import on_workers
from evenly.spark.worker_errors import worker_errors
from evenly.worker.clocking import ROW_SECONDS, clocked
from evenly.worker.executing import REPORT

_CLOCKED_S = 2.0
_MIB = 1024.0 * 1024.0

Told = Callable[[str, CurvePoint | FrameCost], None]


@dataclass(frozen=True)
class ProfileOptions:
    """`sample` rows of the source are run through the dataflow once; each operator is then measured with copies of what
    reached it, for about `seconds` with each number of threads, up to `most_threads`."""

    sample: int = 256
    seconds: float = 3.0
    most_threads: int = 256

    def __post_init__(self) -> None:
        if not 1 <= self.sample <= 1_000_000:
            raise InvalidParameter(f"a sample has 1 to 1,000,000 rows, got {self.sample}")
        if not 0.1 <= self.seconds <= 600.0:
            raise InvalidParameter(f"an operator is measured for 0.1 to 600 s at a time, got {self.seconds}")
        if self.most_threads < 1:
            raise InvalidParameter(f"there is at least 1 thread, got {self.most_threads}")


def slots_of(spark: SparkSession) -> int:
    """Tasks that a session runs at a time."""
    require(spark, Feature.PLANS, by="profiling", remedy="Use a session that is not Spark Connect's")
    return int(spark.sparkContext.defaultParallelism)


def profile_flow(
    spark: SparkSession,
    flow: Dataflow,
    *,
    options: ProfileOptions | None = None,
    source: DataFrame | None = None,
    told: Told | None = None,
    folder: str | None = None,
) -> SparkModels:
    """The curve of every operator of rows and batches, the cost of each of Spark's own, and how many rows each edge has for one
    that enters its start.

    `source`: rows in place of the source's own, such as those of a stream that cannot be read as a batch. `told` hears of each
    point and cost. `folder`: where files are put meanwhile to measure state, in the file system of checkpoints; else a
    temporary one, where Spark is on this machine. Functions are called with rows that really reach them, many times over: what
    they do elsewhere, they do then too.
    """
    how, slots = options or ProfileOptions(), slots_of(spark)
    has_state = any(one.kind == "state" for one in flow.operators)
    alone = _alone(flow, 1 if has_state else slots)  # rows come to state in their order
    begun = {
        one.name: (read(spark, flow, one, streaming=False) if source is None else source).limit(how.sample).persist()
        for one in alone.operators
        if one.kind == "source"
    }
    with ExitStack() as ending:
        ending.callback(lambda: [sample.unpersist() for sample in begun.values()])
        base = ending.enter_context(scratch(spark, folder)) if has_state else ""
        measuring = _Measuring(flow, Frames(alone, stages_of(alone), begun), slots, how, base, told)
        ending.callback(measuring.frames.release)
        with worker_errors():
            return measuring.models()


class _Measuring:
    """The operators of a dataflow, one after the other."""

    def __init__(self, flow: Dataflow, frames: Frames, slots: int, how: ProfileOptions, base: str, told: Told | None) -> None:
        self.frames = frames
        self._flow, self._slots, self._how, self._base = flow, slots, how, base
        self._told: Told = told or (lambda *_: None)
        self._entered: dict[str, DataFrame] = {}
        self._counts: dict[str, int] = {}
        self._curves: dict[str, SlotCurve] = {}
        self._costs: dict[str, FrameCost] = {}

    def models(self) -> SparkModels:
        """All that was measured."""
        edges: dict[Way, MeasuredEdge] = {}
        for stage, rows in self.frames.one_by_one():
            name = stage.operators[0]
            self._entered[name], self._counts[name] = rows, rows.count()
            for edge in stage.inputs:
                count = self._counts[name] if len(stage.inputs) == 1 else self.frames.rows_of(edge).count()
                before = self._counts.get(edge.start) or self.frames.begun[edge.start].count()
                edges[edge.start, edge.end] = MeasuredEdge(count / before if before else 0.0, edge.where)
            if stage.kind != "sink":
                self._measured(stage, rows)
        return SparkModels(None, self._curves, {self._flow.name: edges}, self._costs)

    def _measured(self, stage: Stage, rows: DataFrame) -> None:
        one = self._flow.by_name[stage.operators[0]]
        if not self._counts[one.name]:
            raise InvalidModel(
                f"no row of a sample of {self._how.sample} reaches {one.name!r}, so it cannot be measured: take more (--rows)"
            )
        if one.kind == "state":
            cost, left = self._of_state(one)
            self.frames.found(one.name, left)
            self._keep(cost)
        elif one.kind == "frame" and one.model_name not in self._costs:
            profile = FrameProfile(self._flow, one, rows, slots=self._slots, seconds=self._how.seconds)
            self._keep(profile.cost())
        elif one.kind in IN_WORKER and one.model_name not in self._curves:
            curve = _Profile(self.frames.flow, stage, rows, self._slots, self._how).curve(self._told)
            self._curves[one.model_name] = replace(curve, of=subject_of(self._flow, one))

    def _keep(self, cost: FrameCost) -> None:
        self._costs[cost.name] = cost
        self._told(cost.name, cost)

    def _of_state(self, one: Operator) -> tuple[FrameCost, DataFrame]:
        """Spark's own operators that lead to it are run with it: one of them may say how late rows may come."""
        path: list[tuple[Edge, Operator]] = [(self._flow.into[one.name][0], one)]
        while (before := self._flow.by_name[path[0][0].start]).kind == "frame":
            path.insert(0, (self._flow.into[before.name][0], before))
        rows = self._entered[path[0][1].name]
        seconds = self._how.seconds
        return StateProfile(self._flow, path, rows, slots=self._slots, seconds=seconds, base=self._base).cost()


def _alone(flow: Dataflow, slots: int) -> Dataflow:
    """The same dataflow with every operator of rows and batches in a worker of its own."""

    def apart(edge: Edge) -> Edge:
        if flow.by_name[edge.end].kind not in IN_WORKER:
            return edge
        return replace(edge, grouping="shuffle", columns=(), instances=slots)

    return replace(flow, edges=tuple(map(apart, flow.edges)))


@dataclass(frozen=True)
class _Ran:
    """Seconds that a task took, and those of them that its Python worker computed."""

    task_s: float
    cpu_s: float

    def least(self, other: _Ran) -> _Ran:
        return _Ran(min(self.task_s, other.task_s), min(self.cpu_s, other.cpu_s))


class _Profile:
    """One operator, on all slots."""

    def __init__(self, flow: Dataflow, stage: Stage, rows: DataFrame, slots: int, how: ProfileOptions) -> None:
        self._flow, self._stage, self._slots, self._how = flow, stage, slots, how
        self._name = stage.operators[0]
        self._spark = rows.sparkSession
        self._names = rows.columns
        numbered = rows.toDF(*(f"c{at}" for at in range(len(self._names)))).coalesce(1)
        self._count = rows.count()
        self._sample = numbered.withColumn("k", F.monotonically_increasing_id())
        self._peak_bytes = 0

    def curve(self, told: Told | None) -> SlotCurve:
        """Points for growing threads, until more carry no more."""
        one = self._flow.by_name[self._name]
        took_s = self._clocked()
        sizes = Sizes(self._how.seconds, sum(took_s) / len(took_s))
        self._run(1, 2)  # every slot has its Python worker then
        points: list[CurvePoint] = []

        def measured(threads: int) -> CurvePoint:
            return self._point(threads, sizes)

        for point in profile_curve(measured, given=one.threads, most_threads=self._how.most_threads):
            points.append(point)
            if told is not None:
                told(one.model_name, point)
        about = f"{self._count} rows that reached it in {self._flow.name}"
        return SlotCurve(one.model_name, tuple(points), self._slots, max(took_s), self._peak_bytes / _MIB, about)

    def _clocked(self) -> list[float]:
        graph = self._frames(1).graph(self._stage, self._again(self._count))
        rows = self._sample.drop("k") if self._names else self._sample
        clock = on_workers(rows.sparkSession, clocked(graph, _CLOCKED_S))
        told = rows.mapInArrow(clock, ROW_SECONDS).collect()
        return [row.seconds for row in told]

    def _point(self, threads: int, sizes: Sizes) -> CurvePoint:
        while True:
            few, many = sizes.pair(threads)
            first = self._run(threads, few), self._run(threads, many)
            if sizes.enough(threads, many - few, first[1].task_s - first[0].task_s):
                break
        # Of two runs of each size the less disturbed one counts.
        small, large = first[0].least(self._run(threads, few)), first[1].least(self._run(threads, many))
        row_s = slope((few, small.task_s), (many, large.task_s))
        sizes.found(threads, row_s)
        return CurvePoint(threads, 1.0 / row_s, slope((few, small.cpu_s), (many, large.cpu_s)))

    def _run(self, threads: int, rows_per_slot: int) -> _Ran:
        ran = self._frames(threads).reported(self._stage, self._again(rows_per_slot * self._slots))
        told = ran.where(F.col(REPORT).isNotNull()).select(REPORT).collect()
        reports = [WorkerReport.from_bytes(bytes(row[0])) for row in told]
        self._peak_bytes = max(self._peak_bytes, *(one.peak_bytes for one in reports))
        came = sum(counted.rows_in for one in reports for counted in one.operators)
        if came != rows_per_slot * self._slots:
            raise InvalidModel(
                f"{self._name!r} got {came} rows of {rows_per_slot * self._slots}: its sample has changed meanwhile"
            )
        # Each task by its own clock: they do not begin at the same moment, which is no matter of the operator.
        task_s = sum(one.ended_s - one.begun_s for one in reports) / len(reports)
        return _Ran(task_s, sum(one.cpu_s for one in reports) / len(reports))

    def _frames(self, threads: int) -> Frames:
        operators = tuple(replace(one, threads=threads) if one.name == self._name else one for one in self._flow.operators)
        return Frames(replace(self._flow, operators=operators), (self._stage,), {})

    def _again(self, rows: int) -> DataFrame:
        """So many rows of the sample, one after the other and over again, the same number on each slot."""
        numbers = self._spark.range(0, rows, 1, self._slots).select((F.col("id") % self._count).alias("k"))
        joined = numbers.join(F.broadcast(self._sample), "k").drop("k")
        return joined.toDF(*self._names)
