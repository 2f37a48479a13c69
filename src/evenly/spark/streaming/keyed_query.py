"""A running streaming query whose keys are placed by a mapping that may change while it runs.

`evenly.keys.query_machine` decides, without Spark, what is to be done and when. Here it is carried out, by the thread whose
event it followed from: the controller's, or that of a user who asked for a change.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from evenly.errors import CheckpointMismatch, ImmovableState, InvalidParameter, WaitsForItself
from evenly.keys import query_instructions as do
from evenly.keys.batches import Batch
from evenly.keys.controller import DriftController, check_counted
from evenly.keys.mapping import Mapping
from evenly.keys.query_machine import QueryMachine
from evenly.keys.versions import Version
from evenly.spark.jvm.last_batch import end_with_batch
from evenly.spark.jvm.progress_events import BatchReport, ProgressListener
from evenly.spark.jvm.query_news import hear
from evenly.spark.jvm.read_rows import ReadRows
from evenly.spark.placing.mapping_check import check_is
from evenly.spark.streaming import mapping_store
from evenly.spark.streaming.carrying import Carrying, Event
from evenly.spark.streaming.changing import bring_in_force, check_change
from evenly.spark.streaming.kept_rows import KeptRows
from evenly.spark.streaming.keyed_facts import KeyedFacts
from evenly.spark.streaming.mapping_store import MappingStore
from evenly.spark.streaming.movable import REFUSALS, why_immovable, why_not_again
from evenly.spark.streaming.observing import Observation
from evenly.spark.streaming.requests import Requests
from evenly.spark.streaming.running_query import RunningQuery, teller_of
from evenly.spark.streaming.starting import Pipeline
from evenly.spark.streaming.waiting import forgotten_end
from evenly.spark.worker_errors import own_error, worker_errors

_LOG = logging.getLogger(__name__)
_REPORT_S = 60.0
"""How long nothing may be heard of a report before it is no longer waited for: Spark drops events where it cannot keep up."""
_QUERY_ID = "sql.streaming.queryId"  # a local property that Spark sets on the thread that runs a query, and so its sink


class _Run(NamedTuple):
    query: StreamingQuery
    observation: Observation
    read_rows: ReadRows


class KeyedQuery(RunningQuery):
    """A streaming query under a versioned mapping: see `stream_by_key`.

        query = evenly.stream_by_key(rows, visits, key="user", instances=16, checkpoint="/data/visits")
        query.mapping.version, query.changes, query.refusals

    It stands for one query over all the times that it is stopped and started for a new mapping. `query` is the
    `StreamingQuery` that runs now (during a change: that is stopped), and `runId`, `status` and progress are that run's.
    Wait for this object rather than for that one, and stop this one: a stop of that one ends this one too where it breaks off
    a batch, but while a change has nothing left to wait for it is taken for the change's own, and the query starts again.
    """

    def __init__(self, pipeline: Pipeline, store: MappingStore, controller: DriftController | None) -> None:
        self._pipeline, self._store = pipeline, store
        self._learner = None if controller is None else controller.learner
        self._promises = None if controller is None else controller.promises
        self._stopped_at_s: float | None = None
        last = store.versions[-1]
        known = last.number == 1 or "after_pct" in last.figures
        self._machine = QueryMachine(version=last.number, effect_known=known, controller=controller)
        self._carrying = Carrying(self._machine, self._step)
        self._name = f"__evenly_{uuid.uuid4().hex}"
        self._facts = KeyedFacts(teller_of("keyed"), store, self._machine)
        self._kept = KeptRows(pipeline.spark, pipeline.checkpoint)
        self._runs: dict[int, _Run] = {}
        self._told: queue.SimpleQueue[BatchReport | str | None] = queue.SimpleQueue()
        self._listener: ProgressListener | None = None
        self._immovable = None if controller is None else why_immovable(pipeline.spark, pipeline.checkpoint, store)
        if controller is not None:
            self._listener = ProgressListener(self._name, self._told.put, self._told.put)
            self._listener.listen(pipeline.spark)
        try:
            self._carrying.tell(self._start())
        except BaseException:
            self._unwatch()
            raise
        self._tellers = (self._facts.teller,)
        self._facts.begin(self.id, self.name)
        if controller is not None:
            threading.Thread(target=self._follow, name="evenly controller", daemon=True).start()
        self._requests = Requests(self, pipeline.spark, pipeline.checkpoint)

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
        """Why changes could not be brought in force, the last 1,000; of state that can never be moved, said once at the start.

        Where the controller itself has failed this says so: the query goes on under its mapping, and is watched no more.
        """
        with self._carrying.lock:
            return self._machine.refusals

    @property
    def batches(self) -> tuple[Batch, ...]:
        """What the partitions held in the last batches of this driver, in order; none with `controller=False`.

        At most 10,000 are remembered, and at most 32 MiB of them.
        """
        return self._machine.batches.all()

    @property
    def isActive(self) -> bool:  # noqa: N802 - as StreamingQuery has it
        """Whether the query runs. It does while its mapping changes; nothing here waits for that."""
        while True:
            query = self._query
            active = bool(query.isActive) or self._changing
            if query is self._query:
                return active

    @property
    def _changing(self) -> bool:
        return self._machine.changing

    def exception(self) -> BaseException | None:
        """What ended the query, or kept it from being started again; None while it runs and after a good end.

        What the controller raised is in `refusals`: it ends no query.
        """
        failure = self._machine.failure
        return own_error(failure) or failure or super().exception()

    @worker_errors()
    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - as StreamingQuery has it
        """Wait until the query ends, by `stop`, by itself or by an error, which is raised; False after `timeout` seconds.

        A change of the mapping does not end it, unless it cannot be started again: what kept it from that is raised.
        `spark.streams.awaitAnyTermination()` returns at a change: use `evenly.await_any_termination(spark)`.
        """
        self._refuse_from_inside("awaitTermination")
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            query, run = self._now()
            left = max(1.0 if deadline is None else min(1.0, deadline - time.monotonic()), 0.001)
            try:
                ended = bool(query.awaitTermination(left))  # type: ignore[arg-type] # seconds need not be whole
            except PySparkException as error:
                self._carrying.tell(partial(self._machine.ended, run, error))
                raise
            if ended:
                self._carrying.tell(partial(self._machine.ended, run))
            with self._carrying.lock:
                if ended and self._changing:
                    self._carrying.lock.wait(left)
                if self._machine.failure is not None:
                    raise self._machine.failure
                over = ended and run == self._machine.run and not self._changing
            if over:
                break
            if deadline is not None and time.monotonic() >= deadline:
                return False
        left = _REPORT_S if deadline is None else deadline - time.monotonic()
        self._hear(lambda: self._machine.drained >= run, "the last batches", left)
        self._facts.ended(run)
        return True

    @worker_errors()
    def processAllAvailable(self) -> None:  # noqa: N802 - as StreamingQuery has it
        """Wait until all rows that are there have been processed, and the controller has seen them. For tests."""
        self._refuse_from_inside("processAllAvailable")
        while True:
            query, run = self._between_changes()
            query.processAllAvailable()
            self._wait_for_controller(query, run)
            now, _ = self._between_changes()
            if self._machine.failure is not None:
                raise self._machine.failure
            if query is now:
                return

    @worker_errors()
    def change_mapping(self, mapping: Mapping, *, reason: str = "asked for") -> Version:
        """Change to another mapping now: stop, bring it in force, start again. No row is lost or counted twice.

        Where it is refused (state that cannot be moved, no batch finished yet), the query goes on and the reason is raised.
        Another change that is under way is waited for. Of a query that was stopped, or has ended well by itself, the mapping
        is in force from its next start on. Of one that has failed, what ended it is raised. The query's own sink and
        `build` cannot call this, since it waits for their end: `WaitsForItself`.
        """
        check_is(mapping, Mapping)
        self._store.placement.check(mapping)
        if self._learner is not None:
            check_counted(mapping, self._learner)
        self._refuse_from_inside("change_mapping")
        self._look_for_the_end()
        answer = self._carrying.tell(partial(self._machine.change_asked, mapping, reason))
        self._facts.ended(self._machine.run)
        if answer is not None and answer.error is not None:
            raise answer.error
        number = self._machine.version if answer is None else answer.version
        return next(version for version in self._store.versions if version.number == number)

    def roll_back(self, version: int) -> Version:
        """Bring the mapping of an earlier version in force again, as a new one; the controller may change it again."""
        if version not in {it.number for it in self.versions}:
            raise InvalidParameter(f"there is no version {version!r} of the mapping: there are 1 to {self.versions[-1].number}")
        earlier, in_force = self._store.mapping(version), self.mapping
        if replace(earlier, version=in_force.version) == in_force:
            return self.versions[-1]
        return self.change_mapping(earlier, reason=f"back to version {version}, as asked for")

    def stop(self) -> None:
        """Stop the query, after a change that is under way. `stream_by_key` with the same checkpoint starts it again.

        A sink may call it: Spark then interrupts its batch, by an error inside the call, and runs it again at the next start.
        """
        inside = self._inside()
        self._carrying.tell(self._machine.stop_asked)
        if not inside:
            query, run = self._between_changes()
            query.stop()
            self._facts.await_end(self._carrying, run)
            self._requests.end()

    def _known(self) -> dict[str, object]:
        return super()._known() | self._facts.known(len(self.refusals))

    def _now(self) -> tuple[StreamingQuery, int]:
        with self._carrying.lock:
            return self._query, self._machine.run

    def _between_changes(self) -> tuple[StreamingQuery, int]:
        with self._carrying.lock:
            self._carrying.settle()
            return self._now()

    def _inside(self) -> bool:
        """Whether this thread is one that a change would wait for: the batch's, or the one that carries out a change."""
        with suppress(AttributeError, *REFUSALS):  # the session may have gone
            if self._pipeline.spark.sparkContext.getLocalProperty(_QUERY_ID) == self.id:
                return True
        return self._carrying.on_this_thread

    def _refuse_from_inside(self, what: str) -> None:
        if self._inside():
            raise WaitsForItself(
                f"{what} was called by what the query itself runs, its sink or build, and would wait for its end: call it from "
                "another thread, for which nothing inside waits"
            )

    def _step(self, instruction: do.Instruction) -> Event | None:
        """Carry out one instruction; the event that tells the machine how it went."""
        machine, checkpoint = self._machine, self._pipeline.checkpoint
        match instruction:
            case do.Log(level, message):
                _LOG.log(level, "%s: %s", checkpoint, message)
            case do.Unwatch():
                self._unwatch()
            case do.EndRun():
                self._query.stop()
            case do.Check(running):
                self._check(running=running)
                self._look_for_the_end()
                return machine.checked
            case do.StopRun():
                with forgotten_end(self._pipeline.spark, self._query):
                    by_another = end_with_batch(self._query)
                    self._stopped_at_s = time.monotonic()
                    self._query.stop()
                mapping_store.reached("stopped")
                return partial(machine.stopped, self._query.exception(), by_another=by_another)
            case do.Refused(why, change):
                self._facts.refused(why, change)
            case do.Enforce(change):
                refusal = bring_in_force(self._pipeline.spark, checkpoint, self._store, change)
                self._facts.enforced(change)
                return partial(machine.enforced, self._store.versions[-1].number, self.mapping, refusal)
            case do.Start():
                return self._start()
            case do.Note(version, figures):
                self._store.note(version, figures)
                self._facts.noted(figures)
                return machine.noted
        return None

    def _check(self, *, running: bool) -> None:
        spark, checkpoint = self._pipeline.spark, self._pipeline.checkpoint
        if self._grouped.fixed is not None:
            raise ImmovableState(self._grouped.fixed)
        if running and (why := why_not_again(self._query)) is not None:
            raise ImmovableState(why)
        if any(str(other.id) == self.id and str(other.runId) != self.runId for other in spark.streams.active):
            raise CheckpointMismatch(f"this query has ended, and another one runs on its checkpoint {checkpoint}: ask that one")
        self._store.check_unchanged()
        check_change(spark, checkpoint, self._store, by_slot=self._grouped.by_slot)

    def _start(self) -> Event:
        spark, checkpoint = self._pipeline.spark, self._pipeline.checkpoint
        version, instances, number = self._store.versions[-1], self._store.placement.instances, self._machine.run + 1
        observation, sides = None, len(self._pipeline.frames)
        if self._learner is not None:
            name = f"{self._name}_{number}"
            observation = Observation(name, instances=instances, learner=self._learner, sides=sides, named=self._facts.named)
        query, grouped = self._pipeline.start(self._store, observation)
        progress = self._facts.plain_batch if self._learner is None else None
        hear(query, spark, ended=partial(self._facts.ended, number, surely=True), progress=progress, lost=self._facts.lost)
        told = "%s: started under version %d of its mapping (%s), %d instances, run %s"
        _LOG.info(told, checkpoint, version.number, version.reason, instances, query.runId)
        if observation is not None:
            # What can never be done is not decided in vain.
            self._immovable = self._immovable or grouped.fixed or why_not_again(query)

        def started() -> do.Instructions:
            self._query, self._grouped = query, grouped
            if observation is not None:
                self._runs[number] = _Run(query, observation, ReadRows(spark, query, instances, grouped.placed))
            stopped_at_s, self._stopped_at_s = self._stopped_at_s, None
            stood_s = None if stopped_at_s is None else time.monotonic() - stopped_at_s
            self._facts.changed(stood_s)
            return self._machine.started(stateful=grouped.stateful, immovable=self._immovable, stood_s=stood_s)

        return started

    def _follow(self) -> None:
        """The controller's thread: takes in every batch, and changes the mapping when the machine says so."""
        while (told := self._told.get()) is not None:
            try:
                self._take_in(told)
            except BaseException as error:  # noqa: BLE001 - the query is right without it; its user must see it
                self._carrying.tell(partial(self._machine.unwatchable, error))

    def _take_in(self, told: BatchReport | str) -> None:
        self._between_changes()  # a run is known once it has been started
        if isinstance(told, str):
            for number in [number for number, run in self._runs.items() if str(run.query.runId) == told]:
                self._carrying.tell(partial(self._machine.ended, number, self._runs[number].query.exception()))
                self._keep(now=True)
                self._carrying.tell(partial(self._machine.all_seen, number))
                self._facts.ended(number)
                with self._carrying.lock:
                    self._runs = {at: run for at, run in self._runs.items() if at > number}
            return
        batch = told.number
        for number, run in list(self._runs.items()):
            if (seen := run.observation.read(told.metrics)) is not None:
                rows, load = seen[0], replace(seen[1], seconds=told.seconds)
                read = run.read_rows.of(batch) if rows.sum() > 0.0 and batch > self._machine.handled else None
                self._look_for_the_end()
                self._facts.batch(number, batch, rows, load, run.observation.names(told.metrics))
                self._carrying.tell(partial(self._machine.batch_seen, number, batch, rows, load, read))
        self._keep()

    def _keep(self, *, now: bool = False) -> None:
        """Keep beside the checkpoint what its batches carried, and what became of promises."""
        with self._carrying.lock:
            promises = None if self._promises is None else self._promises.to_json()
        self._kept.keep(self._machine.batches.all, self._store.versions[-1].number, promises, now=now)

    def _look_for_the_end(self) -> None:
        query, run = self._now()
        if not query.isActive:
            self._carrying.tell(partial(self._machine.ended, run, query.exception()))

    def _unwatch(self) -> None:
        with self._carrying.lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(*REFUSALS):  # the session may have gone
                listener.leave(self._pipeline.spark)
            self._told.put(None)

    def _wait_for_controller(self, query: StreamingQuery, run: int) -> None:
        """Reports reach the controller a moment after their batches; those of the run before, after the next was started."""
        watched = self._runs.get(run)
        if watched is None:
            return
        # Not the last progress: an idle query tells of its time without a report.
        last = max((it.batchId for it in query.recentProgress if watched.observation.is_in(it.observedMetrics)), default=-1)
        machine = self._machine
        self._hear(lambda: (machine.handled >= last and machine.drained >= run - 1) or machine.run != run, f"batch {last}")

    def _hear(self, seen: Callable[[], bool], what: str, quiet_s: float = _REPORT_S) -> None:
        """Wait until the controller has seen it, as long as reports come."""
        if not self._carrying.heard(seen, quiet_s=min(quiet_s, _REPORT_S)) and quiet_s >= _REPORT_S:
            _LOG.warning("%s: Spark has not reported %s to the controller", self._pipeline.checkpoint, what)
