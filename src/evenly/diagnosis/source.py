"""A user's data before Spark sees it: what kind of files they are, and whether the columns are there.

Asked first, because Spark takes seconds to start and answers a damaged file with a page of Java.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from evenly.errors import DamagedData, EmptyStream, UnknownColumn
from evenly.streams.recorded import csv_headings

_LOOKED_AT = 1 << 24
KINDS = ("parquet", "csv", "json", "orc")


def data_kind(path: Path) -> str:
    """Parquet, csv, json or orc, by the name of the file or of the first file in the folder that says; else Parquet."""
    for file in data_files(path):
        named = [kind for kind in KINDS if kind in file.name.lower().split(".")[1:]]
        if named:
            return named[0]
    return "parquet"


def data_files(path: Path) -> list[Path]:
    """The file itself, or the files of a folder that Spark would read: no hidden ones, none that begins with _."""
    if path.is_file():
        return [path]
    return [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file() and not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
    ]


def is_array(path: Path) -> bool:
    """Whether JSON begins as one list of all rows: else each line is a row."""
    return bool(data_files(path)) and _begins(data_files(path)[0], 4_096).removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["


def _begins(file: Path, size: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(size)


def _check_text(file: Path) -> None:
    """Refuse text that is not UTF-8: Spark puts the same mark for every letter that it cannot read, and keys become one."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(_begins(file, _LOOKED_AT))
    except UnicodeDecodeError as error:
        raise DamagedData(f"{file} is not UTF-8 at byte {error.start}: convert it first (iconv -f LATIN1 -t UTF-8)") from error


def check_columns(path: Path, names: Sequence[str]) -> None:
    """Refuse data that cannot be read or that has no such columns. Of a folder, its first file is looked at."""
    files = data_files(path)
    if not files:
        raise EmptyStream(f"{path} has no files in it: give the path of Parquet or CSV data")
    kind = data_kind(path)
    file = next((one for one in files if f".{kind}" in one.name.lower()), files[0])
    known: Sequence[str] = ()
    try:
        if kind == "parquet":
            known = pq.read_schema(file).names
        elif kind == "csv":
            known = csv_headings(file)
        if file.name.lower().endswith((".csv", ".json")):
            _check_text(file)
    except (pa.ArrowException, OSError) as error:
        heading = " with a line of headings" if kind == "csv" else ""
        raise DamagedData(f"{file} is not a {kind} file{heading}, or is damaged: {str(error).splitlines()[0]}") from error
    if kind not in ("parquet", "csv"):
        return
    folders = [part.partition("=")[0] for part in file.relative_to(path).parts[:-1] if "=" in part]
    present = {name.lower() for name in (*known, *folders)}
    for name in names:
        bare = name[1:-1].replace("``", "`") if name.startswith("`") and name.endswith("`") else name
        if bare.lower() not in present and name.partition(".")[0].strip("`").lower() not in present:
            raise UnknownColumn(f"{path} has no column {name!r}: it has {', '.join((*known, *folders))}")
