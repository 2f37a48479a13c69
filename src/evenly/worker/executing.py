"""An instance at work: the user's function over its rows, measured, and a report at the end.

Workers import this module, so it imports nothing that takes long to load.
"""

from __future__ import annotations

import inspect
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from evenly.costs.meter import CostMeter
from evenly.errors import FunctionFailed, InvalidResult
from evenly.kernels.types import F64, I64
from evenly.worker.calling import Caller, Calls, Chunk, Serial, Stretch
from evenly.worker.child import EndedCalls, Journal
from evenly.worker.coroutines import Coroutines
from evenly.worker.engine import Row, running_task
from evenly.worker.guarding import Guard, fork_works
from evenly.worker.letters import ERROR, LETTER, failure, letters_of
from evenly.worker.limits import alarm_works
from evenly.worker.many_results import ManyResults
from evenly.worker.owned import own_batch, owning
from evenly.worker.parts import Part
from evenly.worker.results import Shape, nulls_of
from evenly.worker.rows import row_class, rows_of, shown, unreadable
from evenly.worker.settled import settle
from evenly.worker.threads import Threads

ID, ESTIMATE, REPORT = "__evenly_id", "__evenly_estimate", "__evenly_report"
CANDIDATE = "__evenly_candidate_"
MOST_MEASURED = 8_192


@dataclass(frozen=True)
class Work:
    """What an instance is to do. Input columns: the user's, which are called `names`, then hidden ones, found by their names.

    `candidates` are columns of ids of possible cost keys: the costs of the first `most_measured` rows are reported beside them.
    `one_attempt`: Spark will not try a task again that fails.
    """

    calls: Calls
    shape: Shape
    names: tuple[str, ...]
    batch_rows: int | None = None
    skip: bool = False
    report: bool = True
    candidates: int = 0
    most_measured: int = MOST_MEASURED
    one_attempt: bool = False

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The user's columns by their names. On the way they have others: PySpark takes a dot in a name for a field's."""
        return batch.select(range(len(self.names))).rename_columns(list(self.names))

    def output(self) -> pa.Schema:
        """The columns that `execute` yields: results, the error if rows may fail, and the report."""
        fields = [pa.field(field.name, field.type) for field in self.shape.schema]
        if self.skip:
            fields.append(pa.field(ERROR, LETTER))
        return pa.schema([*fields, pa.field(REPORT, pa.binary())])


def executor(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`work` for `mapInArrow`."""
    return partial(_execute, work)


def peak_bytes() -> int:
    """The most memory that this worker has held."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _execute(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    settle()
    measured = _Measured(work)
    output = work.output()
    try:
        for stretch, made in _run(work, _parts(work, batches, measured)):
            measured.add(stretch, made)
            yield from made
    finally:
        if isinstance(work.calls.function, ManyResults):
            work.calls.function.close()
    if work.report:
        nulls = [nulls_of(1, field.type) for field in output]
        nulls[-1] = pa.array([measured.report()], pa.binary())
        yield pa.RecordBatch.from_arrays(nulls, schema=output)


def _run(work: Work, parts: Iterator[Part]) -> Iterator[EndedCalls]:
    """The function over all rows: in this process, or where a row may end it in one that may die.

    A first attempt is made here, where what earlier tasks have loaded and connected is at hand, if there can be a second one.
    """
    context = running_task()
    again = context is not None and context.attemptNumber() > 0
    if not (work.skip and (work.one_attempt or again) and fork_works()):
        yield from _here(work, parts)
        return

    def there(threads: int, parts: Iterator[Part], journal: Journal) -> Iterator[EndedCalls]:
        calls = replace(work.calls, threads=threads, function=journal.wrapped(work.calls.function, waits=_waits(work.calls)))
        return _here(replace(work, calls=calls), parts, numbered=True)

    def died(payload: pa.RecordBatch, stretch: Stretch) -> list[pa.RecordBatch]:
        rows = work.rows(payload)
        stretch.payloads = [rows if work.batch_rows is not None else shown(rows)[0]]
        return list(_batches(work, stretch))

    calls = work.calls
    yield from Guard(there, died, threads=calls.threads, retries=calls.retries, limit_s=calls.limit_s).run(parts)


def _here(work: Work, parts: Iterator[Part], *, numbered: bool = False) -> Iterator[EndedCalls]:
    """The function over all rows, in this process. With `numbered` a function gets the number of the call beside the row."""
    caller, aside = _caller(work), list[Stretch]()
    try:
        for stretch in caller.run(_chunks(work, parts, aside, numbered=numbered)):
            if numbered:
                stretch.numbers = [number for number, _ in stretch.payloads]
                stretch.payloads = [payload for _, payload in stretch.payloads]
            yield stretch, list(_batches(work, stretch))
        for stretch in aside:
            yield stretch, list(_batches(work, stretch))
    finally:
        caller.close()


def _waits(calls: Calls) -> bool:
    """Whether the function is an `async def`, or an object that is called as one."""
    function: Any = calls.function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _caller(work: Work) -> Caller:
    batches = work.batch_rows is not None
    calls = replace(work.calls, owned=own_batch if batches else owning(work.shape.schema))
    if not work.skip:
        calls = replace(calls, fits=partial(_fit, work))
    if _waits(calls):
        return Coroutines(calls, batches=batches)
    if calls.threads > 1 or (calls.limit_s is not None and not alarm_works()):
        return Threads(calls, batches=batches)
    return Serial(calls)


def _fit(work: Work, values: list[Any]) -> bool:
    """Whether all these results are as they should be."""
    if work.batch_rows is None:
        return not work.shape.columns(values)[1]
    try:
        for value in values:
            work.shape.table(value)
    except InvalidResult:
        return False
    return True


def _parts(work: Work, batches: Iterator[pa.RecordBatch], measured: _Measured) -> Iterator[Part]:
    """The input, each call with its number."""
    calls = 0
    for batch in batches:
        rows = batch.num_rows
        if rows == 0:
            continue
        ids = measured.begin(batch)
        sizes = None
        if work.batch_rows is not None:
            whole, rest = divmod(rows, work.batch_rows)
            sizes = np.array([work.batch_rows] * whole + [rest] * (rest > 0), np.int64)
        count = rows if sizes is None else sizes.size
        yield Part(batch, np.arange(calls, calls + count), sizes, ids)
        calls += count


def _chunks(work: Work, parts: Iterator[Part], aside: list[Stretch], *, numbered: bool) -> Iterator[Chunk]:
    kind = row_class(list(work.names))  # one for all, by which results that are rows of it are known as alike
    for given in parts:
        part, sizes = given, None
        if part.sizes is None:
            part, payloads = _with_rows(work, given, kind, aside)
        else:
            sizes = part.sizes.tolist()
            payloads = map(work.rows(part.batch).slice, (part.sizes.cumsum() - part.sizes).tolist(), sizes)
        batch = part.batch
        ids = numbers(batch, ID, np.int64) if part.ids is None else part.ids
        ids = np.zeros(batch.num_rows, np.int64) if ids is None else ids
        if numbered:
            payloads = zip(part.numbers.tolist(), payloads, strict=True)
        yield Chunk(payloads, ids, numbers(batch, ESTIMATE, np.float64), sizes)


def _with_rows(work: Work, part: Part, kind: type[Row], aside: list[Stretch]) -> tuple[Part, Iterator[Any]]:
    """A part and its rows. Those that Python cannot have are set aside, where rows may fail."""
    rows = work.rows(part.batch)
    try:
        return part, rows_of(rows, kind)
    except FunctionFailed:
        if not work.skip:
            raise
    wrong = unreadable(rows)
    at = np.array(list(wrong), np.int64)
    failed = Stretch(
        payloads=shown(rows.take(pa.array(at))),
        values=[None] * at.size,
        costs_s=np.empty(0),
        ends_s=np.empty(0),
        failures=dict(enumerate(wrong.values())),
        span_s=0.0,
        ids=np.zeros(at.size, np.int64),
        timed=np.empty(0, np.int64),
        numbers=part.numbers[at].tolist(),
    )
    aside.append(failed)
    readable = part.only(np.setdiff1d(np.arange(part.numbers.size), at))
    return readable, rows_of(work.rows(readable.batch), kind)


def numbers(batch: pa.RecordBatch, name: str, kind: type) -> Any:
    at = batch.schema.get_field_index(name)
    return None if at < 0 else np.asarray(batch.column(at).to_numpy(zero_copy_only=False), kind)


def _batches(work: Work, stretch: Stretch) -> Iterator[pa.RecordBatch]:
    """The output of a stretch; raises if a row failed and none may."""
    for columns in _results(work, stretch):
        yield pa.RecordBatch.from_arrays([*columns, pa.nulls(len(columns[0]), pa.binary())], schema=work.output())


def _results(work: Work, stretch: Stretch) -> Iterator[list[pa.Array]]:
    """The output columns of a stretch but the report, good rows before failed ones; raises if a row failed and none may."""
    failures = stretch.failures
    if work.batch_rows is None:
        good = [at for at in range(len(stretch.values)) if at not in failures] if failures else None
        values = stretch.values if good is None else [stretch.values[at] for at in good]
        columns, wrong = work.shape.columns(values)
        failures.update({at if good is None else good[at]: error for at, error in wrong.items()})
        if wrong:
            fit = pa.array([at not in wrong for at in range(len(values))])
            columns = [column.filter(fit) for column in columns]
        made = [columns]
    else:
        made = []
        for at, value in enumerate(stretch.values):
            if at not in failures:
                try:
                    made.append(work.shape.table(value))
                except InvalidResult as error:
                    failures[at] = error
    if failures and not work.skip:
        at = min(failures)
        raise failure(stretch.payloads[at], failures[at]) from failures[at]
    for columns in made:
        yield [*columns, pa.nulls(len(columns[0]), LETTER)] if work.skip else columns
    if failures:
        letters = [letter for at, error in failures.items() for letter in letters_of(stretch.payloads[at], error)]
        yield [*work.shape.nulls(len(letters)), pa.array(letters, LETTER)]


class _Measured:
    """What an instance has measured so far."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._meter = CostMeter()
        self._rows = self._errors = 0
        self._results = 0 if isinstance(work.calls.function, ManyResults) else None
        self._busy_s = self._estimated_s = self._completion_s = 0.0
        self._first_s = self._begun_s = self._last_s = 0.0
        self._cpu_s = time.process_time()
        self._seen = 0
        self._candidates: list[list[I64]] = []
        self._costs_s = np.zeros(work.most_measured if work.candidates else 0)

    def begin(self, batch: pa.RecordBatch) -> I64 | None:
        """A batch of rows has come. Where candidates are tried, rows are known by their number instead of an id."""
        if not self._begun_s:
            self._first_s, self._begun_s = time.time(), time.perf_counter()
        if not self._work.candidates:
            return None
        begin, self._seen = self._seen, self._seen + batch.num_rows
        most = self._work.most_measured
        if begin < most:
            names = [f"{CANDIDATE}{at}" for at in range(self._work.candidates)]
            self._candidates.append([numbers(batch, name, np.int64)[: most - begin] for name in names])
        return np.arange(begin, self._seen)

    def add(self, stretch: Stretch, made: list[pa.RecordBatch]) -> None:
        work = self._work
        if self._results is not None:  # a list of them for each row
            self._results += sum(len(batch.column(0).flatten()) for batch in made)
        sizes = np.ones(len(stretch.ids), np.int64) if stretch.sizes is None else stretch.sizes
        self._rows += len(stretch.ids)
        self._errors += int(sum(sizes[at] for at in stretch.failures))
        if not work.report:
            return
        if stretch.estimates_s is not None:
            self._estimated_s += float(stretch.estimates_s.sum())
        weight = 1.0 if stretch.timed is None else float(work.calls.time_every)
        self._busy_s += float(stretch.costs_s.sum()) if weight == 1.0 else stretch.span_s
        timed = np.arange(sizes.size) if stretch.timed is None else stretch.timed
        self._completion_s += weight * float(((stretch.ends_s - self._begun_s) * sizes[timed]).sum())
        self._last_s = max(self._last_s, float(stretch.ends_s.max(initial=0.0)))
        ids, costs_s = _of_rows(stretch, sizes, timed)
        if work.candidates:
            kept = ids < work.most_measured
            self._costs_s[ids[kept]] = costs_s[kept]
        else:
            self._meter.add(ids, costs_s, weight=weight)

    def report(self) -> bytes:
        columns = None
        if self._candidates:
            count = min(self._seen, self._work.most_measured)
            columns = {
                f"{CANDIDATE}{at}": np.concatenate(parts) for at, parts in enumerate(zip(*self._candidates, strict=True))
            }
            columns["cost_s"] = self._costs_s[:count]
        context = running_task()
        report = self._meter.report(
            instance=-1 if context is None else context.partitionId(),
            executor=f"{socket.gethostname()}:{os.getppid()}",
            rows=self._rows,
            busy_s=self._busy_s,
            estimated_s=self._estimated_s,
            first_s=self._first_s,
            last_s=self._first_s + max(self._last_s - self._begun_s, 0.0),
            completion_s=self._completion_s,
            errors=self._errors,
            columns=columns,
        )
        cpu_s = time.process_time() - self._cpu_s
        return replace(report, cpu_s=cpu_s, peak_bytes=peak_bytes(), results=self._results).to_bytes()


def _of_rows(stretch: Stretch, sizes: I64, timed: I64) -> tuple[I64, F64]:
    """The ids and costs of the rows that were timed. A batch's cost is shared out by the estimates of its rows."""
    if stretch.sizes is None:
        return (stretch.ids if stretch.timed is None else stretch.ids[timed]), stretch.costs_s
    share = np.ones(len(stretch.ids)) if stretch.estimates_s is None else stretch.estimates_s
    call = np.repeat(np.arange(sizes.size), sizes)
    costs_s = np.full(sizes.size, np.nan)
    costs_s[timed] = stretch.costs_s
    whole = np.bincount(call, share, sizes.size)
    of_rows = costs_s[call] * share / whole[call]
    known = ~np.isnan(of_rows)
    return stretch.ids[known], of_rows[known]
