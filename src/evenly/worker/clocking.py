"""Measuring inside a Python worker: rows one at a time, and what a slot gets of a core."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from evenly.worker.flowing import Graph, flowing

ROW_SECONDS = "seconds double"
BURNT = "cpu double, clock double"
_BURST = 10_000


def clocked(graph: Graph, limit_s: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: how long each row took, one at a time, of as many as take `limit_s` together.

    The first one is not counted if there are more: a function does then what it does only once.
    """
    return partial(_clocked, graph, limit_s)


def _clocked(graph: Graph, limit_s: float, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    took_s: list[float] = []

    def one_by_one() -> Iterator[pa.RecordBatch]:
        """The next row is asked for when this one has gone all the way."""
        ends_s = time.perf_counter() + limit_s
        for batch in batches:
            for at in range(batch.num_rows):
                begun_s = time.perf_counter()
                if took_s and begun_s > ends_s:
                    return
                yield batch.slice(at, 1)
                took_s.append(time.perf_counter() - begun_s)

    for _ in flowing(graph)(one_by_one()):
        pass
    yield pa.RecordBatch.from_arrays([pa.array(took_s[1:] or took_s, pa.float64())], ["seconds"])


def burning(seconds: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: computes for so long on the clock, and says how much of a core it got."""
    return partial(_burning, seconds)


def _burning(seconds: float, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    begun_s, cpu_s = time.perf_counter(), time.process_time()
    while time.perf_counter() - begun_s < seconds:
        sum(range(_BURST))
    told = [pa.array([time.process_time() - cpu_s]), pa.array([time.perf_counter() - begun_s])]
    yield pa.RecordBatch.from_arrays(told, ["cpu", "clock"])


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    """An operator that does nothing, to measure what is around it."""
    return batch
