"""A forked child of a Python worker that runs calls: what it is asked, what it answers, and how its end is noticed."""

from __future__ import annotations

import ctypes
import enum
import mmap
import os
import pickle
import signal
import socket
import stat
import struct
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from evenly.errors import EvenlyError
from evenly.worker.calling import Stretch
from evenly.worker.engine import known_accumulators
from evenly.worker.parts import Part

EndedCalls = tuple[Stretch, list[pa.RecordBatch]]
"""Calls that have ended, and their output."""

_LENGTH = struct.Struct("<Q")
_LOOK_S = 0.2
_BUFFER_BYTES = 1 << 20
_STANDARD = 2
_DIE_WITH_PARENT = 1


class Message(enum.Enum):
    """What a child says, beside outcomes."""

    NEXT = "give me rows"
    END = "all rows are done"


class ChildDied(Exception):
    """The child ended without having said so. `status` as `os.waitstatus_to_exitcode` gives it."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Journal:
    """The numbers of the calls that run and when they began, in memory that outlives the process that writes them."""

    def __init__(self, slots: int) -> None:
        self._memory = mmap.mmap(-1, 16 * slots)
        self._numbers = memoryview(self._memory)[: 8 * slots].cast("q")
        self._since_s = memoryview(self._memory)[8 * slots :].cast("d")
        self._free = list(range(slots))

    def wrapped(self, function: Callable[[Any], Any], *, waits: bool) -> Callable[[tuple[int, Any]], Any]:
        """`function`, for a call's number and what it gets; the call is in the journal while it runs."""
        numbers, since_s, free, clock = self._numbers, self._since_s, self._free, time.monotonic

        def called(numbered: tuple[int, Any]) -> Any:
            slot = free.pop()
            try:
                since_s[slot] = clock()
                numbers[slot] = numbered[0] + 1
                return function(numbered[1])
            finally:
                numbers[slot] = 0
                free.append(slot)

        async def awaited(numbered: tuple[int, Any]) -> Any:
            slot = free.pop()
            try:
                since_s[slot] = clock()
                numbers[slot] = numbered[0] + 1
                made: Awaitable[Any] = function(numbered[1])
                return await made
            finally:
                numbers[slot] = 0
                free.append(slot)

        return awaited if waits else called

    def running(self) -> list[tuple[int, float]]:
        """The calls that are running, or were when their process died: number and beginning, by the monotonic clock."""
        return [(number - 1, self._since_s[slot]) for slot, number in enumerate(self._numbers) if number]

    def close(self) -> None:
        self._numbers.release()
        self._since_s.release()
        self._memory.close()


class Child:
    """A child that runs `body` over the parts it is given, and says what came of them. It never outlives its parent."""

    def __init__(self, body: Callable[[Iterator[Part]], Iterator[EndedCalls]]) -> None:
        self._socket, theirs = socket.socketpair()
        for end in (self._socket, theirs):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _live(theirs, body, parent)
        theirs.close()
        self._status: int | None = None
        self._counted: dict[int, Any] = {}
        self._socket.settimeout(_LOOK_S)

    def receive(self) -> Message | EndedCalls:
        """What the child says next; waits for it as long as it lives. What fails there beside its calls is raised here."""
        said = pickle.loads(self._read(_LENGTH.unpack(self._read(_LENGTH.size))[0]))  # noqa: S301 - our own child's
        if isinstance(said, Message):
            return said
        if isinstance(said, BaseException):
            raise said
        told, counted, made = said
        self._counted = counted
        stretch = Stretch(payloads=[], values=[], **told)
        return stretch, [pa.ipc.read_record_batch(pa.py_buffer(data), schema) for schema, data in made]

    def give(self, part: Part | None) -> None:
        """Rows to run; None: there are no more."""
        said = None if part is None else (part.batch.schema, _serialized(part.batch), *part[1:])
        data = memoryview(pickle.dumps(said, 5))
        for piece in (memoryview(_LENGTH.pack(len(data))), data):
            sent = 0
            while sent < len(piece):
                try:
                    sent += self._socket.send(piece[sent:])
                except TimeoutError:
                    self._look()
                except OSError:
                    self._gone()

    def close(self) -> None:
        """End the child, whatever it does; what it added to Spark's accumulators counts for the calls that it reported."""
        self._end()
        self._socket.close()
        known = known_accumulators()
        for number, value in self._counted.items():
            known[number].add(value)

    def _read(self, count: int) -> bytearray:
        data = bytearray(count)
        view, got = memoryview(data), 0
        ended = False
        while got < count:
            try:
                more = self._socket.recv_into(view[got:])
            except TimeoutError:
                # Who else has an end of the socket (a process that the function forked) may keep it open.
                if ended:
                    self._gone()
                ended = self._reap(os.WNOHANG)
                continue
            except OSError:
                more = 0
            if not more:
                self._gone()
            got += more
        return data

    def _look(self) -> None:
        if self._reap(os.WNOHANG):
            self._gone()

    def _gone(self) -> NoReturn:
        self._end()
        raise ChildDied(self._status or 0)

    def _end(self) -> None:
        """Kill it, which changes nothing for one that is ending by itself."""
        if self._status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._reap(0)

    def _reap(self, options: int) -> bool:
        if self._status is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # somebody else has waited for it
                pid, status = self.pid, 0
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status is not None


def _live(theirs: socket.socket, body: Callable[[Iterator[Part]], Iterator[EndedCalls]], parent: int) -> None:
    """The child's life. It ends here, so that nothing of the worker's runs twice."""
    status = 1
    try:
        _leave(parent, theirs.fileno())
        counting = _counting()
        for stretch, made in body(_asked(theirs)):
            told = {name: getattr(stretch, name) for name in _TOLD}
            told["failures"] = dict.fromkeys(stretch.failures)
            counted = {number: counter._value for number, counter in counting}  # noqa: SLF001
            _say(theirs, (told, counted, [(batch.schema, _serialized(batch)) for batch in made]))
        sys.stdout.flush()
        sys.stderr.flush()
        _say(theirs, Message.END)
        status = 0
    except BrokenPipeError:
        pass
    except BaseException as error:  # noqa: BLE001 - told to the parent, which raises it
        with suppress(BaseException):
            _say(theirs, _tellable(error))
    finally:
        os._exit(status)


_TOLD = ("costs_s", "ends_s", "span_s", "ids", "estimates_s", "sizes", "timed", "numbers")


def _asked(theirs: socket.socket) -> Iterator[Part]:
    reader = theirs.makefile("rb")
    while True:
        _say(theirs, Message.NEXT)
        given = pickle.loads(reader.read(_LENGTH.unpack(reader.read(_LENGTH.size))[0]))  # noqa: S301 - our own parent's
        if given is None:
            return
        schema, data, numbers, sizes, ids = given
        yield Part(pa.ipc.read_record_batch(pa.py_buffer(data), schema), numbers, sizes, ids)


def _say(theirs: socket.socket, what: object) -> None:
    data = pickle.dumps(what, 5)
    theirs.sendall(_LENGTH.pack(len(data)))
    theirs.sendall(data)


def _serialized(batch: pa.RecordBatch) -> bytes:
    return bytes(batch.serialize())


def _tellable(error: BaseException) -> BaseException:
    """An error that can be raised in another process."""
    if isinstance(error, EvenlyError):
        return error
    return RuntimeError("".join(traceback.format_exception(error)))


def _counting() -> list[tuple[int, Any]]:
    """Spark's accumulators, at zero: what is added to them here is added to the parent's later."""
    known = list(known_accumulators().items())
    for _, counter in known:
        counter._value = counter.accum_param.zero(counter._value)  # noqa: SLF001
    return known


def _leave(parent: int, ours: int) -> None:
    """Part from the worker: die with it, share no connection with it, and draw other random numbers."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, int(signal.SIGKILL))
        if os.getppid() != parent:
            os._exit(1)
    # A connection that both use would give the answer to one to the other, and Spark's must not be held open. To who finds
    # one here the other side has closed it, which clients that keep connections are made for.
    closed, other = socket.socketpair()
    other.close()
    for at in [int(each.name) for each in Path("/dev/fd").iterdir()]:
        if at > _STANDARD and at not in (ours, closed.fileno()):
            with suppress(OSError):
                if stat.S_ISSOCK(os.fstat(at).st_mode):
                    os.dup2(closed.fileno(), at, inheritable=False)
    closed.close()
    np.random.seed()  # noqa: NPY002 - the one that forks share; Python's own is drawn anew by itself
