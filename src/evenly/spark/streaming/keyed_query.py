"""A running streaming query whose keys are placed by a mapping that may change while it runs."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from evenly.errors import EvenlyError, InvalidParameter
from evenly.grouping.controller import BatchLoad, Decision, DriftController
from evenly.grouping.mapping import Mapping
from evenly.kernels.types import F64
from evenly.measures.load import imbalance_pct
from evenly.spark.placement import with_slot_of_window
from evenly.spark.state.lineage import current_checkpoint
from evenly.spark.streaming import mapping_store
from evenly.spark.streaming.changing import change_by_moving, change_windows, check_change, recover_move
from evenly.spark.streaming.grouped import check_grouping
from evenly.spark.streaming.mapping_store import MappingStore, Version
from evenly.spark.streaming.observing import Observation, ProgressListener

Build = Callable[..., DataStreamWriter]
"""From placed rows (one DataFrame, or one for each that was given) to a writer that has not been started."""

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_STARTING = threading.Lock()
_EFFECT_BATCHES = 3
_REPORT_S = 10.0
_REMEMBERED = 10_000
_REFUSALS = (EvenlyError, PySparkException, Py4JError)


@dataclass(frozen=True)
class Pipeline:
    """What is started, and started again under another mapping."""

    frames: tuple[DataFrame, ...]
    build: Build
    checkpoint: str

    @property
    def spark(self) -> SparkSession:
        return self.frames[0].sparkSession

    def start(self, store: MappingStore, observation: Observation | None) -> StreamingQuery:
        """Start the query under the version in force, with as many shuffle partitions as instances."""
        placement, spans = store.placement, store.spans()
        placed = [
            with_slot_of_window(
                df,
                spans,
                placement.key,
                placement.slot,
                window=placement.window,
                observe=None if observation is None else observation.of(side),
            )
            for side, df in enumerate(self.frames)
        ]
        settings = self.spark.conf
        with _STARTING:
            before = settings.get(_SHUFFLE_PARTITIONS)
            settings.set(_SHUFFLE_PARTITIONS, str(placement.instances))
            try:
                writer = self.build(*placed)
                if not isinstance(writer, DataStreamWriter):
                    raise InvalidParameter(f"build must return a DataStreamWriter that is not started, got {writer!r}")
                check_grouping(writer._df, slot=placement.slot, window=placement.window)  # noqa: SLF001 - it has no other
                return writer.option("checkpointLocation", current_checkpoint(self.spark, self.checkpoint)).start()
            finally:
                settings.set(_SHUFFLE_PARTITIONS, before or "200")


@dataclass(frozen=True)
class Batch:
    """One batch of a query: its number, the version of the mapping it ran under, and its rows per instance."""

    number: int
    version: int
    rows: tuple[int, ...]

    @property
    def imbalance_pct(self) -> float:
        """λ of its rows."""
        return imbalance_pct(self.rows)


class KeyedQuery:
    """A streaming query under a versioned mapping: see `stream_by_key`.

    It stands for one query over all the times that it is stopped and started for a new mapping. `query` is the
    `StreamingQuery` that runs now; wait for this object rather than for that one.
    """

    def __init__(self, pipeline: Pipeline, store: MappingStore, controller: DriftController | None) -> None:
        self._pipeline, self._store, self._controller = pipeline, store, controller
        self._name = f"__evenly_{uuid.uuid4().hex}"
        self._run = 0
        self._batches: deque[Batch] = deque(maxlen=_REMEMBERED)
        self._kept: deque[str] = deque(maxlen=_REMEMBERED)
        self._effect: list[float] = []
        self._handled = -1
        self._error: BaseException | None = None
        self._lock = threading.RLock()
        self._progress: queue.SimpleQueue[tuple[int, dict[str, Row]] | None] = queue.SimpleQueue()
        self._listener: ProgressListener | None = None
        self._observation: Observation | None = None
        self._before: Observation | None = None
        if controller is not None:
            self._listener = ProgressListener(lambda batch, metrics: self._progress.put((batch, metrics)))
            pipeline.spark.streams.addListener(self._listener)
        try:
            self._query = self._start()
        except BaseException:
            self._close()
            raise
        if controller is not None:
            threading.Thread(target=self._follow, name="evenly controller", daemon=True).start()

    @property
    def query(self) -> StreamingQuery:
        """The query that runs now; another one after a change of the mapping."""
        with self._lock:
            return self._query

    @property
    def mapping(self) -> Mapping:
        """The mapping in force; with windows, the one for new windows."""
        with self._lock:
            return self._store.mapping(self._store.versions[-1].number)

    @property
    def versions(self) -> tuple[Version, ...]:
        """All versions of the mapping since the checkpoint was begun, oldest first."""
        return self._store.versions

    @property
    def changes(self) -> tuple[Version, ...]:
        """The versions that followed the first: why, what was expected and what was measured."""
        return self._store.versions[1:]

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why changes that were decided could not be brought in force."""
        return tuple(self._kept)

    @property
    def batches(self) -> tuple[Batch, ...]:
        """Rows per instance of the last 10,000 batches of this driver, in order; none with `controller=False`."""
        return tuple(self._batches)

    @property
    def isActive(self) -> bool:  # noqa: N802 - as StreamingQuery has it
        with self._lock:
            return self._query.isActive

    def exception(self) -> BaseException | None:
        """What ended the query, or kept it from being started again; None while all is well."""
        with self._lock:
            return self._error or self._query.exception()

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - as StreamingQuery has it
        """Wait until the query ends, by `stop`, by itself or by an error, which is raised; False after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            query = self.query
            left = 1.0 if deadline is None else min(1.0, deadline - time.monotonic())
            try:
                ended = bool(query.awaitTermination(max(left, 0.001)))  # type: ignore[arg-type] # seconds need not be whole
            except PySparkException:
                self._close()
                raise
            with self._lock:
                if self._error is not None:
                    raise self._error
                if ended and query is self._query:
                    self._close()
                    return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def processAllAvailable(self) -> None:  # noqa: N802 - as StreamingQuery has it
        """Wait until all rows that are there have been processed, and the controller has seen them. For tests."""
        while True:
            query = self.query
            if query.isActive:
                query.processAllAvailable()
            if query is self.query:
                self._wait_for_controller(query)
            with self._lock:
                if self._error is not None:
                    raise self._error
                if query is self._query:
                    return

    def change_mapping(self, mapping: Mapping, *, reason: str = "asked for") -> Version:
        """Change to another mapping now: stop, bring it in force, start again. No row is lost or counted twice.

        Where it is refused (state that cannot be moved, no batch finished yet), the query goes on and the reason is raised.
        """
        self._store.placement.check(mapping)
        with self._lock:
            failure = self._change(Decision(reason, 0.0, mapping.expected_imbalance_pct, mapping=mapping), {})
            if failure is not None:
                raise failure
            return self._store.versions[-1]

    def stop(self) -> None:
        """Stop the query. It can be started again with `stream_by_key` and the same checkpoint."""
        with self._lock:
            self._query.stop()
            self._close()

    def _close(self) -> None:
        if self._listener is not None:
            self._pipeline.spark.streams.removeListener(self._listener)
            self._listener = None
            self._progress.put(None)

    def _start(self) -> StreamingQuery:
        self._run += 1
        # The last batches of a run are reported when the next one has been started.
        self._before = self._observation
        if self._controller is not None:
            instances, version = self._store.placement.instances, self._store.versions[-1].number
            name = f"{self._name}_{self._run}"
            self._observation = Observation(name, version=version, instances=instances, learner=self._controller.learner)
        return self._pipeline.start(self._store, self._observation)

    def _follow(self) -> None:
        """The controller's thread: takes in every batch, and changes the mapping when it says so."""
        while (item := self._progress.get()) is not None:
            try:
                with self._lock:
                    self._take_in(*item)
            except BaseException as error:  # noqa: BLE001 - the query is ended by whatever happens here; its user must see it
                self._error = error
                return

    def _take_in(self, number: int, metrics: dict[str, Row]) -> None:
        controller = self._controller
        if controller is None or self._listener is None:
            return
        if self._before is not None and (late := self._before.read(metrics)) is not None:
            self._list_batch(number, self._before.version, late[0])
        if self._observation is None or (seen := self._observation.read(metrics)) is None:
            return
        rows, load = seen
        if rows.sum() > 0.0:
            self._list_batch(number, self._observation.version, rows)
            decision = controller.observe(load)
            self._note_effect(load)
            if decision.mapping is not None and self._query.isActive:
                told = {"before_pct": decision.now_pct, "moved_load_pct": decision.moved_load_pct}
                if (failure := self._change(decision, told)) is not None:
                    self._kept.append(str(failure))
                    controller.refused()
        self._handled = number

    def _list_batch(self, number: int, version: int, rows: F64) -> None:
        if rows.sum() > 0.0:
            self._batches.append(Batch(number, version, tuple(int(count) for count in rows)))

    def _note_effect(self, load: BatchLoad) -> None:
        """Once the first batches under a new version have been seen, write λ into its entry."""
        last = self._store.versions[-1]
        if last.number == 1 or "after_pct" in last.figures or load.rows.sum() == 0.0:
            return
        self._effect.append(load.imbalance_pct)
        if len(self._effect) == _EFFECT_BATCHES:
            self._store.note(last.number, {"after_pct": sum(self._effect) / len(self._effect)})
            self._effect = []

    def _change(self, decision: Decision, figures: dict[str, float]) -> Exception | None:
        """Stop, bring the mapping in force, start. Where that fails the query goes on as it was, and the reason is returned."""
        spark, checkpoint, store, running = self._pipeline.spark, self._pipeline.checkpoint, self._store, self._query.isActive
        change: Callable[..., Any] = change_by_moving if store.placement.window is None else change_windows
        told = {**figures, "expected_pct": decision.expected_pct}
        before = store.versions[-1].number
        failure: Exception | None = None
        try:
            check_change(spark, checkpoint, store)
        except _REFUSALS as error:
            return error
        self._query.stop()
        mapping_store.reached("stopped")
        if self._query.exception() is not None:
            return None  # it had failed by itself, which its user will see
        try:
            change(spark, checkpoint, store, decision.mapping, reason=decision.reason, figures=told)
        except _REFUSALS as error:
            failure = error
            # What is written counts, not what this object remembers of it.
            store.load()
            recover_move(spark, checkpoint, store)
        if store.versions[-1].number != before and self._controller is not None:
            self._effect = []
            self._controller.changed(self.mapping, expected_pct=decision.expected_pct)
        if running:
            self._query = self._start()
        return failure

    def _wait_for_controller(self, query: StreamingQuery) -> None:
        """Progress reaches the controller a moment after the batch."""
        deadline = time.monotonic() + _REPORT_S
        while self._listener is not None and time.monotonic() < deadline:
            last = query.lastProgress
            observation = self._observation
            if last is None or observation is None or observation.read(last.observedMetrics) is None:
                return
            if self._handled >= last.batchId or query is not self._query or self._error is not None:
                return
            time.sleep(0.02)
