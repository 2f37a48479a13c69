"""What each change of the drift controller is worth: recorded and generated streams through the controller, without Spark.

    python benchmarks/controller.py FOLDER [--starts N] [--json]

FOLDER holds congress_mentions.parquet, wiki_sent_1.parquet and flights3m.parquet; those that are not there are left out. The
first mapping is learnt from the first two batches. Every change is judged by the ten batches after it: mean λ under the new
mapping, under the one before it, kept, and under one that was learnt from these ten batches, which nobody could have had. With
`--starts 4` the recorded streams are also begun at other rows, which makes other batches of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.kernels.types import F64, U64
from evenly.lab.simulation.controlled import Controlled, KeyedBatch, controlled
from evenly.sketches import key_ids
from evenly.streams.recorded import read_column

BATCH_ROWS = (20_000, 40_000, 60_000, 80_000, 100_000)
INSTANCES = (4, 8, 16, 32)
RECORDED = {"mentions": ("congress_mentions", "key"), "words": ("wiki_sent_1", "text"), "flights": ("flights3m", "key")}
GENERATED = ("still", "burst", "heavy key", "abrupt", "slow")
TURNS_AT, GENERATED_BATCHES, KEYS = 20, 60, 5_000
MOST_ROWS = 4_000_000


@dataclass(frozen=True)
class Result:
    """One stream in batches of one size over one number of instances: its changes, and means of their figures."""

    stream: str
    batch_rows: int
    instances: int
    batches: int
    changes: int
    unjudged: int
    worse: int
    at: tuple[int, ...]
    before_pct: float | None
    promised_pct: float | None
    after_pct: float | None
    kept_pct: float | None
    least_gain: float | None
    share_of_ideal: float | None
    imbalance_pct_mean: float
    imbalance_pct_never: float


def recorded_ids(folder: Path, stream: str) -> U64 | None:
    """The ids of a recorded stream's keys, in order; None where its file is not there. Sentences are their words."""
    name, column = RECORDED[stream]
    path = folder / f"{name}.parquet"
    if not path.is_file():
        return None
    values = read_column(path, column)
    if column == "text":
        values = pc.list_flatten(pc.split_pattern(pc.utf8_lower(values), " "))
    keys = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return key_ids(keys[:MOST_ROWS], hash_integers=True)


def recorded_batches(ids: U64, rows: int, start: int) -> list[KeyedBatch]:
    return [KeyedBatch.of(ids[at : at + rows]) for at in range(start, ids.size - rows + 1, rows)]


def generated_batches(kind: str, rows: int, instances: int, *, seed: int = 1) -> list[KeyedBatch]:
    """Zipf keys that stay as they are; of which one comes in a burst of four batches every tenth; that get a new heavy key,
    which stays; that change places at once; or that do so over twenty batches."""
    rng = np.random.default_rng(seed)
    shares = rng.permutation(1.0 / np.arange(1, KEYS + 1))
    turned = np.roll(shares, KEYS // 3)
    ids = (np.arange(KEYS, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    found = []
    for number in range(GENERATED_BATCHES):
        drawn = rng.multinomial(rows, _shares(kind, number, shares, turned, instances))
        there = np.flatnonzero(drawn)
        found.append(KeyedBatch(ids[there], drawn[there].astype(np.float64)))
    return found


def _shares(kind: str, number: int, shares: F64, turned: F64, instances: int) -> F64:
    now = shares.copy()
    passed = number - TURNS_AT
    if kind == "burst" and number % 10 >= 6:
        now[number // 10] += shares.sum() * 0.4 / instances
    if kind == "heavy key" and passed >= 0:
        now[int(shares.argmin())] += shares.sum() * 0.4 / instances  # with its bucket-mates two fifths of an instance more
    if kind == "abrupt" and passed >= 0:
        now = turned
    if kind == "slow" and passed >= 0:
        part = min(1.0, passed / 20.0)
        now = (1.0 - part) * shares + part * turned
    share: F64 = now / now.sum()
    return share


def result_of(stream: str, rows: int, instances: int, found: Controlled) -> Result:
    changes = found.changes
    ideal = sum(it.kept_pct - it.ideal_pct for it in changes)

    def mean(values: list[float]) -> float | None:
        return float(np.mean(values)) if values else None

    return Result(
        stream=stream,
        batch_rows=rows,
        instances=instances,
        batches=int(found.kept_pct.size),
        changes=len(changes),
        unjudged=found.last,
        worse=sum(it.gain <= 0.0 for it in changes),
        at=tuple(it.batch for it in changes),
        before_pct=mean([it.before_pct for it in changes]),
        promised_pct=mean([it.promised_pct for it in changes]),
        after_pct=mean([it.after_pct for it in changes]),
        kept_pct=mean([it.kept_pct for it in changes]),
        least_gain=min((it.gain for it in changes), default=None),
        share_of_ideal=sum(it.gain for it in changes) / ideal if ideal > 0.0 else None,
        imbalance_pct_mean=float(found.imbalances_pct.mean()),
        imbalance_pct_never=float(found.kept_pct.mean()),
    )


def measured(folder: Path, starts: int) -> Iterator[Result]:
    for stream in RECORDED:
        ids = recorded_ids(folder, stream)
        if ids is None:
            print(f"{stream}: not there", file=sys.stderr)
            continue
        for rows in BATCH_ROWS:
            for start in range(starts):
                batches = recorded_batches(ids, rows, start * rows // starts)
                name = stream if start == 0 else f"{stream}, from row {start * rows // starts:,}"
                for instances in INSTANCES:
                    yield result_of(name, rows, instances, controlled(batches, instances))
    for kind in GENERATED:
        for rows in BATCH_ROWS:
            for instances in INSTANCES:
                found = controlled(generated_batches(kind, rows, instances), instances)
                yield result_of(f"generated: {kind}", rows, instances, found)


def show(results: list[Result]) -> None:
    """Runs with changes one by one, then each stream in a line."""
    heads = "stream | rows a batch | instances | changes (after batch) | λ before | promised | came | kept | of the ideal gain"
    print(f"| {heads} |\n|{'---|' * 9}")
    for it in (it for it in results if it.changes):
        figures = (it.before_pct, it.promised_pct, it.after_pct, it.kept_pct)
        shown = " | ".join(f"{figure:.1f}" for figure in figures if figure is not None)
        share = "" if it.share_of_ideal is None else f"{100.0 * it.share_of_ideal:.0f} %"
        at = ", ".join(map(str, it.at))
        print(f"| {it.stream} | {it.batch_rows:,} | {it.instances} | {it.changes} ({at}) | {shown} | {share} |")
    for stream in dict.fromkeys(it.stream for it in results):
        of = [it for it in results if it.stream == stream]
        mean, never = np.mean([it.imbalance_pct_mean for it in of]), np.mean([it.imbalance_pct_never for it in of])
        print(
            f"\n{stream}: {sum(it.changes for it in of)} changes in {len(of)} runs, none in {sum(not it.changes for it in of)} "
            f"of them, {sum(it.worse for it in of)} for the worse, {sum(it.unjudged for it in of)} after the last batch; mean "
            f"λ {mean:.1f} %, {never:.1f} % with the first mapping kept"
        )


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--starts", type=int, default=1, help="rows at which recorded streams are begun, at even distances")
    options = parser.parse_args()
    results = list(measured(options.folder, options.starts))
    if options.json:
        print_json("controller", {"starts": options.starts}, [asdict(it) for it in results])
    else:
        show(results)
    if any(it.worse for it in results):
        sys.exit("a change was for the worse")


if __name__ == "__main__":
    main()
