"""What one task measured, and the meter that measures beside the user's function."""

from __future__ import annotations

import json
import math
import struct
import zlib
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenly.costs.moments import Moments, checked_costs, checked_ids
from evenly.costs.shrinkage import folded
from evenly.errors import DamagedData, InvalidCost, InvalidParameter, NewerFormat
from evenly.kernels.types import F64, I64

MAX_IDS = 8_192
"""The most ids that a report carries: 32 bytes each, so a report has at most 256 KiB and a header."""

_MAGIC = b"EVCR"
_FORMAT = 1
_HEAD = struct.Struct("<4sHII")  # magic, format, length of the header, checksum of that length and all that follows
_PENDING_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class InstanceReport:
    """What one task measured: exact moments for each key id (at most 8,192), its rows, its time and its place.

    Fields:

    - `instance`: the partition it ran; `executor`: "host:pid" of the process that started the Python worker;
    - `rows`: rows executed; `errors`: of these, rows that failed;
    - `busy_s`: cost of all rows, as measured; `estimated_s`: the estimates of the same rows summed (0 when there were none);
    - `first_s`, `last_s`: unix time of the first row's start and the last row's end;
    - `completion_s`: sum over the rows of (end of the row - start of the batch);
    - `ids` (sorted), `counts`, `sums_s`, `squares`: moments of the timed rows of the costliest ids; one timed for 16 counts 16;
    - `rest`: the moments (count, sum, squares) of all other ids together;
    - `columns`: arrays of int64 or float64 by name, as much as the caller wants to carry, or None;
    - `timed`: rows that were really timed (0: as many as are counted).
    """

    instance: int
    executor: str
    rows: int
    busy_s: float
    estimated_s: float
    first_s: float
    last_s: float
    completion_s: float
    errors: int
    ids: I64
    counts: F64
    sums_s: F64
    squares: F64
    rest: tuple[float, float, float] = (0.0, 0.0, 0.0)
    columns: dict[str, NDArray[Any]] | None = None
    timed: int = 0

    @property
    def moments(self) -> Moments:
        """The moments of the ids that are told one by one."""
        return Moments(self.ids, self.counts, self.sums_s, self.squares)

    @property
    def counted(self) -> float:
        """How many rows the moments stand for."""
        return float(self.counts.sum()) + self.rest[0]

    @property
    def sampling(self) -> float:
        """Rows really timed for each row counted: 1, or 1/16 when one row of 16 was timed. Statistics need the former."""
        counted = self.counted
        return min(1.0, self.timed / counted) if self.timed > 0 and counted > 0 else 1.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InstanceReport) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash((self.instance, self.executor, self.rows, self.first_s))

    def to_bytes(self) -> bytes:
        """A header in JSON, then the arrays as they are in memory (little-endian), under one checksum."""
        if self.ids.size > MAX_IDS:
            raise InvalidParameter(f"a report carries at most {MAX_IDS} ids, got {self.ids.size}: fold the others into rest")
        arrays: dict[str, NDArray[Any]] = {
            "ids": self.ids,
            "counts": self.counts,
            "sums_s": self.sums_s,
            "squares": self.squares,
        }
        arrays |= {f"column {name}": _plain(name, column) for name, column in (self.columns or {}).items()}
        header = {field.name: getattr(self, field.name) for field in fields(self) if field.name in _SCALARS}
        header["rest"] = list(self.rest)
        header["columns"] = None if self.columns is None else len(self.columns)
        header["arrays"] = [[name, array.dtype.str[1:], int(array.size)] for name, array in arrays.items()]
        text = json.dumps(header).encode()
        content = b"".join(
            [text, *(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes() for array in arrays.values())]
        )
        return _HEAD.pack(_MAGIC, _FORMAT, len(text), zlib.crc32(content, len(text))) + content

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The report that `to_bytes` was called on. Refuses damaged bytes and a newer format."""
        data = bytes(data)
        if len(data) < _HEAD.size or data[:4] != _MAGIC:
            raise DamagedData(f"these {len(data)} bytes are not an instance's report")
        _, version, length, checksum = _HEAD.unpack_from(data)
        if version > _FORMAT:
            raise NewerFormat(f"this report is in format {version}, and this release reads up to {_FORMAT}: upgrade evenly")
        content = data[_HEAD.size :]
        if zlib.crc32(content, length) != checksum or length > len(content):
            raise DamagedData(f"these {len(data)} bytes of an instance's report are damaged: their checksum does not fit")
        try:
            return cls._of(json.loads(content[:length]), content[length:])
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedData(f"these {len(data)} bytes of an instance's report cannot be read: {error}") from error

    @classmethod
    def _of(cls, header: dict[str, Any], buffers: bytes) -> Self:
        arrays: dict[str, NDArray[Any]] = {}
        at = 0
        for name, kind, size in header["arrays"]:
            dtype = np.dtype("<" + kind)
            arrays[name] = np.frombuffer(buffers, dtype, size, at).astype(dtype.newbyteorder("="))
            at += dtype.itemsize * size
        columns = {name.removeprefix("column "): array for name, array in arrays.items() if name.startswith("column ")}
        told: dict[str, Any] = {name: header[name] for name in _SCALARS}
        told |= {name: arrays[name] for name in ("ids", "counts", "sums_s", "squares")}
        count, cost, square = header["rest"]
        return cls(**told, rest=(count, cost, square), columns=None if header["columns"] is None else columns)


_SCALARS = (
    "instance",
    "executor",
    "rows",
    "busy_s",
    "estimated_s",
    "first_s",
    "last_s",
    "completion_s",
    "errors",
    "timed",
)


def _plain(name: str, column: NDArray[Any]) -> NDArray[Any]:
    if column.ndim != 1 or column.dtype not in (np.dtype(np.int64), np.dtype(np.float64)):
        raise InvalidParameter(f"column {name!r} is {column.dtype} of shape {column.shape}: give one row of int64 or float64")
    return column


class CostMeter:
    """Adds up what rows cost, by id, beside the user's function.

    Memory is bounded whatever the rows: at most twice `limit` ids and 65,536 rows that wait to be added. When there are
    more ids, those that are believed to cost least in all are folded into `rest`; totals stay exact. An id that was folded
    and comes back starts again, with exact moments of its later rows.

    Parameters: `limit`, 1 to 8,192 ids.
    """

    def __init__(self, *, limit: int = MAX_IDS) -> None:
        if not 1 <= limit <= MAX_IDS:
            raise InvalidParameter(f"limit must be from 1 to {MAX_IDS} ids, got {limit}")
        self.limit = limit
        self._known = Moments.empty()
        self._rest = np.zeros(3)
        self._timed = 0
        self._ids = np.empty(_PENDING_ROWS, np.int64)
        self._costs = np.empty(_PENDING_ROWS)
        self._weights = np.empty(_PENDING_ROWS)
        self._pending = 0

    @property
    def timed(self) -> int:
        """How many rows were added."""
        return self._timed

    @property
    def memory_bytes(self) -> int:
        return self._known.nbytes + self._ids.nbytes + self._costs.nbytes + self._weights.nbytes + self._rest.nbytes

    def add(self, ids: ArrayLike, costs_s: ArrayLike, *, weight: float = 1.0) -> None:
        """Take in rows and their measured costs; each stands for `weight` rows (16 when one row of 16 is timed)."""
        if not (math.isfinite(weight) and weight > 0.0):
            raise InvalidCost(f"weight is {weight}: a timed row stands for a finite number of rows above 0")
        of_rows = checked_ids(ids)
        costs = checked_costs(costs_s, of_rows.size)
        self._timed += of_rows.size
        at = 0
        while at < of_rows.size:
            take = min(of_rows.size - at, _PENDING_ROWS - self._pending)
            room = slice(self._pending, self._pending + take)
            self._ids[room] = of_rows[at : at + take]
            self._costs[room] = costs[at : at + take]
            self._weights[room] = weight
            self._pending += take
            at += take
            if self._pending == _PENDING_ROWS:
                self._flush(2 * self.limit)

    def report(
        self,
        *,
        instance: int,
        executor: str = "",
        rows: int | None = None,
        busy_s: float | None = None,
        estimated_s: float = 0.0,
        first_s: float = 0.0,
        last_s: float = 0.0,
        completion_s: float = 0.0,
        errors: int = 0,
        columns: dict[str, NDArray[Any]] | None = None,
    ) -> InstanceReport:
        """All that was measured; `rows` and `busy_s` are those of the meter unless they are given."""
        self._flush(self.limit)
        total = self._known.total + self._rest
        return InstanceReport(
            instance=instance,
            executor=executor,
            rows=round(float(total[0])) if rows is None else rows,
            busy_s=float(total[1]) if busy_s is None else busy_s,
            estimated_s=estimated_s,
            first_s=first_s,
            last_s=last_s,
            completion_s=completion_s,
            errors=errors,
            ids=self._known.ids,
            counts=self._known.counts,
            sums_s=self._known.sums_s,
            squares=self._known.squares,
            rest=(float(self._rest[0]), float(self._rest[1]), float(self._rest[2])),
            columns=columns,
            timed=self._timed,
        )

    def _flush(self, limit: int) -> None:
        new = slice(0, self._pending)
        added = Moments.of_rows(self._ids[new], self._costs[new], self._weights[new])
        self._pending = 0
        both = Moments.pooled([self._known, added])
        if both.size > limit:
            both, self._rest = folded(both, self._rest, limit=self.limit)
        self._known = both
