"""The hub: source and sink of the slots. It emits tuples at a fixed rate, routes what is done onward, and keeps the times."""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Self

import numpy as np
import psutil

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64, I64
from evenly.lab.slots.process import TUPLE, SlotBundle, batch_of, setup_message, slot_main

TICK_S = 0.002
_START_S = 60.0
_LATE_S, _LATE_PART = 0.25, 0.2


@dataclass(frozen=True)
class Home:
    """A bundle of an operator: its slot, its place among the slot's bundles, and the part of the tuples it gets."""

    slot: int
    bundle: int
    part: float


@dataclass(frozen=True)
class Route:
    """Where tuples go that leave an operator: to which, and how many for one (`None`: to the sink)."""

    to: str | None
    each: float = 1.0


@dataclass(frozen=True, eq=False)
class Flow:
    """What runs: the homes of every operator and the routes out of every operator. Sources are the key `""` of `routes`."""

    homes: Mapping[str, Sequence[Home]]
    routes: Mapping[str, Sequence[Route]]


@dataclass(frozen=True, eq=False)
class RunResult:
    """Times of the tuples that reached the sink, in s since the first was emitted; what the slots used after warm-up."""

    born_s: F64
    done_s: F64
    emitted: int
    expected: float
    cpu_pct: tuple[float, ...]
    memory_mib: tuple[float, ...]
    aborted: bool


@dataclass(eq=False)
class _Wheel:
    """Deals tuples over homes by their parts."""

    homes: Sequence[Home]
    credit: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.credit = [0.0] * len(self.homes)

    def next(self) -> Home:
        for place, home in enumerate(self.homes):
            self.credit[place] += home.part
        best = max(range(len(self.homes)), key=self.credit.__getitem__)
        self.credit[best] -= 1.0
        return self.homes[best]


class Hub:
    """Slots as processes. Use it as a context manager: the processes end with it.

    `cores` names the core of each slot (None: not pinned); `memory_mib` limits what a slot may use beyond its start.
    """

    def __init__(self, cores: Sequence[int | None], *, memory_mib: int | None = None) -> None:
        if not cores:
            raise InvalidParameter("a hub needs at least one slot")
        self.cores = list(cores)
        self.memory_mib = memory_mib
        self.pipes: list[Connection] = []
        self.processes: list[Any] = []
        self.watched: list[psutil.Process] = []
        self.base_mib: list[float] = []
        self.bundles: list[list[tuple[str, SlotBundle]]] = []

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        for core in self.cores:
            mine, theirs = context.Pipe()
            process = context.Process(target=slot_main, args=(theirs, core, self.memory_mib), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)
            self.watched.append(psutil.Process(process.pid))
        for pipe in self.pipes:
            said = self._answer(pipe, _START_S)
            if said != "up":
                self.__exit__(None, None, None)
                raise InvalidParameter(f"the process of a slot did not start: {said}")
        self.base_mib = [one.memory_info().rss / 2**20 for one in self.watched]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pipe in self.pipes:
            try:
                pipe.send_bytes(b"q")
            except OSError:
                continue
        for process in self.processes:
            process.join(timeout=5.0)
            if process.is_alive():
                process.kill()
                process.join(timeout=5.0)
        for pipe in self.pipes:
            pipe.close()

    def set_up(self, bundles: Sequence[Sequence[tuple[str, SlotBundle]]]) -> None:
        """Give every slot its bundles, (operator name, bundle) each, and wait until they are ready."""
        self.bundles = [list(held) for held in bundles]
        for pipe, held in zip(self.pipes, self.bundles, strict=True):
            setup_message(pipe, [bundle for _, bundle in held])
        for pipe in self.pipes:
            said = self._answer(pipe, _START_S)
            if said != "ready":
                raise InvalidParameter(f"an operator could not be made in its slot: {said}")

    def run(self, flow: Flow, rate: float, seconds: float, *, warm_up_s: float, backlog_s: float = 1.0) -> RunResult:
        """Emit `rate` tuples/s for so long. It stops early when the backlog reaches `backlog_s` seconds of tuples.

        What still waits at the end is forgotten, so that another run can follow.
        """
        state = _Run(self, flow, rate)
        started = time.monotonic()
        used: list[float] | None = None
        warm_at = started
        aborted = False
        while (now := time.monotonic()) - started < seconds:
            if used is None and now - started >= warm_up_s:
                used, warm_at = [_cpu_s(one) for one in self.watched], now
            state.emit(started, min(now - started, seconds))
            state.collect(TICK_S)
            if state.emitted * state.expected - state.arrived > max(20.0, backlog_s * rate * state.expected):
                aborted = True
                break
        # A source that cannot keep its own pace says nothing of the operator.
        aborted = aborted or used is None or state.late_s > 1.0 / rate + max(_LATE_S, seconds * _LATE_PART)
        ended = time.monotonic()
        spent = [_cpu_s(one) for one in self.watched]
        memory = [one.memory_info().rss / 2**20 for one in self.watched]
        if not aborted:
            state.collect_until(time.monotonic() + min(1.0, backlog_s))
        self._clear()
        wall = max(ended - warm_at, 1e-3)
        cpu = [100.0 * (after - before) / wall for after, before in zip(spent, used or spent, strict=True)]
        born, done = state.times()
        return RunResult(
            born - started,
            done - started,
            state.emitted,
            state.emitted * state.expected,
            tuple(min(100.0, one) for one in cpu),
            tuple(max(0.0, after - before) for after, before in zip(memory, self.base_mib, strict=True)),
            aborted,
        )

    def _clear(self) -> None:
        for pipe in self.pipes:
            pipe.send_bytes(b"c")
        for pipe in self.pipes:
            self._answer(pipe, _START_S)

    @staticmethod
    def _answer(pipe: Connection, seconds: float) -> str:
        """The next answer of a slot; tuples that come before it belong to a run that is over."""
        until = time.monotonic() + seconds
        while pipe.poll(max(0.0, until - time.monotonic())):
            try:
                message = pipe.recv_bytes()
            except EOFError:
                return "the process of the slot ended"
            if message[:1] == b"a" and not message.startswith(b"aerror "):
                return message[1:].decode()
        return f"no answer within {seconds:g} s"


class _Run:
    """The tuples of one run on their way."""

    def __init__(self, hub: Hub, flow: Flow, rate: float) -> None:
        self.hub = hub
        self.flow = flow
        self.rate = rate
        self.wheels = {name: _Wheel(homes) for name, homes in flow.homes.items()}
        self.owed: dict[tuple[str, int], float] = defaultdict(float)
        self.emitted = self.arrived = 0
        self.late_s = 0.0
        self.finished: list[np.ndarray] = []
        self.expected = _at_sinks(flow)

    def emit(self, started: float, elapsed: float) -> None:
        """Tuples that are due by now leave the source."""
        due = math.floor(elapsed * self.rate)
        if due > self.emitted:
            numbers: I64 = np.arange(self.emitted, due)
            self.late_s = max(self.late_s, elapsed - self.emitted / self.rate)
            self.emitted = due
            self._send("", numbers, started + numbers / self.rate)

    def collect(self, seconds: float) -> None:
        """Take what the slots have done and send it onward."""
        for pipe in wait(self.hub.pipes, seconds):
            slot = self.hub.pipes.index(pipe)  # type: ignore[arg-type]
            message = pipe.recv_bytes()  # type: ignore[union-attr]
            if message.startswith(b"aerror "):
                raise InvalidParameter(f"an operator failed: {message[7:].decode()}")
            if message[:1] != b"t":
                continue
            batch = np.frombuffer(message, TUPLE, offset=1)
            for bundle in np.unique(batch["bundle"]).tolist():
                mine = batch[batch["bundle"] == bundle]
                self._send(self.hub.bundles[slot][bundle][0], mine["number"], mine["born_s"], mine)

    def collect_until(self, until: float) -> None:
        while time.monotonic() < until and self.arrived < self.emitted * self.expected:
            self.collect(TICK_S)

    def _send(self, start: str, numbers: I64, born_s: F64, batch: np.ndarray | None = None) -> None:
        """Tuples that leave an operator, along every route."""
        for place, route in enumerate(self.flow.routes[start]):
            copies = self._copies(start, place, route.each, len(numbers))
            if route.to is None:
                if batch is not None:
                    self.finished.append(np.repeat(batch, copies))
                    self.arrived += int(copies.sum())
                continue
            outgoing: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
            wheel = self.wheels[route.to]
            if len(wheel.homes) == 1:
                home = wheel.homes[0]
                message = batch_of(home.bundle, np.repeat(numbers, copies), np.repeat(born_s, copies))
                self.hub.pipes[home.slot].send_bytes(message)
                continue
            for number, born, count in zip(numbers.tolist(), born_s.tolist(), copies.tolist(), strict=True):
                for _ in range(count):
                    home = wheel.next()
                    outgoing[home.slot].append((home.bundle, number, born))
            for slot, rows in outgoing.items():
                bundles, theirs, births = zip(*rows, strict=True)
                self.hub.pipes[slot].send_bytes(batch_of(bundles, theirs, births))

    def _copies(self, start: str, place: int, each: float, count: int) -> I64:
        """How many of each tuple take a route, so that on average it is `each`."""
        if each == 1.0:
            return np.ones(count, np.int64)
        owed = self.owed[start, place] + each * np.arange(1, count + 1)
        whole = np.floor(owed + 1e-9)
        before = np.concatenate(([math.floor(self.owed[start, place] + 1e-9)], whole[:-1])) if count else whole
        self.owed[start, place] = float(owed[-1] - whole[-1]) if count else self.owed[start, place]
        copies: I64 = (whole - before).astype(np.int64)
        return copies

    def times(self) -> tuple[F64, F64]:
        every = np.concatenate(self.finished) if self.finished else np.zeros(0, TUPLE)
        return every["born_s"].astype(np.float64), every["done_s"].astype(np.float64)


def _at_sinks(flow: Flow) -> float:
    """Tuples that reach the sinks for one that is emitted."""
    total = 0.0
    waiting = [("", 1.0)]
    while waiting:
        name, part = waiting.pop()
        for route in flow.routes[name]:
            if route.to is None:
                total += part * route.each
            else:
                waiting.append((route.to, part * route.each))
    return total


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def free_cores(count: int) -> list[int | None]:
    """Cores to pin so many slots to, the last first (None where there are not enough or none can be pinned to)."""
    usable = sorted(os.sched_getaffinity(0), reverse=True) if hasattr(os, "sched_getaffinity") else []
    return [usable[place] if place < len(usable) else None for place in range(count)]
