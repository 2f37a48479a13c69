"""From what runs to where records go: nothing that becomes of a record can end a query or make it wait."""

from __future__ import annotations

import atexit
import io
import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from evenly.errors import InvalidParameter
from evenly.facts.labels import KeyLabels
from evenly.facts.records import Batch, Decision, EventName, Fact, Graph, Kind
from evenly.facts.sinks.json_lines import JsonLines
from evenly.facts.sinks.logger import LoggerSink

_LOG = logging.getLogger(__name__)
_MOST_WAITING = 2_000
_RECENT = 512
_CLOSE_S = 5.0


@runtime_checkable
class FactSink(Protocol):
    """Where records go. `write` is called by one thread, one record at a time."""

    def write(self, fact: Fact) -> None:
        """Take a record in."""

    def close(self) -> None:
        """No record will come any more."""


class _Called:
    """A function as a sink."""

    def __init__(self, function: Callable[[Fact], object]) -> None:
        self.function = function

    def write(self, fact: Fact) -> None:
        self.function(fact)

    def close(self) -> None:
        pass


class Emitting:
    """What `emit_to` returns: `close` ends it, `flush` waits until all records so far are written.

    A thread of its own writes. At most 2,000 records wait for it; those that come then, and those that the sink refuses, are
    left out and counted in `dropped`, with one warning. As a context manager it ends with its block.
    """

    def __init__(self, sink: FactSink, *, names: bool) -> None:
        self.sink, self.names = sink, names
        self.written = self.dropped = 0
        self._waiting: queue.Queue[Fact | threading.Event | None] = queue.Queue(_MOST_WAITING)
        self._warned, self._asked_to_end = threading.Lock(), False
        self._thread = threading.Thread(target=self._write_all, name="evenly facts", daemon=True)
        self._thread.start()

    def put(self, fact: Fact) -> None:
        """Have a record written; returns at once."""
        try:
            self._waiting.put_nowait(fact)
        except queue.Full:
            self._drop(f"{_MOST_WAITING} records wait already")

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until what was put so far is written; False if that takes longer."""
        reached = threading.Event()
        try:
            self._waiting.put(reached, timeout=timeout_s)
        except queue.Full:
            return False
        return not self._thread.is_alive() or reached.wait(timeout_s)

    def close(self) -> None:
        """Write what waits, for at most five seconds, and end. A second call does nothing."""
        if _detach(self):
            _end((self,))

    def ask_to_end(self, until_s: float = 0.0) -> bool:
        """Have the thread end after what waits; False if by then (on the monotonic clock) there is no room to tell it."""
        with suppress(queue.Full):
            if not self._asked_to_end:
                self._waiting.put(None, timeout=max(0.0, until_s - time.monotonic()))
                self._asked_to_end = True
        return self._asked_to_end

    def await_end(self, until_s: float) -> None:
        """Wait for that. A thread whose sink hangs ends with the process."""
        if self.ask_to_end(until_s) and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, until_s - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _write_all(self) -> None:
        while (told := self._waiting.get()) is not None:
            if isinstance(told, threading.Event):
                told.set()
                continue
            try:
                self.sink.write(told)
                self.written += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, no query may end by it
                self._drop(f"{type(error).__name__}: {error}")
        try:
            self.sink.close()
        except Exception as error:  # noqa: BLE001
            _LOG.warning("%s could not be closed: %s", type(self.sink).__name__, error)

    def _drop(self, why: str) -> None:
        self.dropped += 1
        if self._warned.acquire(blocking=False):
            _LOG.warning("a record was left out (%s), and others will be without a word: `dropped` counts them", why)


_lock = threading.Lock()
_attached: tuple[Emitting, ...] = ()
_last_words: list[Callable[[], object]] = []


def emit_to(
    to: str | os.PathLike[str] | logging.Logger | FactSink | Callable[[Fact], object], *, names: bool = False
) -> Emitting:
    """Have everything that runs in this process from now on tell what it does, to a file or to what watches your jobs.

        evenly.emit_to("facts.jsonl")
        query = evenly.stream_by_key(rows, visits, key="user", instances=16, checkpoint="/data/visits")

    - `to`: the path of a local file (JSON lines, see `JsonLines`), a `logging.Logger`, `evenly.Prometheus()`,
      `evenly.OpenTelemetry()`, any object with `write(fact)` and `close()`, or a function of a `Fact`.
    - `names`: whether keys may be told by what identifies them. Without it a key is # and a digest with a secret salt.

    Queries that were started before are told from their next batch on. Call it as often as there are places; `close` what it
    returns to end it. What fails there ends no query and holds none up: it is one warning, and `dropped` counts.
    """
    global _attached  # noqa: PLW0603 - what the process's jobs tell is one for the process
    sink: FactSink
    if isinstance(to, str | os.PathLike):
        sink = JsonLines(to)
    elif isinstance(to, logging.Logger):
        sink = LoggerSink(to)
    elif isinstance(to, FactSink) and not isinstance(to, type | io.IOBase):
        sink = to
    elif callable(to) and not isinstance(to, type):
        sink = _Called(to)
    else:
        raise InvalidParameter(
            f"to must be a path, a logger, an object with write and close, or a function of a record, got {to!r}"
        )
    with _lock:
        there = next((it for it in _attached if _alike(it.sink, sink)), None)
        if there is not None:
            if isinstance(sink, JsonLines) and sink is not there.sink:
                sink.close()
            if there.names != names:
                raise InvalidParameter(f"records go to {to} already, with names={there.names}: close that first")
            return there
        made = Emitting(sink, names=names)
        if not _attached:
            atexit.register(_close_all)
        _attached = (*_attached, made)
    return made


def _alike(one: FactSink, other: FactSink) -> bool:
    """Whether it is the same place: a cell of a notebook that is run again is not to have every record told twice."""
    if isinstance(one, JsonLines) and isinstance(other, JsonLines):
        return one.path.resolve() == other.path.resolve()
    if isinstance(one, LoggerSink) and isinstance(other, LoggerSink):
        return one.logger is other.logger
    if isinstance(one, _Called) and isinstance(other, _Called):
        return one.function == other.function
    return one is other


def is_emitting() -> bool:
    """Whether records go anywhere."""
    return bool(_attached)


def are_names_allowed() -> bool:
    """Whether records that name keys go anywhere."""
    return any(it.names for it in _attached)


def before_the_end(tell: Callable[[], object]) -> None:
    """Have `tell` called at the end of the process while its records still go somewhere."""
    _last_words.append(tell)


def _detach(emitting: Emitting) -> bool:
    global _attached  # noqa: PLW0603
    with _lock:
        was = emitting in _attached
        _attached = tuple(it for it in _attached if it is not emitting)
        if was and not _attached:
            atexit.unregister(_close_all)
    return was


def _end(emitting: Sequence[Emitting]) -> None:
    until_s = time.monotonic() + _CLOSE_S
    for one in emitting:
        one.ask_to_end()
    for one in emitting:
        one.await_end(until_s)


def _close_all() -> None:
    """At the end of the process: several sinks that hang hold it up no longer than one."""
    for tell in _last_words:
        with suppress(Exception):
            tell()
    _end([it for it in _attached if _detach(it)])


def _forget() -> None:
    """In a process that was forked: the threads that write are its parent's, and so is all that runs."""
    global _attached, _lock
    _attached, _lock = (), threading.Lock()
    _last_words.clear()


if hasattr(os, "register_at_fork"):  # where processes can be forked
    os.register_at_fork(after_in_child=_forget)


_HIDDEN, _NAMED = KeyLabels(), KeyLabels(names=True)
_tell_of_themselves: set[str] = set()


def tells_of_itself(run: str) -> bool:
    """Whether Evenly has started what `run` identifies in this process, a query or a dataflow."""
    return run in _tell_of_themselves


class Teller:
    """One running thing, which tells records of itself: to all that `emit_to` has attached, and to `recent`.

    What it is told before `begin` says who it is waits for that. `clock` says seconds since 1970. No method raises: a record
    that cannot be made is one warning.
    """

    def __init__(self, *, kind: Kind, clock: Callable[[], float]) -> None:
        self.kind, self.run, self.name = kind, "", ""
        self._clock = clock
        self._recent: deque[Fact] = deque(maxlen=_RECENT)
        self._early: list[Callable[[], None]] = []
        self._begun = self._ended = self._failed = False
        self._lock = threading.RLock()

    @property
    def recent(self) -> tuple[Fact, ...]:
        """The last 512 records, oldest first; keys are not named in them."""
        with self._lock:
            return tuple(self._recent)

    def begin(
        self,
        run: str,
        name: str | None = None,
        *,
        mapping_version: int | None = None,
        instances: int | None = None,
        graph: Graph | None = None,
    ) -> None:
        """Tell the start of what `run` identifies, also after a restart, and all that waited for it."""
        with self._lock:
            self.run, self.name, self._begun = run, name or "", True
            if self.kind not in ("query", "batch"):
                _tell_of_themselves.add(run)
            early, self._early = self._early, []
            self.tell("start", mapping_version=mapping_version, instances=instances, graph=graph)
            for told in early:
                told()

    def tell(
        self,
        event: EventName,
        *,
        mapping_version: int | None = None,
        instances: int | None = None,
        batch: Callable[[KeyLabels], Batch] | None = None,
        decision: Decision | None = None,
        graph: Graph | None = None,
        error: str = "",
    ) -> None:
        """Tell one record. `batch` makes that part, given how keys are called."""
        time_s = self._clock()

        def made(labels: KeyLabels) -> Fact:
            return Fact(
                time=time_s,
                run=self.run,
                name=self.name,
                kind=self.kind,
                event=event,
                mapping_version=mapping_version,
                instances=instances,
                batch=None if batch is None else batch(labels),
                decision=decision,
                graph=graph,
                error=error,
            ).fitted()

        with self._lock:
            if self._begun:
                self._put(made)
            elif len(self._early) < _RECENT:
                self._early.append(lambda: self._put(made))

    def end(self, error: BaseException | None = None, *, mapping_version: int | None = None) -> None:
        """Tell the end, once."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            first = "" if error is None else next(iter(str(error).strip().splitlines()), type(error).__name__)
            self.tell("end", mapping_version=mapping_version, error=first)

    def _put(self, made: Callable[[KeyLabels], Fact]) -> None:
        try:
            hidden = made(_HIDDEN)
            self._recent.append(hidden)
            named: Fact | None = None
            for emitting in _attached:
                if emitting.names and named is None:
                    named = made(_NAMED)
                emitting.put(named if emitting.names and named is not None else hidden)
        except Exception as failure:  # noqa: BLE001 - whatever it is, no query may end by it
            if not self._failed:
                self._failed = True
                _LOG.warning("%s: a record could not be made: %s: %s", self.run, type(failure).__name__, failure)
