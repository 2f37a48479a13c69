"""Whole jobs of unequal rows: `repartition(k)`, 32 and 128 partitions, first runs of `apply_by_cost` and a learnt one."""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import evenly
from cost_parts import Rows, say, session
from evenly.costs.model import CostModel
from evenly.errors import InvalidParameter
from evenly.lab.papers.applications.catalogue import DOCUMENTS_FILE, _lengths, reach_application, tweet_application
from evenly.lab.papers.recorded_data import DATA_VARIABLE, find_recorded
from evenly.lab.trials.rows import Stamped, TimedBatch, Trial

K, FILES = 8, 4
SIZES = (500, 2_000, 10_000, 100_000)
WIDTHS = {"narrow": 0, "10 kB": 10_000}
LEARNING_SEED = 99
BEHIND_S = 0.005
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # workers cannot import benchmarks
WAYS = {
    "k": "repartition(k)",
    "32": "32 partitions",
    "128": "128 partitions",
    "first": "first run",
    "whole": "first run, not in pieces",
    "learnt": "learnt",
}
"""The ways as they are asked for, and as they are told."""
USUAL_WAYS = [short for short in WAYS if short != "whole"]
PLAIN, FIRST, WHOLE, LEARNT = WAYS["k"], WAYS["first"], WAYS["whole"], WAYS["learnt"]
PARTITIONS = {PLAIN: K, WAYS["32"]: 32, WAYS["128"]: 128}
JOB_S, BYTES_PER_S, WRITTEN_PER_S, LONGER = 0.7, 60e6, 200e6, 1.1
"""For the estimate: what a job takes that costs nothing, how fast wide rows are shuffled and written, and how much longer than
its bound a job of equal parts is."""


class WaitCost:
    """Waits as long as `row.cost_us` says. What a wait was too long is taken off the next ones, so tiny costs add up right."""

    def __init__(self) -> None:
        self.due_s = 0.0

    def __call__(self, row: Any) -> tuple[int]:
        now_s = time.perf_counter()
        self.due_s = max(self.due_s, now_s - BEHIND_S) + row.cost_us * 1e-6
        if self.due_s > now_s:
            time.sleep(self.due_s - now_s)
        return (row.number,)


def tweets(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    made = tweet_application(rows, seed=seed)
    return made.table["entity"].to_numpy(), made.costs_ms


def reach(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    made = reach_application(rows, seed=seed)
    return made.table["node"].to_numpy(), made.costs_ms


def documents(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths alone: the key is the length in steps of 19 %, as in the application."""
    lengths = _lengths(find_recorded(DOCUMENTS_FILE))[1]
    words = lengths[np.random.default_rng(seed).integers(0, lengths.size, rows)]
    return np.floor(4 * np.log2(words + 1)).astype(np.int64), words.astype(np.float64)


def constant(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(seed).integers(0, 64, rows), np.ones(rows)


def one_row(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One row takes 30 % of all time, the others are alike."""
    at = int(np.random.default_rng(seed).integers(0, rows))
    keys, costs = np.ones(rows, np.int64), np.ones(rows)
    keys[at], costs[at] = 0, 0.3 / 0.7 * (rows - 1)
    return keys, costs


COSTS: dict[str, Callable[[int, int], tuple[np.ndarray, np.ndarray]]] = {
    "tweets": tweets,
    "reach": reach,
    "documents": documents,
    "constant": constant,
    "one row of 30 %": one_row,
}


@dataclass(frozen=True)
class Cell:
    """Rows of one kind, number and width, whose costs make jobs of at least `bound_s` seconds on K instances."""

    stream: str
    rows: int
    width: str
    bound_s: float

    def __str__(self) -> str:
        return f"{self.stream}, {self.rows} rows, {self.width}"

    @property
    def identity(self) -> dict[str, object]:
        """What must be the same for two rounds to be of one cell."""
        return {
            "stream": self.stream,
            "rows": self.rows,
            "width": self.width,
            "bound_s": self.bound_s,
            "instances": K,
            "recorded": bool(os.environ.get(DATA_VARIABLE)),
        }

    def expected_s(self, ways: int, rounds: int) -> float:
        """About how long so many rounds take on an idle machine."""
        wide = self.rows * WIDTHS[self.width]
        job_s = JOB_S + wide / BYTES_PER_S
        written_s = (rounds + 1) * wide / WRITTEN_PER_S
        return (1 + ways * rounds) * (LONGER * self.bound_s + job_s) + 2 * ways * job_s + written_s if rounds else 0.0

    @contextmanager
    def written(self, folder: Path, seed: int) -> Iterator[str]:
        """Rows as four Parquet files, for a while; costs are scaled so that max(sum / k, largest) is `bound_s`."""
        path = folder / f"{self.stream[:3]}-{self.rows}-{self.width}-{seed}"
        path.mkdir()
        keys, costs = COSTS[self.stream](self.rows, seed)
        scale = self.bound_s / max(costs.sum() / K, costs.max())
        for part in range(FILES):
            here = slice(part * self.rows // FILES, (part + 1) * self.rows // FILES)
            columns = {"key": keys[here], "cost_us": costs[here] * scale * 1e6, "number": np.arange(self.rows)[here]}
            if WIDTHS[self.width]:
                columns["body"] = bodies(columns["number"].size, WIDTHS[self.width])
            pq.write_table(pa.table(columns), path / f"{part}.parquet", compression="none", use_dictionary=False)
        yield str(path)
        shutil.rmtree(path)


def bodies(rows: int, width: int) -> pa.Array:
    """Text that does not compress, each row another."""
    step = 37
    text = base64.b64encode(os.urandom(width + rows * step)).decode()
    return pa.array([text[at * step : at * step + width] for at in range(rows)])


def cells(costs: Iterable[str], sizes: Sequence[int], widths: Iterable[str], bound_s: float) -> list[Cell]:
    """All of these, checked."""
    costs = _known(costs, list(COSTS))
    widths = _known(widths, list(WIDTHS))
    return [Cell(cost, rows, width, bound_s) for cost in costs for rows in sizes for width in widths]


def ways_of(asked: Iterable[str]) -> list[str]:
    """Ways as they are told, in their order, of how they are asked for."""
    chosen = _known(asked, list(WAYS))
    return [told for short, told in WAYS.items() if short in chosen]


def _known(asked: Iterable[str], known: list[str]) -> list[str]:
    for name in (chosen := list(asked)):
        if name not in known:
            raise InvalidParameter(f"there is no {name!r}: choose of {', '.join(known)}")
    return chosen


def jobs(chosen: Sequence[Cell], ways: Sequence[str], rounds: int, out: Path | None, arrow_bytes: str | None = None) -> Rows:
    """The rounds of all cells, one object for each: those that `out` holds already, and the others, which are added to it.

    `arrow_bytes`: so many go to Python at a time, of which `out` says nothing. None: as many as Spark gives it.
    """
    done = {} if out is None else _read(out)
    missing = {cell: [number for number in range(rounds) if not _has(done, cell, number, ways)] for cell in chosen}
    expected_s = sum(cell.expected_s(len(ways), len(numbers)) for cell, numbers in missing.items())
    count = sum(map(len, missing.values()))
    say(f"jobs: {len(chosen)} cells, {count} of {rounds * len(chosen)} rounds to run, about {expected_s / 60:.0f} minutes")
    started = time.perf_counter()
    if count:
        with session(K, memory="6g") as spark, tempfile.TemporaryDirectory() as folder:
            if arrow_bytes is not None:
                spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", arrow_bytes)
            trial = Trial(spark, WaitCost(), "number bigint", "key")
            for cell, numbers in missing.items():
                for line in _rounds(trial, Path(folder), cell, ways, numbers):
                    done[_key(line)] = line
                    if out is not None:
                        with out.open("a", encoding="utf-8") as lines:
                            lines.write(json.dumps(line) + "\n")
        say(f"jobs: took {(time.perf_counter() - started) / 60:.1f} minutes")
    return [done[_key({**cell.identity, "round": number})] for cell in chosen for number in range(rounds)]


def _key(line: dict[str, object]) -> str:
    return json.dumps([line[name] for name in ("stream", "rows", "width", "bound_s", "instances", "recorded", "round")])


def _read(out: Path) -> dict[str, dict[str, object]]:
    """The rounds in a file. Its last line may be half of one, if the run was stopped as it was written: that is ended."""
    written = out.read_text(encoding="utf-8") if out.exists() else ""
    if written and not written.endswith("\n"):
        with out.open("a", encoding="utf-8") as lines:
            lines.write("\n")
    done = {}
    for text in written.split("\n"):
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        done[_key(line)] = line
    return done


def _has(done: dict[str, Any], cell: Cell, number: int, ways: Sequence[str]) -> bool:
    line = done.get(_key({**cell.identity, "round": number}))
    return line is not None and set(ways) <= set(line["seconds"])


def _rounds(trial: Trial, folder: Path, cell: Cell, ways: Sequence[str], numbers: Sequence[int]) -> Iterator[dict[str, object]]:
    """Every way on the same rows, other rows each round, and another way first each round."""
    if not numbers:
        return
    with cell.written(folder, LEARNING_SEED) as path:
        taught = trial.spark.read.parquet(path)
        free = taught.withColumn("cost_us", F.lit(0.0))
        trial.round_robin(free, 4 * K)  # Python is started on every slot
        model = _by_cost(trial, taught, None)[1].costs
        for _ in range(2):  # and the code of each way is compiled
            for way in ways:
                _ran(trial, free, way, model)
    for number in numbers:
        with cell.written(folder, number) as path:
            df = trial.spark.read.parquet(path)
            at = number % len(ways)
            ran: dict[str, TimedBatch] = {}
            reason, promised = "", model.gain_for(cell.rows, K)
            for way in (*ways[at:], *ways[:at]):
                ran[way], watch = _ran(trial, df, way, model)
                if ran[way].rows != cell.rows:
                    sys.exit(f"{cell}: {ran[way].rows} rows came back of {cell.rows}")
                if way == LEARNT and watch is not None:
                    reason, promised = watch.decision.reason, max(watch.decision.promised, promised)
        told = ", ".join(f"{way} {ran[way].seconds:.2f} s" for way in ways)
        say(f"jobs: {cell}, round {number}: {told}; {reason}")
        yield {
            **cell.identity,
            "round": number,
            "seconds": {way: ran[way].seconds for way in ways},
            "completion_ms_mean": {way: ran[way].completion_ms_mean for way in ways},
            "promised": promised,
            "formula": formula(model, cell.rows),
            "reason": reason,
        }


def _ran(trial: Trial, df: DataFrame, way: str, model: CostModel) -> tuple[TimedBatch, evenly.CostWatch | None]:
    if way in PARTITIONS:
        return trial.round_robin(df, PARTITIONS[way]), None
    return _by_cost(trial, df, model if way == LEARNT else None, pieces=False if way == WHOLE else None)


def formula(model: CostModel, rows: int) -> float:
    """What would be saved if equal numbers of rows left cv · sqrt(2 ln k · k / n) uneven, as for very large k."""
    uneven = model.variances.shares[0] * math.sqrt(2.0 * math.log(K) * K / rows)
    return uneven / (1.0 + uneven)


def _by_cost(
    trial: Trial, df: DataFrame, costs: CostModel | None, *, pieces: bool | None = None
) -> tuple[TimedBatch, evenly.CostWatch]:
    watch = evenly.CostWatch()
    function = Stamped(trial.function)

    def grouped() -> DataFrame:
        return evenly.apply_by_cost(
            df, function, trial.schema, cost_key="key", instances=K, costs=costs, pieces=pieces, watch=watch
        )

    return trial.measured(grouped), watch
