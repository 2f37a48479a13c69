"""The key columns of the recorded streams that the benchmarks read, where their files are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from evenly.streams.recorded import read_column

STREAMS = {
    "flights3m": ("key", "dest"),
    "congress_mentions": ("key",),
    "congress_cost": ("author",),
    "wyscout_events": ("player", "cell", "sub"),
    "debian_dep_refs": ("key",),
    "wikiticker": ("key", "user"),
    "wiki_sent_1": ("text",),
}


def recorded_keys(folder: Path) -> Iterator[tuple[str, pa.Array]]:
    """Every key column that is there, as `(stream.column, keys)`; sentences become their words in lower case."""
    for name, columns in STREAMS.items():
        path = folder / f"{name}.parquet"
        for column in columns if path.is_file() else ():
            values = read_column(path, column)
            if column == "text":
                values = pc.list_flatten(pc.split_pattern(pc.utf8_lower(values), " "))
            yield f"{name}.{column}", values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
