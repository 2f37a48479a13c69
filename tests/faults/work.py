"""What an operation of a schedule gets: a session, the input with and without faults, a folder, a receiver."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from faults.inputs import columns, differing, key_names, stable
from faults.moments import Moments, counted
from faults.schedule import Schedule

Rows = list[tuple[Any, ...]]


class Restart(Exception):
    """The driver is to be started again on another number of cores."""

    def __init__(self, cores: int) -> None:
        super().__init__(cores)
        self.cores = cores


@dataclass
class Work:
    """One schedule as the driver sees it; all that outlives the driver is in the folder."""

    spark: SparkSession
    schedule: Schedule
    folder: Path
    receiver: dict[str, Any]
    link: str
    moments: Moments = field(init=False)

    def __post_init__(self) -> None:
        told = [(n, fault.kind, fault.where, fault.at) for n, fault in enumerate(self.schedule.faults)]
        self.moments = Moments(self.folder, told)

    @property
    def key(self) -> str | list[str]:
        """The key as a user gives it."""
        names = key_names(self.schedule.shape)
        return names[0] if len(names) == 1 else list(names)

    @property
    def cols(self) -> list[Column]:
        return columns(key_names(self.schedule.shape))

    @property
    def instances(self) -> int:
        return self.schedule.settings.instances

    def plain(self) -> DataFrame:
        """The input without anything that disturbs."""
        return stable(self.spark, self.schedule.shape, self.schedule.seed)

    def rows(self) -> DataFrame:
        """The input as the schedule has it."""
        return self.counting(differing(self.plain(), self.schedule.shape.twice), "input")

    def counting(self, frame: DataFrame, where: str) -> DataFrame:
        """`frame`, with calls counted in the tasks that compute it, if a fault waits for one."""
        if not self.moments.counts(where):
            return frame
        # Spark's mapInArrow does not take every name that a column can have.
        plain = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
        return plain.mapInArrow(counted(self.moments, where), plain.schema).toDF(*frame.columns)

    def happened(self, kind: str) -> bool:
        """Whether a fault of a kind has happened."""
        return any(
            fault.kind == kind and (self.folder / f"fired-{number}").exists()
            for number, fault in enumerate(self.schedule.faults)
        )

    def keep(self, name: str, rows: Rows) -> None:
        """Rows in a file of the folder, whole or not at all."""
        target = self.folder / name
        partial = target.with_suffix(".partial")
        partial.write_text(json.dumps(rows, default=str))
        partial.replace(target)


def listed(frame: DataFrame) -> Rows:
    """The rows of a frame as plain values."""
    return [tuple(row) for row in frame.collect()]
