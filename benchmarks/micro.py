"""How many tuples per second the sketches and key groupings take in, on one core, beside what else could be used.

python benchmarks/micro.py [--tuples 2000000] [--rounds 7] [--json]

All ways of one contest take turns, and the best round of each counts. `ratio` is the time divided by the time of
the baseline, as in every command; the table shows its inverse, how many times as fast.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import datasketches
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from arguments import benchmark_parser
from evenly import Mapping
from evenly.cli.output import print_json
from evenly.kernels.types import F64, I32, I64, U64
from evenly.keys.dkg import DKG
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.lab.rivals.keys.modulo import Modulo
from evenly.sketches import CostSketch, SpaceSaving, UniversalHash
from evenly.streams import KeyStream, zipf

BATCH = 65_536
CAPACITY = 1_024
LG_MAX_K = 11
BUCKETS = 1_024
INSTANCES = 10
LARGE = 1_000_000
PRIME = np.uint64(2**61 - 1)

Way = Callable[[], object]


@dataclass(frozen=True)
class Contest:
    """Ways to do one thing with one stream; the fastest of `baselines` is what the others are compared with."""

    stream: str
    ways: dict[str, Way]
    baselines: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """What a series should reach on the streams whose name starts so: a speed-up, or tuples per second."""

    series: str
    stream: str
    speedup: float | None = None
    tuples_per_s: float | None = None

    def met_by(self, row: Row) -> bool:
        if self.speedup is not None:
            return row.ratio is not None and 1.0 / row.ratio >= self.speedup
        return self.tuples_per_s is not None and row.tuples_per_s >= self.tuples_per_s

    def __str__(self) -> str:
        if self.speedup is not None:
            return f">= {self.speedup:g} x"
        return f">= {(self.tuples_per_s or 0.0) / 1e6:g} M/s"


@dataclass(frozen=True)
class Row:
    """One measured series. The names are those of the machine-readable output."""

    series: str
    stream: str
    tuples_per_s: float
    seconds: float
    baseline: str | None
    ratio: float | None


TARGETS = (
    Target("space-saving", "zipf-1.0", speedup=3.0),
    Target("space-saving", "zipf-2.0", speedup=10.0),
    Target("count-min-pair", "zipf", tuples_per_s=20e6),
    Target("dkg-learn", "zipf", tuples_per_s=20e6),
    Target("dkg-automatic-learn", "zipf", tuples_per_s=20e6),
    Target("dkg-route", "zipf", tuples_per_s=100e6),
    Target("dkg-automatic-route", "zipf", tuples_per_s=100e6),
)


def batches(array: NDArray[np.int64]) -> Iterator[I64]:
    for start in range(0, array.size, BATCH):
        yield array[start : start + BATCH]


def numpy_exact_counts(keys: I64) -> dict[str, I64 | F64]:
    """Every batch counted by sorting, and the batches' counts put together at the end."""
    parts = [np.unique(batch, return_counts=True) for batch in batches(keys)]
    found, places = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    counts = np.bincount(places, np.concatenate([part[1] for part in parts]).astype(np.float64))
    return {"keys": found, "counts": counts}


def numpy_universal(ids: U64, drawn: UniversalHash) -> U64:
    """The universal hash as numpy would do it: one pass over the batch for every operation."""
    low32, low29 = np.uint64(2**32 - 1), np.uint64(2**29 - 1)
    three, c29, c32, c61 = (np.uint64(bits) for bits in (3, 29, 32, 61))
    x = (ids & PRIME) + (ids >> c61)
    x = np.where(x >= PRIME, x - PRIME, x)
    a1, a0 = np.uint64(drawn.a >> 32), np.uint64(drawn.a & (2**32 - 1))
    x1, x0 = x >> c32, x & low32
    middle, low = a1 * x0 + a0 * x1, a0 * x0
    total = ((a1 * x1) << three) + (middle >> c29) + ((middle & low29) << c32) + (low & PRIME) + (low >> c61)
    total += np.uint64(drawn.b)
    total = (total & PRIME) + (total >> c61)
    total = np.where(total >= PRIME, total - PRIME, total)
    buckets: U64 = ((total >> c29) * np.uint64(drawn.buckets)) >> c32
    return buckets


def numpy_count_min(keys: I64, costs: F64, hashes: Sequence[UniversalHash]) -> F64:
    cells = np.zeros((len(hashes), hashes[0].buckets, 2))
    for start in range(0, keys.size, BATCH):
        ids, added = keys[start : start + BATCH].view(np.uint64), costs[start : start + BATCH]
        for row, drawn in enumerate(hashes):
            columns = numpy_universal(ids, drawn).view(np.int64)
            cells[row, :, 0] += np.bincount(columns, minlength=drawn.buckets)
            cells[row, :, 1] += np.bincount(columns, added, drawn.buckets)
    return cells


def datasketches_update(sketch: object, items: Sequence[object]) -> None:
    """The fastest way found to call a sketch that takes one item a call: the loop runs in C."""
    update: Callable[[object], None] = sketch.update  # type: ignore[attr-defined]
    deque(map(update, items), maxlen=0)


def space_saving_update(keys: I64) -> SpaceSaving:
    summary = SpaceSaving(CAPACITY)
    for batch in batches(keys):
        summary.update(batch)
    return summary


def heavy_keys(name: str, keys: I64) -> Contest:
    integers = keys.tolist()
    texts = [str(key) for key in integers]
    return Contest(
        name,
        {
            "space-saving": lambda: space_saving_update(keys),
            "datasketches-items": lambda: datasketches_update(datasketches.frequent_items_sketch(LG_MAX_K), integers),
            "datasketches-strings": lambda: datasketches_update(datasketches.frequent_strings_sketch(LG_MAX_K), texts),
            "numpy-exact-counts": lambda: numpy_exact_counts(keys),
        },
        ("datasketches-items", "datasketches-strings"),
    )


def cost_sketch(name: str, keys: I64) -> Contest:
    costs = (keys % 64 + 1).astype(np.float64)
    hashes = [UniversalHash(55, row=row) for row in range(4)]

    def update() -> CostSketch:
        sketch = CostSketch(4, 55)
        for start in range(0, keys.size, BATCH):
            sketch.update(keys[start : start + BATCH], costs[start : start + BATCH])
        return sketch

    return Contest(
        name,
        {"count-min-pair": update, "numpy-bincount": lambda: numpy_count_min(keys, costs, hashes)},
        ("numpy-bincount",),
    )


def universal_hash(name: str, keys: I64) -> Contest:
    drawn = UniversalHash(BUCKETS)
    return Contest(
        name,
        {
            "universal-hash": lambda: [drawn(batch) for batch in batches(keys)],
            "numpy-hash": lambda: [numpy_universal(batch.view(np.uint64), drawn) for batch in batches(keys)],
        },
        ("numpy-hash",),
    )


def numpy_learn(keys: I64, drawn: UniversalHash) -> F64:
    """What DKG learns, in numpy: loads of buckets, and exact counts in place of Space Saving."""
    loads = np.zeros(drawn.buckets)
    for batch in batches(keys):
        loads += np.bincount(numpy_universal(batch.view(np.uint64), drawn).view(np.int64), minlength=drawn.buckets)
    numpy_exact_counts(keys)
    return loads


def datasketches_learn(keys: I64, integers: Sequence[int], drawn: UniversalHash) -> None:
    """What DKG learns, with DataSketches for the heavy keys and our hash for the buckets."""
    datasketches_update(datasketches.frequent_items_sketch(LG_MAX_K), integers)
    for batch in batches(keys):
        np.bincount(drawn(batch), minlength=drawn.buckets)


def numpy_route(keys: I64, mapping: Mapping, drawn: UniversalHash) -> list[I32]:
    """What a mapping does, in numpy: a binary search among the heavy keys, else the bucket's instance."""
    order = np.argsort(mapping.heavy_keys)
    heavy, instances = mapping.heavy_keys[order], mapping.heavy_instances[order]
    routed = []
    for batch in batches(keys):
        ids = batch.view(np.uint64)
        place = np.minimum(np.searchsorted(heavy, ids), heavy.size - 1)
        buckets = mapping.buckets[numpy_universal(ids, drawn).view(np.int64)]
        routed.append(np.where(heavy[place] == ids, instances[place], buckets))
    return routed


def learning(name: str, keys: I64) -> Contest:
    integers = keys.tolist()
    drawn = UniversalHash(2 * INSTANCES)

    def learn(learner: DKG | ExactGreedy) -> None:
        for batch in batches(keys):
            learner.fit(batch)

    return Contest(
        name,
        {
            "dkg-learn": lambda: learn(DKG(INSTANCES)),
            "dkg-automatic-learn": lambda: learn(DKG.automatic(INSTANCES)),
            "datasketches-learn": lambda: datasketches_learn(keys, integers, drawn),
            "numpy-learn": lambda: numpy_learn(keys, drawn),
        },
        ("datasketches-learn", "numpy-learn"),
    )


def routing(name: str, keys: I64) -> Contest:
    mappings = {
        "dkg-route": DKG(INSTANCES).fit(keys).mapping(),
        "dkg-automatic-route": DKG.automatic(INSTANCES).fit(keys).mapping(),
        "modulo-route": Modulo().mapping(INSTANCES),
    }

    def route(mapping: Mapping) -> list[I32]:
        return [mapping.assign(batch) for batch in batches(keys)]

    ways: dict[str, Callable[[], object]] = {series: partial(route, mapping) for series, mapping in mappings.items()}
    learnt = mappings["dkg-automatic-route"]
    ways["numpy-route"] = partial(numpy_route, keys, learnt, UniversalHash(learnt.buckets.size))
    return Contest(name, ways, ("numpy-route",))


def contests(tuples: int) -> Iterator[Contest]:
    for stream in (zipf(1.0), zipf(1.0, LARGE), zipf(2.0), zipf(2.0, LARGE)):
        yield heavy_keys(named(stream), stream.draw(tuples, seed=1))
    for stream in (zipf(1.0), zipf(2.0)):
        keys = stream.draw(tuples, seed=1)
        for contest in (cost_sketch, universal_hash, learning, routing):
            yield contest(named(stream), keys)


def named(stream: KeyStream) -> str:
    return f"{stream.name} n={stream.n}"


def measure(contest: Contest, tuples: int, rounds: int) -> list[Row]:
    """Every way once to compile and warm up, then all in turn; the best round of each."""
    best = dict.fromkeys(contest.ways, float("inf"))
    for turn in range(rounds + 1):
        for series, way in contest.ways.items():
            started = time.perf_counter()
            way()
            if turn > 0:
                best[series] = min(best[series], time.perf_counter() - started)
    baseline = min(contest.baselines, key=best.__getitem__)
    rows = (
        Row(
            series=series,
            stream=contest.stream,
            tuples_per_s=tuples / seconds,
            seconds=seconds,
            baseline=None if series == baseline else baseline,
            ratio=None if series == baseline else seconds / best[baseline],
        )
        for series, seconds in best.items()
    )
    return sorted(rows, key=lambda row: row.seconds)


def verdict(row: Row) -> str:
    """The target of a series, and whether it is met; nothing where there is none."""
    for target in TARGETS:
        if row.series == target.series and row.stream.startswith(target.stream):
            return f"{target} {'met' if target.met_by(row) else 'not met'}"
    return ""


def show(measured: Sequence[Sequence[Row]]) -> None:
    table = Table(title="Million tuples per second on one core, best round", title_justify="left")
    table.add_column("stream")
    table.add_column("series")
    table.add_column("M tuples/s", justify="right")
    table.add_column("times as fast", justify="right")
    table.add_column("as")
    table.add_column("wanted")
    for rows in measured:
        for row in rows:
            table.add_row(
                row.stream,
                row.series,
                f"{row.tuples_per_s / 1e6:.1f}",
                "" if row.ratio is None else f"{1.0 / row.ratio:.2f}",
                row.baseline or "",
                verdict(row),
            )
        table.add_section()
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def one_core() -> None:
    """Stay on one core, where the system lets a process choose."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--tuples", type=int, default=2_000_000, help="tuples of each stream")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of which the best counts")
    options = parser.parse_args()
    one_core()
    measured: list[list[Row]] = []
    for contest in contests(options.tuples):
        print(f"measuring {', '.join(contest.ways)} on {contest.stream}", file=sys.stderr)
        measured.append(measure(contest, options.tuples, options.rounds))
    if options.json:
        parameters = {"tuples": options.tuples, "rounds": options.rounds, "capacity": CAPACITY, "lg_max_k": LG_MAX_K}
        print_json("micro", parameters, [vars(row) for rows in measured for row in rows])
    else:
        show(measured)


if __name__ == "__main__":
    main()
