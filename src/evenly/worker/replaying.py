"""Parquet files as one table of numbered rows, of which a task reads a part."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from evenly.dataflow.replay import Offered
from evenly.errors import CheckpointMismatch, InvalidDataflow

_KEPT_BYTES = 64 * 2**20
"""What a worker keeps of the row groups that it has decoded, so that it decodes one once for many batches."""
_ALIKE = "write what is to be replayed as files that all have the same columns, none of them in the names of folders"


@dataclass(frozen=True)
class Span:
    """Rows of one row group of a file: `count` of them from `first` on; the first has this `number` in the replay. `version` is
    another one if the file was written anew."""

    file: str
    group: int
    first: int
    count: int
    number: int
    version: str = ""


@dataclass(frozen=True)
class ReplayedFiles:
    """The Parquet files of a path in the order of their names, and the rows of each of their row groups; by file `versions`
    (size, time) and `footers`, checksums of what Parquet says at its end: places, sizes, and least and largest values."""

    groups: tuple[tuple[str, int, int], ...]
    versions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    footers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def at(cls, path: str, columns: list[str]) -> ReplayedFiles:
        """Of a file or folder, as Spark reads it: without folders in it and files of no bytes. All files must have these
        columns, of the same types."""
        system, root = _located(path)
        info = system.get_file_info(root)
        if info.type == fs.FileType.NotFound:
            pattern = " (a replay takes no pattern)" if any(mark in path for mark in "*?[{") else ""
            raise InvalidDataflow(f"there is nothing at {path}{pattern}: give the path of a Parquet file or a folder of them")
        found = [info] if info.type == fs.FileType.File else system.get_file_info(fs.FileSelector(root, recursive=True))
        hidden = len(root.rstrip("/")) + 1
        files = {
            one.path: (int(one.size or 0), int(one.mtime_ns or 0))
            for one in found
            if one.type == fs.FileType.File and (one is info or (one.size and _is_read(one.path, one.path[hidden:].split("/"))))
        }
        groups = []
        footers: dict[str, int] = {}
        kinds: dict[str, tuple[str, str]] = {}
        for file in sorted(files):
            with _opened(system, file) as opened:
                if lacking := [name for name in columns if name not in opened.schema_arrow.names]:
                    raise InvalidDataflow(f"{file} has no column {lacking[0]!r}: {_ALIKE}")
                for name in columns if opened.metadata.num_rows else []:
                    other = _told_type(opened.schema_arrow.field(name).type)
                    first, kind = kinds.setdefault(name, (file, other))
                    if other != kind:
                        raise InvalidDataflow(
                            f"the column {name!r} is {kind} in {first} and {other} in {file}: write what is to be replayed as "
                            "files that all have the same types"
                        )
                told = opened.metadata
                groups += [(_named(path, file), it, told.row_group(it).num_rows) for it in range(opened.num_row_groups)]
            footers[_named(path, file)] = _footer(system, file)
        kept = tuple(group for group in groups if group[2])
        if not kept:
            raise InvalidDataflow(f"there are no rows in the Parquet files of {path}: nothing can be replayed")
        return cls(kept, {_named(path, file): version for file, version in files.items()}, footers)

    @cached_property
    def ends(self) -> list[int]:
        """The number of rows up to the end of each row group."""
        return [int(end) for end in np.cumsum([rows for _, _, rows in self.groups])]

    @property
    def rows(self) -> int:
        """All rows."""
        return self.ends[-1]

    @cached_property
    def mark(self) -> str:
        """Another one where other rows may have the same numbers."""
        told = "\n".join(
            f"{file.rpartition('/')[2]} {group} {rows} {self._size(file)} {self.footers.get(file, 0)}"
            for file, group, rows in self.groups
        )
        return f"{zlib.crc32(told.encode()):08x}"

    def check_types(self, schema: pa.Schema) -> None:
        """Refuse columns that are not kept as what they are to be: a variant, which Spark alone can read."""
        system, path = _located(self.groups[0][0])
        with _opened(system, path) as opened:
            for wanted in schema:
                kind = opened.schema_arrow.field(wanted.name).type
                if not _becomes(kind, wanted.type):
                    raise InvalidDataflow(
                        f"the column {wanted.name!r} cannot be replayed, for it is kept as {kind} and is to be {wanted.type}: "
                        "write the files with it cast, such as to text, or leave it out"
                    )

    def check(self, offered: Offered, path: str, *, loops: bool) -> None:
        """Refuse to go on where other files were replayed, or rows beyond these, which begin again only if it `loops`."""
        if offered.files != self.mark:
            raise CheckpointMismatch(
                f"the files at {path} are not those that were replayed before row {offered.row}: bring them back, or begin "
                "with a new checkpoint"
            )
        if offered.row > self.rows and not loops:
            raise CheckpointMismatch(
                f"{offered.row} rows were replayed, and the files at {path} have {self.rows}: they had begun again. Give the "
                "option `loop: true`, or begin with a new checkpoint"
            )

    def _size(self, file: str) -> int:
        return self.versions.get(file, (0, 0))[0]

    def spans(self, begin: int, end: int, parts: int) -> list[list[Span]]:
        """The rows from number `begin` up to `end`, in at most so many parts of about the same size; past the last row they
        begin again."""
        count = end - begin
        parts = max(1, min(parts, count))
        cuts = [begin + count * part // parts for part in range(parts + 1)]
        return [list(self._between(*cut)) for cut in pairwise(cuts) if cut[0] < cut[1]]

    def _between(self, begin: int, end: int) -> Iterator[Span]:
        while begin < end:
            at = begin % self.rows
            place = bisect_right(self.ends, at)
            file, group, rows = self.groups[place]
            first = at - (self.ends[place] - rows)
            count = min(end - begin, rows - first)
            yield Span(file, group, first, count, begin, str(self.versions.get(file, "")))
            begin += count


def replayed(spans: list[Span], end: Offered, schema: pa.Schema, arrival: str) -> Iterator[pa.RecordBatch]:
    """The rows of spans, with the columns of `schema`, one of which says when each arrived."""
    stamps = schema.get_field_index(arrival)
    for span in spans:
        table = _group(span, schema, arrival)
        numbers = np.arange(span.number + 1 - end.from_row, span.number + 1 - end.from_row + span.count, dtype=np.float64)
        arrived = pa.array(end.from_us + np.floor(numbers * (1e6 / end.rate)).astype(np.int64), pa.int64())
        rows = table.slice(span.first, span.count)
        rows = rows.add_column(stamps, schema.field(stamps), arrived.cast(schema.field(stamps).type))
        yield from rows.to_batches()


_decoded: OrderedDict[Any, pa.Table] = OrderedDict()


def _group(span: Span, schema: pa.Schema, arrival: str) -> pa.Table:
    """A row group with the columns of `schema` but the arrival, decoded or as it is remembered."""
    fields = [field for field in schema if field.name != arrival]
    asked = (span.file, span.version, span.group, tuple((field.name, str(field.type)) for field in fields))
    if asked in _decoded:
        _decoded.move_to_end(asked)
        return _decoded[asked]
    system, path = _located(span.file)
    with _opened(system, path) as opened:
        table = opened.read_row_group(span.group, columns=[field.name for field in fields], use_threads=False)
    table = table.select([field.name for field in fields]).cast(pa.schema(fields)).combine_chunks()
    while _decoded and sum(it.nbytes for it in _decoded.values()) + table.nbytes > _KEPT_BYTES:
        _decoded.popitem(last=False)
    if table.nbytes <= _KEPT_BYTES:
        _decoded[asked] = table
    return table


def _is_read(path: str, parts: list[str]) -> bool:
    """Whether Spark reads a file, by its path below the folder."""
    if any(part.startswith(("_", ".")) for part in parts):
        return False
    if any("=" in part for part in parts[:-1]):
        raise InvalidDataflow(f"{path} is in a folder that is named by a column: {_ALIKE}")
    return len(parts) == 1


def _opened(system: fs.FileSystem, path: str) -> pq.ParquetFile:
    """A file whose older timestamps (INT96, which Spark writes unless told otherwise) are microseconds, as Spark has them: as
    nanoseconds no year before 1678 or after 2262 has one."""
    try:
        return pq.ParquetFile(path, filesystem=system, coerce_int96_timestamp_unit="us")
    except pa.ArrowInvalid as error:
        raise InvalidDataflow(f"{path} is not Parquet, or is damaged ({error}): remove it") from error


def _becomes(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow makes one type of the other without leaving out fields, such as those of a variant that are kept apart."""
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        inner = {field.name: field.type for field in wanted}
        return {field.name for field in kind} == inner.keys() and all(_becomes(it.type, inner[it.name]) for it in kind)
    if pa.types.is_map(kind) and pa.types.is_map(wanted):
        return _becomes(kind.key_type, wanted.key_type) and _becomes(kind.item_type, wanted.item_type)
    if all(hasattr(it, "value_type") and not pa.types.is_dictionary(it) for it in (kind, wanted)):
        return _becomes(kind.value_type, wanted.value_type)
    try:
        pa.nulls(0, kind).cast(wanted)
    except pa.ArrowException:
        return False
    return True


def _told_type(kind: pa.DataType) -> str:
    """A type as Spark tells types apart: neither by how long texts may be nor by how they are kept."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return str(plain).replace("large_", "")


def _footer(system: fs.FileSystem, file: str) -> int:
    """A checksum of what Parquet writes at the end of a file, whose last 8 bytes tell how long it is."""
    with system.open_input_file(file) as opened:
        size = opened.size()
        opened.seek(size - 8)
        length = int.from_bytes(opened.read(4), "little")
        opened.seek(max(0, size - 8 - length))
        return zlib.crc32(opened.read(length))


def _located(path: str) -> tuple[Any, str]:
    """The file system of a path, and the path there; `file:/x` is how Spark writes a local one."""
    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        return fs.LocalFileSystem(), unquote(parts.path) if parts.scheme else path
    return fs.FileSystem.from_uri(path)  # type: ignore[no-any-return] # pyarrow is not typed


def _named(path: str, file: str) -> str:
    """The file as `_located` finds it."""
    parts = urlsplit(path)
    return file if parts.scheme in ("", "file") else f"{parts.scheme}://{file}"
