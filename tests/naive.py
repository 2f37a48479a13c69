"""The slow and obvious way to do what the kernels do: plain Python, big integers, dictionaries, no shortcuts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

PRIME = 2**61 - 1


def universal_bucket(a: int, b: int, key_id: int, buckets: int) -> int:
    """Carter-Wegman: the residue's top 32 bits, scaled to the number of buckets."""
    residue = (a * key_id + b) % PRIME
    return ((residue >> 29) * buckets) >> 32


def exact_counts(keys: Iterable[int], weights: Iterable[float] | None = None) -> dict[int, float]:
    """What each key weighs; every tuple weighs 1 if no weights are given."""
    counts: dict[int, float] = defaultdict(float)
    if weights is None:
        for key in keys:
            counts[key] += 1.0
    else:
        for key, weight in zip(keys, weights, strict=True):
            counts[key] += weight
    return dict(counts)


def broken_space_saving_promises(
    true: dict[int, float],
    capacity: int,
    *,
    estimates: dict[int, tuple[float, float]],
    counted: set[int],
    floor: float,
    rounding: float = 0.0,
) -> Iterator[str]:
    """Each promise of Space Saving that does not hold; `estimates` has (estimate, error) of every key in `true`."""
    total = sum(true.values())
    share = total / capacity
    slack = rounding * total
    if floor > share + slack:
        yield f"the floor {floor} exceeds total / capacity = {share}"
    for key, weight in true.items():
        estimate, error = estimates[key]
        if estimate < weight - slack:
            yield f"key {key} weighs {weight}, and its estimate is only {estimate}"
        if estimate > weight + share + slack:
            yield f"key {key} weighs {weight}, and its estimate {estimate} is off by more than {share}"
        if estimate - error > weight + slack:
            yield f"key {key} weighs {weight}, and at least {estimate - error} is claimed to be sure"
        if key not in counted and weight > share + slack:
            yield f"key {key} weighs {weight}, above {share}, and has no counter"
        if key not in counted and weight > floor + slack:
            yield f"key {key} weighs {weight}, above the floor {floor}, and has no counter"


class CountMinPair:
    """Tuples and cost of each cell that a tuple fell into; `hashes` has one (a, b) a row."""

    def __init__(self, hashes: Sequence[tuple[int, int]], columns: int) -> None:
        self.hashes, self.columns = hashes, columns
        self.tuples: dict[tuple[int, int], int] = defaultdict(int)
        self.cost_sum: dict[tuple[int, int], float] = defaultdict(float)
        self.seen = 0
        self.total_cost = 0.0

    def cells(self, key: int) -> list[tuple[int, int]]:
        return [(row, universal_bucket(a, b, key, self.columns)) for row, (a, b) in enumerate(self.hashes)]

    def update(self, keys: Iterable[int], costs: Iterable[float]) -> None:
        for key, cost in zip(keys, costs, strict=True):
            self.seen += 1
            self.total_cost += cost
            for cell in self.cells(key):
                self.tuples[cell] += 1
                self.cost_sum[cell] += cost

    def frequency(self, key: int) -> int:
        return min(self.tuples[cell] for cell in self.cells(key))

    def cost(self, key: int) -> float:
        """Mean cost in the first cell with the fewest tuples; the mean of all tuples if that cell is empty."""
        cell = min(self.cells(key), key=lambda cell: self.tuples[cell])
        if self.tuples[cell] == 0:
            return self.total_cost / self.seen
        return self.cost_sum[cell] / self.tuples[cell]


def largest_first(weights: Sequence[float], instances: int) -> list[int]:
    """Heaviest first to the least loaded instance; then items of weight 0 in turn, from the emptiest instance on."""
    loads = [0.0] * instances
    placed = [-1] * len(weights)
    for item in sorted(range(len(weights)), key=lambda item: -weights[item]):
        if weights[item] > 0:
            placed[item] = loads.index(min(loads))
            loads[placed[item]] += weights[item]
    emptiest_first = sorted(range(instances), key=lambda instance: loads[instance])
    for turn, item in enumerate(item for item in range(len(weights)) if weights[item] == 0):
        placed[item] = emptiest_first[turn % instances]
    return placed


def loads_of(placed: Sequence[int], weights: Sequence[float], instances: int) -> list[float]:
    """The load of every instance."""
    return [sum(w for p, w in zip(placed, weights, strict=True) if p == instance) for instance in range(instances)]


def least_possible_maximum(weights: Sequence[float], instances: int) -> float:
    """The least maximum load over all schedules: every set of loads that can be reached is tried."""
    reachable = {(0.0,) * instances}
    for weight in weights:
        reachable = {
            tuple(sorted((*loads[:i], loads[i] + weight, *loads[i + 1 :]))) for loads in reachable for i in range(instances)
        }
    return min(max(loads) for loads in reachable)


class BuiltDKG:
    """DKG's build: what each heavy key and each bucket weighs, and the instance it goes to."""

    def __init__(
        self,
        counters: dict[int, tuple[float, float]],
        bucket_loads: Sequence[float],
        *,
        a: int,
        b: int,
        theta: float,
        instances: int,
    ) -> None:
        """`counters` has (count, error) of each key that Space Saving knows; `bucket_loads` count every tuple."""
        total = sum(bucket_loads)
        self.a, self.b = a, b
        self.heavy = {
            key: counters[key][0] - counters[key][1]
            for key in sorted(counters)
            if total > 0 and counters[key][0] - counters[key][1] >= theta * total
        }
        self.buckets = list(bucket_loads)
        for key, weight in self.heavy.items():
            self.buckets[universal_bucket(a, b, key, len(self.buckets))] -= weight
        placed = largest_first([*self.heavy.values(), *self.buckets], instances)
        self.heavy_instances = dict(zip(self.heavy, placed, strict=False))
        self.bucket_instances = placed[len(self.heavy) :]

    def instance(self, key: int) -> int:
        if key in self.heavy_instances:
            return self.heavy_instances[key]
        return self.bucket_instances[universal_bucket(self.a, self.b, key, len(self.buckets))]


def bucket_loads(keys: Iterable[int], weights: Iterable[float], *, a: int, b: int, buckets: int) -> list[float]:
    """What falls into each bucket of a universal hash."""
    loads = [0.0] * buckets
    for key, weight in zip(keys, weights, strict=True):
        loads[universal_bucket(a, b, key, buckets)] += weight
    return loads
