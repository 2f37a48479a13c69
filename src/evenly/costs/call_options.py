"""How a user's function is called: what belongs to the call and not to the placing of its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from evenly.checks import checked_whole, is_number
from evenly.errors import InvalidParameter

OnError = Literal["fail", "skip"]
_MOST_THREADS, _MOST_RETRIES, _MOST_BATCH_ROWS = 1_000, 100, 1_000_000


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How `apply_by_cost` and `stream_apply_by_cost` call the function. One object serves any number of calls.

        careful = evenly.CallOptions(threads=8, on_error="skip", retries=2, time_limit_s=30)
        evenly.apply_by_cost(df, fetch, "size long", instances=16, call=careful)

    - `batch_rows` (1 to 1,000,000): the function gets a pyarrow RecordBatch of at most so many rows, and returns a RecordBatch
      or Table with any number of rows. None: it gets one row.
    - `threads` (1 to 1,000): calls at once in each instance, for functions that wait; an `async def` function runs as many on
      one event loop. A row costs its share of the time.
    - `on_error`: "fail" ends the job with the row and the error; "skip" adds a column `error` (`good_rows`, `failed_rows`), and
      survives rows that end their process.
    - `retries` (0 to 100): how often a call that fails is made again before that.
    - `time_limit_s` (above 0): a longer call is an error. None: no limit.

    A value out of its range is an InvalidParameter when the object is made.
    """

    batch_rows: int | None = None
    threads: int = 1
    on_error: OnError = "fail"
    retries: int = 0
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        if self.batch_rows is not None:
            self._set("batch_rows", checked_whole(self.batch_rows, "batch_rows", 1, _MOST_BATCH_ROWS))
        self._set("threads", checked_whole(self.threads, "threads", 1, _MOST_THREADS))
        if self.on_error not in get_args(OnError):
            raise InvalidParameter(f"on_error must be one of {', '.join(map(repr, get_args(OnError)))}, got {self.on_error!r}")
        self._set("retries", checked_whole(self.retries, "retries", 0, _MOST_RETRIES))
        if self.time_limit_s is not None:
            self._set("time_limit_s", _checked_limit_s(self.time_limit_s))

    @property
    def skip(self) -> bool:
        """Whether rows that fail are set aside."""
        return self.on_error == "skip"

    def _set(self, name: str, value: Any) -> None:
        """Numbers of numpy and the like become plain ones: the object goes to workers, and is compared."""
        object.__setattr__(self, name, value)


ONE_ROW_AT_A_TIME = CallOptions()


def checked_call(call: CallOptions) -> CallOptions:
    """`call` if it is what it should be."""
    if not isinstance(call, CallOptions):
        raise InvalidParameter(f"call must be evenly.CallOptions(...), such as evenly.CallOptions(threads=8), got {call!r}")
    return call


def _checked_limit_s(limit_s: float) -> float:
    if not (is_number(limit_s) and 0.0 < limit_s < math.inf):
        raise InvalidParameter(f"time_limit_s must be a number of seconds above 0, or None, got {limit_s!r}")
    return float(limit_s)
