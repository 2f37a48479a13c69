"""Operators of a dataflow in one Python worker: rows go from one to the next as they are made, without leaving it.

Between two operators rows are small Arrow batches ("pieces") of the schema that the first one has: the next one gets what it
would get through Spark, wherever it runs. Without threads the worker's one thread walks each piece to its end; with threads
every operator has its own, and what is on its way is bounded. Each task ends with a row of its own, its report.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import pyarrow as pa

from evenly.dataflow.reports import Counted, WorkerReport
from evenly.errors import EvenlyError, FunctionFailed
from evenly.worker.engine import Row, running_task
from evenly.worker.executing import REPORT, peak_bytes
from evenly.worker.letters import failure
from evenly.worker.owned import own_batch, owning
from evenly.worker.results import Shape, nulls_of, results_in
from evenly.worker.rows import row_class, rows_of
from evenly.worker.settled import settle

PIECE_ROWS, PIECE_S = 1_024, 0.05
"""An operator hands on what it has made when there is so much, or after so long."""
_ON_THEIR_WAY = 4
_ADVICE = "Catch it in the operator's function, to leave such rows out or tell them apart."

Made = tuple[int, pa.RecordBatch]
"""The place of an exit, and rows that leave there."""


@dataclass(frozen=True, eq=False)
class Node:
    """An operator: what it calls, on rows or on batches, what leaves it, and which nodes (or which exit) that goes to.

    A class is made once for each task; what it makes may have `close`. `reads` are the columns that it gets, in their order,
    where it has several inputs, whose own order may be another.
    """

    name: str
    function: Callable[..., Any]
    shape: Shape
    by_row: bool
    threads: int = 1
    after: tuple[int, ...] = ()
    exit: int | None = None
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Graph:
    """Operators, each before those that read it; `entries` read what Spark hands over, whose columns are called `names`.

    `run` is another one each time: Spark takes stages that are alike for one, and what one run persists another one lets go.
    """

    nodes: tuple[Node, ...]
    entries: tuple[int, ...]
    names: tuple[str, ...]
    run: str = ""

    @property
    def exits(self) -> list[Node]:
        """The operators whose rows leave, by their places."""
        return sorted((node for node in self.nodes if node.exit is not None), key=lambda node: node.exit or 0)

    def output(self) -> pa.Schema:
        """The columns that leave: those of the one exit, or the number of an exit and a struct for each; and the report."""
        report = pa.field(REPORT, pa.binary())
        if len(self.exits) == 1:
            return pa.schema([*self.exits[0].shape.schema, report])
        structs = [pa.field(f"e{node.exit}", pa.struct(list(node.shape.schema))) for node in self.exits]
        return pa.schema([pa.field("exit", pa.int32()), *structs, report])


def flowing(graph: Graph) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`graph` for `mapInArrow`."""
    return partial(_flow, graph)


def _flow(graph: Graph, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    settle()
    named = (_named(batch, graph.names) for batch in batches if batch.num_rows)
    output, alone = graph.output(), len(graph.exits) == 1
    begun_s, cpu_s = time.time(), time.process_time()
    with ExitStack() as ending:
        operators = [ending.enter_context(_Operator(node)) for node in graph.nodes]
        threaded = any(node.threads > 1 for node in graph.nodes)
        running = _Threaded(graph, operators) if threaded else _Serial(graph, operators)
        ending.callback(running.close)
        for place, made in running.run(named):
            columns = made.columns if alone else _told_apart(made, place, output)
            yield pa.RecordBatch.from_arrays([*columns, pa.nulls(made.num_rows, pa.binary())], schema=output)
    nothing = [nulls_of(1, field.type) for field in output]
    nothing[-1] = pa.array([_report(operators, begun_s, time.process_time() - cpu_s).to_bytes()], pa.binary())
    yield pa.RecordBatch.from_arrays(nothing, schema=output)


def _named(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
    """The columns by the names that the first operators know them by; a column in place of none is taken off."""
    return batch.select(range(len(names))).rename_columns(list(names))


def _told_apart(made: pa.RecordBatch, place: int, output: pa.Schema) -> list[pa.Array]:
    """Rows of one exit as columns of all."""
    rows = made.num_rows
    columns = [nulls_of(rows, field.type) for field in list(output)[:-1]]
    columns[0] = pa.array([place] * rows, pa.int32())
    held = output.field(place + 1).type
    columns[place + 1] = pa.StructArray.from_arrays(made.columns, fields=list(held))
    return columns


def _report(operators: list[_Operator], begun_s: float, cpu_s: float) -> WorkerReport:
    context = running_task()
    counted = tuple(Counted(it.node.name, it.rows_in, it.rows_out, it.busy_s, it.node.threads) for it in operators)
    return WorkerReport(-1 if context is None else context.partitionId(), begun_s, time.time(), cpu_s, peak_bytes(), counted)


class _Operator:
    """A node at work: its function, made once, and its calls."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._made = isinstance(node.function, type)
        self._owned = owning(node.shape.schema)
        try:
            self._function = node.function() if self._made else node.function
        except Exception as error:
            raise self._ill("could not be made", error) from error
        called: Any = self._function
        ways = (called, getattr(called, "__call__", None))  # noqa: B004 - of an object
        waits = any(map(inspect.iscoroutinefunction, ways))
        self._called = self._awaited if waits else called
        self._local = threading.local()
        self._kind: type[Row] | None = None
        self.rows_in = self.rows_out = 0
        self.busy_s = 0.0

    def count(self, rows_in: int, rows_out: int, busy_s: float) -> None:
        """Calls have ended. Threads take turns to count."""
        self.rows_in += rows_in
        self.rows_out += rows_out
        self.busy_s += busy_s

    def rows(self, piece: pa.RecordBatch) -> Iterator[Row]:
        """What a function of rows is called with."""
        piece = self._in_order(piece)
        self._kind = self._kind or row_class(piece.schema.names)
        return rows_of(piece, self._kind)

    def _in_order(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        """A piece with the columns as the operator reads them, whichever input it comes from."""
        names, reads = piece.schema.names, list(self.node.reads)
        if not reads or names == reads:
            return piece
        places = [names.index(name) for name in reads] if set(names) == set(reads) else _places(names, reads)
        return piece.select(places).rename_columns(reads)

    def results(self, row: Row) -> list[Any]:
        """What a row gives: nothing, one result or many."""
        try:
            return results_in(self._called(row), self._owned)
        except (Exception, SystemExit) as error:
            raise self._failed(row, error) from error

    def piece(self, rows: list[Row], values: list[Any]) -> pa.RecordBatch:
        """Results as rows of the operator's schema; `rows` has for each the row that gave it."""
        columns, wrong = self.node.shape.columns(values)
        if wrong:
            at = min(wrong)
            raise self._failed(rows[at], wrong[at])
        return pa.RecordBatch.from_arrays(columns, schema=self.node.shape.schema)

    def changed(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        """What a function of batches makes of one."""
        try:
            columns = self.node.shape.table(own_batch(self._called(self._in_order(piece))))
        except (Exception, SystemExit) as error:
            raise self._failed(piece, error) from error
        return pa.RecordBatch.from_arrays(columns, schema=self.node.shape.schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, ended: BaseException | None, _trace: object) -> None:
        """Close what the operator has; an error of that is told, unless another one has ended the task already."""
        self.end_calls()
        close = getattr(self._function, "close", None)
        if not (self._made and callable(close)):
            return
        try:
            close()
        except Exception as error:
            if ended is None:
                raise self._ill("could not be closed", error) from error

    def _ill(self, what: str, error: Exception) -> FunctionFailed:
        return FunctionFailed(f"the operator {self.node.name!r} {what}: {type(error).__name__}: {error}")

    def _awaited(self, payload: Any) -> Any:
        if not hasattr(self._local, "runner"):
            self._local.runner = asyncio.Runner()
        return self._local.runner.run(self._function(payload))

    def end_calls(self) -> None:
        """This thread calls nothing more. Its event loop is closed by itself: another thread could not while it runs."""
        if hasattr(self._local, "runner"):
            self._local.runner.close()

    def _failed(self, payload: Any, error: BaseException) -> EvenlyError:
        return failure(payload, error, of=f"the operator {self.node.name!r}", advice=_ADVICE)


def _places(names: list[str], reads: list[str]) -> list[int]:
    """Where columns are that are called alike but for upper and lower case."""
    lower = [name.lower() for name in names]
    return [lower.index(name.lower()) for name in reads]


class _Serial:
    """One thread, which walks each piece to its end before it makes the next."""

    def __init__(self, graph: Graph, operators: list[_Operator]) -> None:
        self._graph, self._operators = graph, operators

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Made]:
        for batch in batches:
            for at in self._graph.entries:
                yield from self._walk(at, batch)

    def close(self) -> None:
        """Nothing goes on by itself."""

    def _walk(self, at: int, batch: pa.RecordBatch) -> Iterator[Made]:
        operator = self._operators[at]
        for piece in self._pieces(operator, batch) if operator.node.by_row else self._changed(operator, batch):
            if not piece.num_rows:
                continue
            if operator.node.exit is not None:
                yield operator.node.exit, piece
            for after in operator.node.after:
                yield from self._walk(after, piece)

    @staticmethod
    def _changed(operator: _Operator, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        begun = time.perf_counter()
        piece = operator.changed(batch)
        operator.count(batch.num_rows, piece.num_rows, time.perf_counter() - begun)
        yield piece

    @staticmethod
    def _pieces(operator: _Operator, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows: list[Row] = []
        values: list[Any] = []
        called, begun = 0, time.perf_counter()
        for row in operator.rows(batch):
            new = operator.results(row)
            called += 1
            if len(new) == 1:
                rows.append(row)
                values.append(new[0])
            else:
                rows += [row] * len(new)
                values += new
            took_s = time.perf_counter() - begun
            if len(values) >= PIECE_ROWS or took_s > PIECE_S:
                operator.count(called, len(values), took_s)
                if values:
                    yield operator.piece(rows, values)
                rows, values, called, begun = [], [], 0, time.perf_counter()
        operator.count(called, len(values), time.perf_counter() - begun)
        if values:
            yield operator.piece(rows, values)


class _Waiting:
    """Results of an operator that are not yet handed on."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.values: list[Any] = []
        self.since_s = 0.0


class _Threaded:
    """Threads of their own for every operator. `_pending` counts what is on its way: rows, results, and pieces of batches."""

    def __init__(self, graph: Graph, operators: list[_Operator]) -> None:
        self._graph, self._operators = graph, operators
        self._piece = max(64, _ON_THEIR_WAY * sum(node.threads for node in graph.nodes))
        # Each operator may hold results for a while before it hands them on: with few rows on their way the others would wait.
        self._most = max(PIECE_ROWS, self._piece) if all(node.by_row for node in graph.nodes) else self._piece
        self._work: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in operators]
        self._waiting = [_Waiting() for _ in operators]
        self._changed = threading.Condition()
        self._made: deque[Made] = deque()
        self._pending = 0
        self._ended = False
        self._error: BaseException | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Made]:
        for at, operator in enumerate(self._operators):
            for _ in range(operator.node.threads):
                threading.Thread(target=self._work_on, args=(at,), daemon=True, name=f"evenly {operator.node.name}").start()
        for batch in batches:
            for begin in range(0, batch.num_rows, self._piece):
                for at in self._graph.entries:
                    self._put(at, batch.slice(begin, self._piece))
                yield from self._until_below(self._most)
        yield from self._until_below(1)

    def close(self) -> None:
        """Nothing is called any more; a call that still runs ends in its own time, and nobody hears of it."""
        self._ended = True
        for at, operator in enumerate(self._operators):
            for _ in range(operator.node.threads):
                self._work[at].put(None)

    def _put(self, at: int, piece: pa.RecordBatch) -> None:
        operator = self._operators[at]
        items = list(operator.rows(piece)) if operator.node.by_row else [piece]
        with self._changed:
            self._pending += len(items)
        for item in items:
            self._work[at].put(item)

    def _until_below(self, most: int) -> Iterator[Made]:
        """What leaves, until less than `most` is on its way."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._made or self._pending < most or self._error is not None)
                if self._error is not None:
                    raise self._error
                made, below = list(self._made), self._pending < most
                self._made.clear()
            yield from made
            if below:
                return

    def _work_on(self, at: int) -> None:
        operator = self._operators[at]
        while (item := self._work[at].get()) is not None and not self._ended:
            begun = time.perf_counter()
            try:
                if operator.node.by_row:
                    new = operator.results(item)
                    self._kept(at, item, new, time.perf_counter() - begun)
                else:
                    piece = operator.changed(item)
                    with self._changed:
                        operator.count(item.num_rows, piece.num_rows, time.perf_counter() - begun)
                    self._hand_on(at, piece, done=1)
            except BaseException as error:  # noqa: BLE001 - whatever it is ends the task, which is told
                self._ended = True
                with self._changed:
                    self._error = self._error or error
                    self._changed.notify_all()
        operator.end_calls()

    def _kept(self, at: int, row: Row, new: list[Any], took_s: float) -> None:
        """Results of a row are kept until there are enough, or nothing else is to be called."""
        now_s = time.perf_counter()
        with self._changed:
            waiting = self._waiting[at]
            self._operators[at].count(1, len(new), took_s)
            self._pending += len(new) - 1
            if not waiting.values:
                waiting.since_s = now_s
            waiting.rows += [row] * len(new)
            waiting.values += new
            due = len(waiting.values) >= PIECE_ROWS or now_s - waiting.since_s > PIECE_S or self._work[at].empty()
            if due and waiting.values:
                self._waiting[at] = _Waiting()
            self._changed.notify_all()
        if due and waiting.values:
            self._hand_on(at, self._operators[at].piece(waiting.rows, waiting.values), done=len(waiting.values))

    def _hand_on(self, at: int, piece: pa.RecordBatch, *, done: int) -> None:
        node = self._operators[at].node
        if piece.num_rows:
            for after in node.after:
                self._put(after, piece)
        with self._changed:
            if piece.num_rows and node.exit is not None:
                self._made.append((node.exit, piece))
            self._pending -= done
            self._changed.notify_all()
