"""A running streaming query whose keys are placed by a mapping that may change while it runs."""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Row
from pyspark.sql.streaming.query import StreamingQuery

from evenly.errors import ImmovableState
from evenly.kernels.types import F64
from evenly.keys.controller import BatchLoad, Decision, DriftController
from evenly.keys.mapping import Mapping
from evenly.spark.jvm.read_rows import ReadRows
from evenly.spark.streaming import mapping_store
from evenly.spark.streaming.batches import Batch, BatchLog
from evenly.spark.streaming.changing import change_by_moving, change_windows, check_change, recover_move
from evenly.spark.streaming.mapping_store import MappingStore, Version
from evenly.spark.streaming.movable import REFUSALS, why_immovable, why_not_again
from evenly.spark.streaming.observing import Observation, ProgressListener
from evenly.spark.streaming.running_query import RunningQuery
from evenly.spark.streaming.starting import Pipeline
from evenly.spark.streaming.waiting import forgotten_end
from evenly.spark.worker_errors import own_error, worker_errors

_LOG = logging.getLogger(__name__)
_EFFECT_BATCHES = 3
_REPORT_S = 10.0
_REFUSALS_KEPT = 1_000


class KeyedQuery(RunningQuery):
    """A streaming query under a versioned mapping: see `stream_by_key`.

        query = evenly.stream_by_key(rows, visits, key="user", instances=16, checkpoint="/data/visits")
        query.mapping.version, query.changes, query.refusals

    It stands for one query over all the times that it is stopped and started for a new mapping. `query` is the
    `StreamingQuery` that runs now (during a change: that was stopped), and `runId`, `status` and progress are that run's.
    Wait for this object rather than for that one.
    """

    def __init__(self, pipeline: Pipeline, store: MappingStore, controller: DriftController | None) -> None:
        self._pipeline, self._store, self._controller = pipeline, store, controller
        self._name = f"__evenly_{uuid.uuid4().hex}"
        self._run = 0
        self._batches = BatchLog()
        self._kept: deque[str] = deque(maxlen=_REFUSALS_KEPT)
        self._effect: list[float] = []
        self._effect_unwritten = False
        self._handled = -1
        self._error: BaseException | None = None
        # One change, stop or batch at a time has the turn, for as long as a move takes. What users ask for waits for no turn.
        self._turn = threading.RLock()
        self._settled = threading.Condition()
        self._changing = False
        self._stopping = False
        self._progress: queue.SimpleQueue[tuple[int, dict[str, Row]] | None] = queue.SimpleQueue()
        self._listener: ProgressListener | None = None
        self._observation: Observation | None = None
        self._before: tuple[Observation, ReadRows] | None = None
        self._read_rows: ReadRows | None = None
        self._decides = True
        self._immovable = None if controller is None else why_immovable(pipeline.spark, pipeline.checkpoint, store)
        if controller is not None:
            self._listener = ProgressListener(lambda batch, metrics: self._progress.put((batch, metrics)))
            pipeline.spark.streams.addListener(self._listener)
        try:
            super().__init__(self._start())
        except BaseException:
            self._close()
            raise
        if controller is not None:
            threading.Thread(target=self._follow, name="evenly controller", daemon=True).start()

    @property
    def mapping(self) -> Mapping:
        """The mapping in force; with windows, the one for new windows."""
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
        """Why changes could not be brought in force; of state that can never be moved, said once at the start."""
        return tuple(self._kept)

    @property
    def batches(self) -> tuple[Batch, ...]:
        """What the partitions held in the last batches of this driver, in order; none with `controller=False`.

        At most 10,000 are remembered, and at most 32 MiB of them.
        """
        return self._batches.all()

    @property
    def isActive(self) -> bool:  # noqa: N802 - as StreamingQuery has it
        """Whether the query runs. It does while its mapping changes; nothing here waits for that."""
        return self._changing or bool(self._query.isActive)

    def exception(self) -> BaseException | None:
        """What ended the query, or kept it from being started again; None while all is well."""
        return own_error(self._error) or self._error or super().exception()

    @worker_errors()
    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - as StreamingQuery has it
        """Wait until the query ends, by `stop`, by itself or by an error, which is raised; False after `timeout` seconds.

        A change of the mapping does not end it. `spark.streams.awaitAnyTermination()` returns at a change:
        use `evenly.await_any_termination(spark)`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            query = self._query
            left = 1.0 if deadline is None else min(1.0, deadline - time.monotonic())
            try:
                ended = bool(query.awaitTermination(max(left, 0.001)))  # type: ignore[arg-type] # seconds need not be whole
            except PySparkException:
                self._close()
                raise
            with self._settled:
                if ended and self._changing:
                    self._settled.wait(max(left, 0.001))
                if self._error is not None:
                    raise self._error
                over = ended and query is self._query and not self._changing
            if over:
                self._close()
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    @worker_errors()
    def processAllAvailable(self) -> None:  # noqa: N802 - as StreamingQuery has it
        """Wait until all rows that are there have been processed, and the controller has seen them. For tests."""
        while True:
            query = self._query_between_changes()
            query.processAllAvailable()
            if query is self._query_between_changes():
                self._wait_for_controller(query)
            now = self._query_between_changes()
            if self._error is not None:
                raise self._error
            if query is now:
                return

    def change_mapping(self, mapping: Mapping, *, reason: str = "asked for") -> Version:
        """Change to another mapping now: stop, bring it in force, start again. No row is lost or counted twice.

        Where it is refused (state that cannot be moved, no batch finished yet), the query goes on and the reason is raised.
        """
        self._store.placement.check(mapping)
        with self._turn:
            failure = self._change(Decision(reason, 0.0, mapping.expected_imbalance_pct, mapping=mapping), {})
            if failure is not None:
                raise failure
            return self._store.versions[-1]

    def stop(self) -> None:
        """Stop the query, after a change that is under way. `stream_by_key` with the same checkpoint starts it again."""
        self._stopping = True
        try:
            # Without the turn: a sink may call this, while a change that has the turn waits for the sink's batch to end. Spark
            # interrupts a batch that stops its own query, so that nothing waits here then.
            self._query.stop()
        except BaseException:
            self._close()
            raise
        with self._turn:
            self._query.stop()
            self._close()

    def _close(self) -> None:
        with self._settled:
            listener, self._listener = self._listener, None
        if listener is not None:
            self._pipeline.spark.streams.removeListener(listener)
            self._progress.put(None)

    def _query_between_changes(self) -> StreamingQuery:
        with self._settled:
            self._settled.wait_for(lambda: not self._changing)
            return self._query

    def _start(self) -> StreamingQuery:
        self._run += 1
        version, instances = self._store.versions[-1], self._store.placement.instances
        # The last batches of a run are reported when the next one has been started.
        if self._observation is not None and self._read_rows is not None:
            self._before = (self._observation, self._read_rows)
        if self._controller is not None:
            name = f"{self._name}_{self._run}"
            learner = self._controller.learner
            self._observation = Observation(
                name, version=version.number, instances=instances, learner=learner, sides=len(self._pipeline.frames)
            )
        query, grouped = self._pipeline.start(self._store, self._observation)
        self._read_rows = ReadRows(self._pipeline.spark, query, instances, grouped.placed)
        _LOG.info(
            "%s: started under version %d of its mapping (%s), %d instances, run %s",
            self._pipeline.checkpoint,
            version.number,
            version.reason,
            instances,
            query.runId,
        )
        # What can never be done is not decided in vain.
        if self._controller is not None:
            self._immovable = self._immovable or why_not_again(query)
        self._decides = self._immovable is None and grouped.stateful
        if self._immovable is not None and grouped.stateful and not self._kept:
            self._kept.append(self._immovable)
            _LOG.warning("%s: the mapping will stay as it is, whatever λ is: %s", self._pipeline.checkpoint, self._immovable)
        return query

    def _follow(self) -> None:
        """The controller's thread: takes in every batch, and changes the mapping when it says so."""
        while (item := self._progress.get()) is not None:
            try:
                with self._turn:
                    self._take_in(*item)
            except BaseException as error:  # noqa: BLE001 - the query may have been stopped for a change; its user must see it
                _LOG.error("%s: the controller has ended: %s", self._pipeline.checkpoint, error)
                with self._settled:
                    self._error = error
                    self._settled.notify_all()
                return

    def _take_in(self, number: int, metrics: dict[str, Row]) -> None:
        controller = self._controller
        if controller is None or self._listener is None:
            return
        if self._before is not None and (late := self._before[0].read(metrics)) is not None:
            self._list_batch(number, self._before[0].version, late[0], self._before[1])
        if self._observation is None or (seen := self._observation.read(metrics)) is None:
            return
        rows, load = seen
        if rows.sum() > 0.0:
            self._list_batch(number, self._observation.version, rows, self._read_rows)
            if self._decides:
                self._decide(controller, load)
        self._handled = number

    def _decide(self, controller: DriftController, load: BatchLoad) -> None:
        decision = controller.observe(load)
        self._note_effect(load)
        if decision.mapping is None or self._stopping or not self._query.isActive:
            return
        told = {"before_pct": decision.now_pct, "moved_load_pct": decision.moved_load_pct}
        if (failure := self._change(decision, told)) is not None:
            self._kept.append(str(failure))
            controller.refused()

    def _list_batch(self, number: int, version: int, rows: F64, read_rows: ReadRows | None) -> None:
        if rows.sum() > 0.0:
            self._batches.add(number, version, rows, None if read_rows is None else read_rows.of(number))

    def _note_effect(self, load: BatchLoad) -> None:
        """Once the first batches under a new version are seen, write λ into its entry; where that fails, at the next batch."""
        last = self._store.versions[-1]
        if last.number == 1 or "after_pct" in last.figures or load.rows.sum() == 0.0:
            return
        if len(self._effect) < _EFFECT_BATCHES:
            self._effect.append(load.imbalance_pct)
        if len(self._effect) < _EFFECT_BATCHES:
            return
        after_pct = sum(self._effect) / len(self._effect)
        try:
            self._store.note(last.number, {"after_pct": after_pct})
        except (*REFUSALS, OSError) as error:
            if not self._effect_unwritten:
                _LOG.warning(
                    "%s: λ after version %d (%.1f %%) could not be written and will be tried again: %s",
                    self._pipeline.checkpoint,
                    last.number,
                    after_pct,
                    _first_line(error),
                )
            self._effect_unwritten = True
            return
        _LOG.info("%s: λ is %.1f %% after version %d of the mapping", self._pipeline.checkpoint, after_pct, last.number)
        self._effect, self._effect_unwritten = [], False

    def _change(self, decision: Decision, figures: dict[str, float]) -> Exception | None:
        """Stop, bring the mapping in force, start. Where that fails the query goes on as it was, and the reason is returned."""
        running = bool(self._query.isActive)
        with self._settled:
            self._changing = running
        try:
            failure = self._changed(decision, {**figures, "expected_pct": decision.expected_pct}, running=running)
        except BaseException as error:
            # It was stopped and did not start again: whoever waits for it must not take that for a good end.
            with self._settled:
                self._error = error if running and not self._query.isActive else self._error
            raise
        finally:
            with self._settled:
                self._changing = False
                self._settled.notify_all()
        if failure is not None:
            _LOG.warning(
                "%s: a change of the mapping was refused (%s): %s",
                self._pipeline.checkpoint,
                decision.reason,
                _first_line(failure),
            )
        return failure

    def _changed(self, decision: Decision, figures: dict[str, float], *, running: bool) -> Exception | None:
        spark, checkpoint, store = self._pipeline.spark, self._pipeline.checkpoint, self._store
        change: Callable[..., Any] = change_by_moving if store.placement.window is None else change_windows
        before = store.versions[-1].number
        failure: Exception | None = None
        if running and (why := why_not_again(self._query)) is not None:
            return ImmovableState(why)
        try:
            check_change(spark, checkpoint, store)
        except REFUSALS as error:
            return error
        with forgotten_end(spark, str(self._query.id)):
            self._query.stop()
        mapping_store.reached("stopped")
        if self._query.exception() is not None:
            return None  # it had failed by itself, which its user will see
        try:
            change(spark, checkpoint, store, decision.mapping, reason=decision.reason, figures=figures)
        except REFUSALS as error:
            failure = error
            # What is written counts, not what this object remembers of it.
            store.load()
            recover_move(spark, checkpoint, store)
        last = store.versions[-1]
        if last.number != before:
            self._effect = []
            told = ", ".join(f"{name} {value:.1f}" for name, value in last.figures.items())
            _LOG.info("%s: version %d of the mapping is in force: %s (%s)", checkpoint, last.number, last.reason, told)
            if self._controller is not None:
                self._controller.changed(self.mapping, expected_pct=decision.expected_pct)
        if running and not self._stopping:
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


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
