"""What one task measured."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from evenly.costs.moments import Moments
from evenly.errors import DamagedData, InvalidParameter, NewerFormat
from evenly.kernels.types import F64, I64

MAX_IDS = 8_192
"""The most ids that a report carries: 32 bytes each, so a report has at most 256 KiB and a header."""

_MAGIC = b"EVCR"
_FORMAT = 1
_HEAD = struct.Struct("<4sHII")  # magic, format, length of the header, checksum of that length and all that follows


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
    - `timed`: rows that were really timed (0: as many as are counted);
    - `cpu_s`, `peak_bytes`: cpu time of the Python worker for the task, and the most memory it has held (None: not told);
    - `results`: what its rows gave, where a row may give none or many (None: one for each).
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
    cpu_s: float | None = None
    peak_bytes: int | None = None
    results: int | None = None

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
        told: dict[str, Any] = {name: header[name] for name in _SCALARS if name in header}
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
    "cpu_s",
    "peak_bytes",
    "results",
)


def _plain(name: str, column: NDArray[Any]) -> NDArray[Any]:
    if column.ndim != 1 or column.dtype not in (np.dtype(np.int64), np.dtype(np.float64)):
        raise InvalidParameter(f"column {name!r} is {column.dtype} of shape {column.shape}: give one row of int64 or float64")
    return column


def may_fail_otherwise(before: Sequence[InstanceReport], after: Sequence[InstanceReport]) -> bool:
    """Whether an instance was run again between two looks at its reports, and rows of it failed in one of the runs."""
    first, second = ({it.instance: it for it in reports} for reports in (before, after))
    return first.keys() != second.keys() or any(
        it != second[instance] and (it.errors > 0 or second[instance].errors > 0) for instance, it in first.items()
    )
