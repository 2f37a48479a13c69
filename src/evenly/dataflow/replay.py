"""Rows that are offered at a rate: which have arrived, and when each of them did.

A row has a number, from 0 on, and the checkpoint of a query keeps how many it has read. What has been offered and not read when
a query stops is offered anew when it goes on: nothing arrives while it stands still. So numbers neither repeat nor leave a gap,
whatever the rate was and is, and rows that are read again (a batch that failed) have the same stamps again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from evenly.dataflow.graph import Operator
from evenly.dataflow.reports import Completion
from evenly.errors import InvalidDataflow, InvalidParameter
from evenly.files import write_whole

MOST_ROWS_PER_S = 1e12
"""More than this no clock that counts microseconds tells apart."""
MICROS = 1_000_000
_OPTIONS = ("rate", "loop", "most_rows", "numPartitions")


@dataclass(frozen=True)
class Offered:
    """Rows up to number `row` are read. From row `from_row` on, at `from_us` (microseconds since 1970), `rate` a second arrive.

    It is the offset of a stream: `to_dict` and `from_dict` are how a checkpoint keeps it. `files` tells whether the files are
    those that they were.
    """

    row: int
    from_row: int = 0
    from_us: int = 0
    rate: float = 1.0
    files: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Of whole numbers and texts alone."""
        return {
            "row": self.row,
            "from_row": self.from_row,
            "from_us": self.from_us,
            "rate": repr(self.rate),
            "files": self.files,
        }

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Self:
        """What `to_dict` gave."""
        return cls(int(told["row"]), int(told["from_row"]), int(told["from_us"]), float(told["rate"]), str(told["files"]))

    @property
    def at_once(self) -> bool:
        """Whether its rows arrived all at one moment, so that there is no rate to speak of."""
        return self.rate == float(MICROS) * (self.row - self.from_row)

    def arrived_us(self, row: int) -> int:
        """When a row arrived: the first after 1/rate seconds."""
        return self.from_us + math.floor((row - self.from_row + 1) * MICROS / self.rate)

    def had_arrived(self, now_us: int) -> int:
        """How many rows had arrived by then, those of before included."""
        return self.from_row + max(0, math.floor((now_us - self.from_us) * self.rate / MICROS))

    def completion(self, begin: int, ended_s: float) -> Completion | None:
        """How long the rows from number `begin` on had waited at `ended_s`; None if there are none. Rows need not be looked at:
        they arrive one like the other."""
        rows = self.row - begin
        if rows <= 0:
            return None

        def waited_s(part: float) -> float:
            return ended_s - self.from_us / MICROS - (begin + part * (rows - 1) - self.from_row + 1) / self.rate

        return Completion(rows, waited_s(0.5), waited_s(0.5), waited_s(0.01))  # who came first has waited longest


@dataclass(frozen=True)
class Pace:
    """How a replay goes on: its rate, and the most rows of a batch (None: all that have arrived)."""

    rate: float
    most_rows: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.rate, bool) or not 0.0 < self.rate <= MOST_ROWS_PER_S:
            raise InvalidParameter(
                f"a replay's rate must be rows per second, above 0 and at most {MOST_ROWS_PER_S:,.0f}, got {self.rate:g}"
            )
        if self.most_rows is not None and self.most_rows < 1:
            raise InvalidParameter(f"the most rows of a batch must be at least 1, got {self.most_rows}")

    def write(self, path: Path) -> None:
        """For the source of a query that runs, which looks before each batch."""
        write_whole(path, json.dumps({"rate": self.rate, "most_rows": self.most_rows}))

    @classmethod
    def read(cls, path: Path) -> Self:
        """What was written last."""
        told = json.loads(path.read_text(encoding="utf-8"))
        return cls(float(told["rate"]), told["most_rows"])


class ReplayClock:
    """Says up to which row a batch may read. `rows` is where it ends (None: never)."""

    def __init__(self, pace: Pace, rows: int | None, files: str = "") -> None:
        self._pace, self._rows, self._files = pace, rows, files
        self._begun: Offered | None = None

    def set_pace(self, pace: Pace) -> None:
        """Go on at another pace. With another rate, what has arrived and was not read arrives anew."""
        if pace.rate != self._pace.rate:
            self._begun = None
        self._pace = pace

    def latest(self, start: Offered, now_us: int, *, limited: bool = True, all_now: bool = False) -> Offered:
        """The end of a batch that begins at `start`. `all_now`: the rest of the rows has arrived already."""
        if self._begun is None or start.row < self._begun.from_row:
            self._begun = Offered(start.row, start.row, now_us, self._pace.rate, self._files)
        begun, last = self._begun, self._rows
        row = last if all_now and last is not None else begun.had_arrived(now_us)
        if last is not None:
            row = min(row, last)
        if limited and self._pace.most_rows is not None:
            row = min(row, start.row + self._pace.most_rows)
        if row <= start.row:
            return start
        if all_now:  # this moment's stamp
            return Offered(row, start.row, now_us - 1, float(MICROS) * (row - start.row), self._files)
        return Offered(row, begun.from_row, begun.from_us, begun.rate, self._files)


def replay_options(one: Operator, *, paced: bool = True) -> dict[str, str]:
    """The options of a replay, if they can be meant; `paced`: a rate must be among them."""
    options = dict(one.options)
    if not one.path:
        raise InvalidDataflow("a replay needs the `path` of Parquet files")
    if one.schema:
        raise InvalidDataflow("a replay has the columns of its files: leave `schema` out")
    for name in options:
        if name not in _OPTIONS:
            raise InvalidDataflow(f"a replay has no option {name!r}: it may have {', '.join(_OPTIONS)}")
    if options.setdefault("loop", "false") not in ("true", "false"):
        raise InvalidDataflow(f"the option `loop` of a replay must be true or false, got {options['loop']!r}")
    for name in ("most_rows", "numPartitions"):
        if name in options and not (options[name].isdecimal() and int(options[name]) >= 1):
            raise InvalidDataflow(f"the option `{name}` of a replay must be a whole number from 1 on, got {options[name]!r}")
    if "rate" in options or paced:
        _check_rate(options)
    return options


def _check_rate(options: Mapping[str, str]) -> None:
    if "rate" not in options:
        raise InvalidDataflow("a replay needs the option `rate`, in rows per second")
    try:
        pace_of(options)
    except ValueError as error:
        raise InvalidDataflow(
            f"the option `rate` of a replay must be rows per second, above 0 and at most "
            f"{MOST_ROWS_PER_S:,.0f}, got {options['rate']!r}"
        ) from error


def pace_of(options: Mapping[str, str]) -> Pace:
    """How the options of a replay say that it goes on."""
    return Pace(float(options["rate"]), int(options["most_rows"]) if options.get("most_rows") else None)
