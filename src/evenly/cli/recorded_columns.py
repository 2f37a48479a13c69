"""Columns of a user's recorded stream: a Parquet or CSV file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from evenly.errors import DamagedData, EmptyStream, InvalidCost, UnknownColumn
from evenly.kernels.types import F64
from evenly.streams.recorded import csv_headings, read_column


def keys_of(file: Path, name: str) -> pa.ChunkedArray:
    """The column of keys, which has a row at least."""
    column = _column(file, name)
    if len(column) == 0:
        raise EmptyStream(f"{file} has no rows: there is nothing to simulate")
    return column


def numbers_of(file: Path, name: str, option: str) -> F64:
    """A column of numbers, which `option` names."""
    column = _column(file, name)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InvalidCost(f"{option} must name a column of numbers, and {name!r} has type {column.type}")
    return np.asarray(column.cast(pa.float64()).combine_chunks().to_numpy(zero_copy_only=False), np.float64)


def _column(file: Path, name: str) -> pa.ChunkedArray:
    if file.suffix.lower() != ".csv":
        return read_column(file, name)
    if not file.is_file():
        raise DamagedData(f"{file} is not a file: give the path of a Parquet or CSV file")
    try:
        known = csv_headings(file)
        if name not in known:
            raise UnknownColumn(f"{file} has no column {name!r}: it has {', '.join(known)}")
        return pa_csv.read_csv(file, convert_options=pa_csv.ConvertOptions(include_columns=[name])).column(0)
    except (pa.ArrowException, OSError) as error:
        raise DamagedData(f"{file} is not a CSV file with a line of headings, or is damaged: {error}") from error
