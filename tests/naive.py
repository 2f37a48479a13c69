"""The slow and obvious way to do what the kernels do: plain Python, big integers, dictionaries, no shortcuts."""

from __future__ import annotations

import heapq
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

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
    """Heaviest first to the least loaded instance; an item of weight 0 is taken to weigh half of the lightest other."""
    positive = [weight for weight in weights if weight > 0]
    guess = min(positive) / 2 if positive else 1.0
    guessed = [weight if weight > 0 else guess for weight in weights]
    loads = [0.0] * instances
    placed = [-1] * len(weights)
    for item in sorted(range(len(weights)), key=lambda item: -guessed[item]):
        placed[item] = loads.index(min(loads))
        loads[placed[item]] += guessed[item]
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


def two_candidates(hashes: Sequence[tuple[int, int]], key: int, instances: int, *, distinct: bool = False) -> list[int]:
    """Two hashes of a key; `distinct` counts the second among the instances that are not the first."""
    (a1, b1), (a2, b2) = hashes[:2]
    first = universal_bucket(a1, b1, key, instances)
    if not distinct or instances == 1:
        return [first, universal_bucket(a2, b2, key, instances)]
    others = [instance for instance in range(instances) if instance != first]
    return [first, others[universal_bucket(a2, b2, key, instances - 1)]]


def send_to_least_loaded(candidates: Iterable[int], sent: list[int]) -> int:
    """The first candidate of the fewest tuples sent so far, which then has one more."""
    chosen = min(candidates, key=lambda instance: sent[instance])
    sent[chosen] += 1
    return chosen


def partial_key(keys: Iterable[int], hashes: Sequence[tuple[int, int]], instances: int, *, distinct: bool = False) -> list[int]:
    """PKG: the less loaded of two candidates."""
    sent = [0] * instances
    return [send_to_least_loaded(two_candidates(hashes, key, instances, distinct=distinct), sent) for key in keys]


def choices_needed(counts: Sequence[float], total: float, *, threshold: float, epsilon: float, instances: int) -> int:
    """D-Choices: the least d for which the expected loads of the heaviest key and of the whole head fit their instances."""
    heavy = [count for count in counts if count > threshold * total]
    heads, heaviest, number = sum(heavy) / total, max(heavy, default=0.0) / total, len(heavy)
    first = max(2, int(heaviest * instances + 0.5))
    for d in range(first, instances):
        b = 1 - ((instances - 1) / instances) ** d
        bh = 1 - ((instances - 1) / instances) ** (number * d)
        whole_head = heads + (1 - heads) * bh * bh <= bh + epsilon
        one_key = heaviest + (heads - heaviest) * b**d + (1 - heads) * b * b <= b + epsilon
        if whole_head and one_key:
            return d
    return instances


def head_choices(
    keys: Iterable[int],
    hashes: Sequence[tuple[int, int]],
    instances: int,
    *,
    threshold: float,
    counts: Callable[[int], dict[int, float]],
    epsilon: float | None = None,
) -> list[int]:
    """W-Choices, or with an `epsilon` D-Choices; `counts(key)` counts one tuple more and gives all counts."""
    sent = [0] * instances
    d, found_at, out = instances, 0, []
    for total, key in enumerate(keys, start=1):
        counted = counts(key)
        if epsilon is not None and total >= found_at + 1 + found_at // 100:
            d = choices_needed(list(counted.values()), total, threshold=threshold, epsilon=epsilon, instances=instances)
            found_at = total
        if counted[key] <= threshold * total:
            candidates = two_candidates(hashes, key, instances)
        elif d >= instances:
            candidates = list(range(instances))
        else:
            candidates = [universal_bucket(a, b, key, instances) for a, b in hashes[:d]]
        out.append(send_to_least_loaded(candidates, sent))
    return out


def where_seen(keys: Iterable[int], hashes: Sequence[tuple[int, int]], instances: int, *, remembered: int) -> list[int]:
    """cAM: where the key was seen, if it is one of the first `remembered` keys; else the less loaded of two candidates."""
    sent = [0] * instances
    seen: dict[int, int] = {}
    out = []
    for key in keys:
        candidates = [seen[key]] if key in seen else two_candidates(hashes, key, instances)
        out.append(send_to_least_loaded(candidates, sent))
        if key in seen or len(seen) < remembered:
            seen[key] = out[-1]
    return out


def split_heavy(
    keys: Iterable[int], heavy: dict[int, float], buckets: Sequence[float], *, a: int, b: int, instances: int
) -> tuple[list[int], set[int]]:
    """DKG + PKG: where each tuple goes, and the heavy keys that have two instances."""
    halves = [weight / 2 for weight in heavy.values() for _ in range(2)]
    placed = largest_first([*halves, *buckets], instances)
    pairs = {key: placed[2 * number : 2 * number + 2] for number, key in enumerate(heavy)}
    sparse = placed[len(halves) :]
    sent = [0] * instances
    out = [send_to_least_loaded(pairs.get(key) or [sparse[universal_bucket(a, b, key, len(buckets))]], sent) for key in keys]
    return out, {key for key, (first, second) in pairs.items() if first != second}


def next_channels(queued: Sequence[float], queued_bytes: Sequence[float], tuples: int, *, look: int, current: int) -> list[int]:
    """Of the next `look` instances the first empty one, else the one with the least (tuples, bytes), the nearest of them."""
    waiting, out = list(queued), []
    for _ in range(tuples):
        ahead = [(current + step) % len(waiting) for step in range(1, look + 1)]
        empty = [instance for instance in ahead if waiting[instance] == 0]
        current = (empty or [min(ahead, key=lambda instance: (waiting[instance], queued_bytes[instance]))])[0]
        waiting[current] += 1
        out.append(current)
    return out


def isolated_keys(
    shares: Sequence[float], kept: Sequence[int | None], homes: Sequence[int], *, instances: int, slack: float
) -> list[int]:
    """KIP: each key, from the heaviest down, where it was if it fits, else by its hash if it fits, else to the emptiest."""
    most = max([1 / instances, *shares]) + slack
    loads = [0.0] * instances
    placed = [-1] * len(shares)
    for item in sorted(range(len(shares)), key=lambda item: -shares[item]):
        wanted = [at for at in (kept[item], homes[item]) if at is not None and at < instances]
        fits = [at for at in wanted if loads[at] + shares[item] <= most]
        placed[item] = fits[0] if fits else loads.index(min(loads))
        loads[placed[item]] += shares[item]
    return placed


def arcs(points: dict[int, list[int]], buckets: int) -> list[int]:
    """A ring of 2^32 places cut into equal arcs: the instance of the first point from each arc's beginning on."""
    on_ring = sorted((place, instance) for instance, places in points.items() for place in places)
    return [
        next((instance for place, instance in on_ring if place >= bucket * 2**32 // buckets), on_ring[0][1])
        for bucket in range(buckets)
    ]


def dealt_one_by_one(
    costs: Iterable[float], loads: list[float], *, speeds: Sequence[float] | None = None, start: int = 0
) -> list[int]:
    """Each row in turn to the instance where it ends first, of equals to the first from `start` on; `loads` is updated."""
    pace = list(speeds or [1.0] * len(loads))
    turn = [(start + step) % len(loads) for step in range(len(loads))]
    out = []
    for cost in costs:
        chosen = min(turn, key=lambda instance: (loads[instance] + cost) / pace[instance])
        loads[chosen] += cost
        out.append(chosen)
    return out


def list_scheduled(sizes: Iterable[float], slots: Sequence[float]) -> float:
    """When all is done if each piece in turn is started on the slot that is free first; `slots` are their speeds."""
    free = [(0.0, slot) for slot in range(len(slots))]
    heapq.heapify(free)
    for size in sizes:
        at, slot = heapq.heappop(free)
        heapq.heappush(free, (at + size / slots[slot], slot))
    return max(at for at, _ in free)


def simulated_stage(waits_s, threads, *, slots, tasks, rows):
    """How long a stage takes, played row by row: tasks on slots, in each task operators one behind the other that wait for
    every row. Without threads one walks each row to its end; else each operator has its own, and rows go on as they come."""
    free = [0.0] * slots
    for task in range(tasks):
        slot = free.index(min(free))
        free[slot] += _simulated_task(waits_s, threads, rows // tasks + (task < rows % tasks))
    return max(free)


def _simulated_task(waits_s, threads, rows):
    if all(count == 1 for count in threads):
        return rows * sum(waits_s)
    arrivals = [0.0] * rows
    for wait_s, count in zip(waits_s, threads, strict=True):
        busy = [0.0] * count
        ends = []
        for arrived in sorted(arrivals):
            at = busy.index(min(busy))
            busy[at] = max(busy[at], arrived) + wait_s
            ends.append(busy[at])
        arrivals = ends
    return max(arrivals, default=0.0)


def least_full(parts: list[list[float]], room: list[float]) -> list[int]:
    """Items, heaviest by any guess first, each where the fullest guess over the room is then least."""
    loads = [[0.0] * len(parts[0]) for _ in room]
    placed = [0] * len(parts)
    for item in sorted(range(len(parts)), key=lambda at: -max(parts[at])):
        after = [
            max(load + part for load, part in zip(one, parts[item], strict=True)) / size
            for one, size in zip(loads, room, strict=True)
        ]
        placed[item] = after.index(min(after))
        loads[placed[item]] = [load + part for load, part in zip(loads[placed[item]], parts[item], strict=True)]
    return placed


def tuple_sketch(sums: dict[int, float]) -> bytes:
    """The compact image of a Tuple sketch of DataSketches with a place for each of these keys, in no order."""
    preamble = bytes([min(max(1, len(sums)), 2), 3, 9, 1, 0, 10 if sums else 14, 0xCC, 0x93])
    if len(sums) > 1:
        preamble += struct.pack("<Q", len(sums))
    return preamble + b"".join(struct.pack("<QdB", murmur3_128(key) >> 1, value, 0) for key, value in sums.items())


def murmur3_128(key: int) -> int:
    """The first half of MurmurHash3_x64_128 of one 64-bit integer, with the seed of DataSketches."""
    whole = 2**64 - 1

    def final(value: int) -> int:
        for mixer in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            value = (value ^ value >> 33) * mixer & whole
        return value ^ value >> 33

    mixed = key * 0x87C37B91114253D5 & whole
    mixed = (mixed << 31 | mixed >> 33) * 0x4CF5AD432745937F & whole
    one, two = 9001 ^ mixed ^ 8, 9001 ^ 8
    one = one + two & whole
    two = two + one & whole
    return final(one) + final(two) & whole
