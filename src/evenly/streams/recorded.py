"""Recorded streams: a column of a Parquet file, in the file's order; and the columns that a CSV file has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from evenly.errors import DamagedData, UnknownColumn


def read_column(path: str | os.PathLike[str], column: str) -> pa.ChunkedArray:
    """One whole column."""
    with _opened(path, column) as file:
        return file.read(columns=[column]).column(0)


def replay(path: str | os.PathLike[str], column: str, *, batch: int = 65_536) -> Iterator[pa.Array]:
    """One column a batch at a time, in the order recorded and in bounded memory."""
    with _opened(path, column) as file:
        for part in file.iter_batches(batch_size=batch, columns=[column]):
            yield part.column(0)


def csv_headings(path: Path) -> list[str]:
    """The names of a CSV file's columns; what else is wrong with the file is Arrow's error."""
    try:
        with pa_csv.open_csv(path) as reader:
            return list(reader.schema.names)
    except UnicodeDecodeError as error:
        raise DamagedData(f"the headings of {path} are not UTF-8: save it again as UTF-8") from error


@contextmanager
def _opened(path: str | os.PathLike[str], column: str) -> Iterator[pq.ParquetFile]:
    """The file, if it has the column; what Arrow says of a damaged one becomes an error of ours."""
    if not Path(path).is_file():
        raise DamagedData(f"{path} is not a file: give the path of a Parquet or CSV file")
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if column not in names:
                raise UnknownColumn(f"{path} has no column {column!r}: it has {', '.join(names)}")
            yield file
    except (pa.ArrowException, OSError) as error:
        raise DamagedData(f"{path} is not a Parquet file, or is damaged: {error}") from error
