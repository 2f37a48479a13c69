"""A user's function called for key after key: what it got, what it gave, and which key is to blame."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from evenly.checks import is_number
from evenly.errors import EvenlyError, InvalidResult
from evenly.worker.engine import Row
from evenly.worker.letters import failure
from evenly.worker.owned import owning
from evenly.worker.rows import row_class
from evenly.worker.states.kept import Entry
from evenly.worker.states.layout import NEVER, StateLayout

_WITHOUT_DEADLINE, _WITH_DEADLINE = 2, 3


@dataclass(frozen=True)
class BatchTimes:
    """When a batch is, in milliseconds since 1970: `now_ms` by the clock, and the watermark; 0 before there is one."""

    now_ms: int
    watermark_ms: int


@dataclass
class Calls:
    """The calls for the keys of one group: results and states of all of them, to be made columns at once."""

    function: Callable[..., Any]
    layout: StateLayout
    times: BatchTimes
    results: list[Any] = field(default_factory=list)
    _owners: list[tuple[Any, ...]] = field(default_factory=list)
    _states: list[Any] = field(default_factory=list)
    _deadlines: list[int] = field(default_factory=list)
    _keys: list[tuple[Any, ...]] = field(default_factory=list)
    _raw: list[tuple[Any, ...]] = field(default_factory=list)
    _ids: list[int] = field(default_factory=list)
    void: list[int] = field(default_factory=list)
    """The places of entries that no longer count."""

    def __post_init__(self) -> None:
        self._owned, self._results_owned = owning(self.layout.state.schema), owning(self.layout.results.schema)
        self._state_row, self._key_row = (_row_of(tuple(it.names)) for it in (self.layout.state.schema, self.layout.key))

    def call(self, key: tuple[Any, ...], raw: tuple[Any, ...], number: int, rows: list[Row], kept: Entry | None) -> None:
        """One call, for a key as users see it, whose values Arrow gave as `raw`, with the id `number`."""
        state = None if kept is None else tuple.__new__(self._state_row, kept.state)
        timed = self.layout.timeout is not None
        try:
            given = self.function(key, rows, state, self.times) if timed else self.function(key, rows, state)
            made, new, deadline_ms = self._parts(given)
            results = list(map(self._results_owned, _checked(made)))
        except Exception as error:
            raise self._failed(key, error, f"It got {len(rows)} rows and {'no' if state is None else 'a'} state.") from error
        self.results += results
        self._owners += [key] * len(results)
        if kept is not None:
            if new is state and deadline_ms == kept.deadline_ms and not any(map(_may_change, self.layout.state.schema.types)):
                return
            self.void.append(kept.place)
        if new is not None:
            self._states.append(self._owned(new))
            self._deadlines.append(deadline_ms)
            self._keys.append(key)
            self._raw.append(raw)
            self._ids.append(number)

    def entries(self) -> pa.RecordBatch:
        """The states that are to be kept."""
        states, wrong = self.layout.state.columns(self._states)
        self._check(wrong, self._keys, "state")
        raw = list(zip(*self._raw, strict=True)) or [()] * len(self.layout.key)
        keys = [pa.array(values, it.type) for values, it in zip(raw, self.layout.key, strict=True)]
        first = [self._ids] if self.layout.timeout is None else [self._ids, self._deadlines]
        before = [pa.array(values, it.type) for values, it in zip(first, self.layout.before_key, strict=True)]
        return pa.RecordBatch.from_arrays([*before, *keys, *states], schema=self.layout.entry)

    def made(self) -> pa.RecordBatch:
        """The results of all keys."""
        columns, wrong = self.layout.results.columns(self.results)
        self._check(wrong, self._owners, "result")
        return pa.RecordBatch.from_arrays(columns, schema=self.layout.results.schema)

    def _parts(self, given: Any) -> tuple[Any, Any, int]:
        wanted = _WITHOUT_DEADLINE if self.layout.timeout is None else _WITH_DEADLINE
        told = "rows, state" if self.layout.timeout is None else "rows, state, deadline_ms"
        if not isinstance(given, tuple) or len(given) != wanted or hasattr(given, "__fields__"):
            raise InvalidResult(f"the function returned {type(given).__name__}, and not the tuple ({told})")
        if self.layout.timeout is None:
            return given[0], given[1], NEVER
        return given[0], given[1], self._deadline(given[2], given[1])

    def _deadline(self, given: Any, state: Any) -> int:
        if given is None:
            return NEVER
        if not is_number(given) or not math.isfinite(given) or int(given) != given:
            raise InvalidResult(
                f"the function returned the deadline {given!r}: it must be milliseconds since 1970, a whole number, or None"
            )
        if state is None:
            raise InvalidResult(
                "the function returned a deadline and no state: a key without a state is forgotten, with its deadline"
            )
        clock, now_ms = ("watermark", self.times.watermark_ms)
        if self.layout.timeout == "processing":
            clock, now_ms = "time of the batch", self.times.now_ms
        if not now_ms < given < NEVER:
            raise InvalidResult(f"the function returned the deadline {given}: it must be later than the {clock}, {now_ms}")
        return int(given)

    def _check(self, wrong: dict[int, InvalidResult], keys: list[tuple[Any, ...]], what: str) -> None:
        if wrong:
            at = min(wrong)
            raise self._failed(keys[at], InvalidResult(f"{wrong[at]} (a {what})"), "") from None

    def _failed(self, key: tuple[Any, ...], error: Exception, advice: str) -> EvenlyError:
        return failure(tuple.__new__(self._key_row, key), error, advice=advice)


@lru_cache(maxsize=8)
def _row_of(names: tuple[str, ...]) -> type[Row]:
    return row_class(list(names))


def _checked(made: Any) -> Iterable[Any]:
    # Of a table Python goes through the names of its columns.
    if isinstance(made, (str, bytes, dict)) or not isinstance(made, Iterable) or _is_one_thing(made):
        raise InvalidResult(f"the function returned {type(made).__name__} for its rows: return a list of them, [] for none")
    return made


def _is_one_thing(made: Any) -> bool:
    return hasattr(made, "__fields__") or hasattr(made, "__dataframe__")


def _may_change(kind: pa.DataType) -> bool:
    """Whether a value of this type can be changed in place: then nobody can tell that it has not been."""
    return bool(pa.types.is_nested(kind))
