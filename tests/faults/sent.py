"""Rows sent out, to a receiver that drops doubles by identity as the documentation says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import evenly
from faults.moments import Moments
from faults.work import Rows, Work, listed


def _body(rows: DataFrame) -> DataFrame:
    return rows.select(F.concat_ws(" ", "row", "g", "v").alias("body"))


def bodies(work: Work) -> Rows:
    return listed(_body(work.plain()))


def destination(work: Work) -> Any:
    """Where the schedule wants its rows."""
    kind = work.schedule.options.to
    if kind == "tcp":
        return evenly.TcpLines("127.0.0.1", work.receiver["tcp"])
    if kind == "http":
        return evenly.HttpPost(work.receiver["http"])
    return _taking(work.moments, work.folder / "taken")


def _taking(moments: Moments, path: Path) -> Any:
    def take(row: evenly.NumberedRow) -> None:
        moments.call("work")
        line = b"\t".join([*(str(part).encode() for part in row[:4]), row.body]) + b"\n"
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)

    return take


def _options(work: Work) -> dict[str, Any]:
    policy = work.schedule.options.policy
    return {"to": destination(work), "link": work.link, "timeout_s": 20.0} | ({} if policy == "default" else {"policy": policy})


def _counting(work: Work, rows: DataFrame) -> DataFrame:
    """Calls of the work are those of the function, or where there is none those of the tasks that send."""
    return rows if work.schedule.options.to == "function" else work.counting(rows, "work")


def send(work: Work) -> Rows:
    rows, kept = _counting(work, _body(work.rows())), work.folder / "kept"
    evenly.send(rows, sender=f"seed-{work.schedule.seed}", batch=0, checkpoint=kept, **_options(work))
    return []  # what came is at the receiver


def start_stream(work: Work, rows: DataFrame) -> Any:
    return evenly.stream_send(_counting(work, _body(rows)), checkpoint=work.folder / "checkpoint", **_options(work))


def kept(lines: list[tuple[str, int, int, int, str]]) -> Rows:
    """What a receiver keeps that remembers one number for each (sender, batch, partition)."""
    largest: dict[tuple[str, int, int], int] = {}
    rows: Rows = []
    for sender, batch, partition, number, body in lines:
        if number > largest.get((sender, batch, partition), -1):
            largest[sender, batch, partition] = number
            rows.append((body,))
    return rows


def parsed(text: str) -> list[tuple[str, int, int, int, str]]:
    """The lines of a file of rows; the last may have been cut off with its sender."""
    rows = []
    for line in text.split("\n")[:-1]:
        sender, batch, partition, number, body = line.split("\t", 4)
        rows.append((sender, int(batch), int(partition), int(number), body))
    return rows
