"""The theorems of the Hone paper, against the best schedule of small links, found by trying every schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from evenly.emission.policies.largest_backlog import LBF
from evenly.emission.policies.round_robin import RRB
from evenly.emission.policies.skipping_round_robin import SkippingRoundRobin
from evenly.lab.papers.hone.bench import Bench
from evenly.lab.papers.verdicts import sentence
from evenly.lab.simulation.emission import Arrivals, run
from evenly.report.figures import PaperFigure
from evenly.sketches.hashing import derive

QUEUES = (2, 3, 4)
SLOTS = 8
MOST_ARRIVALS = 2
LINKS = 60

Counts = Sequence[Sequence[int]]


def least_largest_backlog(counts: Counts) -> int:
    """The smallest possible largest backlog, by trying every queue in every slot (equation 1 of the paper)."""
    best = {(0,) * len(counts[0]): 0}
    for slot in counts:
        following: dict[tuple[int, ...], int] = {}
        for state, worst in best.items():
            for chosen in range(len(state)):
                new = tuple(max(b + a - (i == chosen), 0) for i, (b, a) in enumerate(zip(state, slot, strict=True)))
                reached = max(worst, *new)
                following[new] = min(following.get(new, reached), reached)
        best = following
    return min(best.values())


def within_log(queues: int) -> int:
    """Theorem 1: so many times the best."""
    return 3 + math.ceil(math.log2(queues))


def table_bounds(bench: Bench) -> PaperFigure:
    """Largest backlogs of small links against the least that any schedule has."""
    links = [_drawn(bench.seed, queues, number) for queues in QUEUES for number in range(LINKS)]
    least = [least_largest_backlog(counts) for counts in links]
    rules: dict[str, Callable[[Counts], int]] = {
        "lbf": lambda counts: run(Arrivals.counted(counts), LBF(), count_arrivals=False).max_backlog,
        "lbf-a": lambda counts: run(Arrivals.counted(counts), LBF()).max_backlog,
        "skipping-rr": lambda counts: run(Arrivals.counted(counts), SkippingRoundRobin()).max_backlog,
        "rrb": lambda counts: run(Arrivals.counted(counts), RRB()).max_backlog,
    }
    # A link on which the best schedule keeps all queues empty, and a long one on which an idle turn costs a tuple each time.
    links += [((0, 1),), ((2, 0), *((1, 0),) * 9)]
    least += [least_largest_backlog(counts) for counts in links[-2:]]
    reached = {name: [rule(counts) for counts in links] for name, rule in rules.items()}
    sizes = [len(counts[0]) for counts in links]
    broken_1 = {name: _beyond(found, least, [within_log(size) for size in sizes]) for name, found in reached.items()}
    broken_2 = {name: _beyond(found, least, sizes) for name, found in reached.items()}
    ratio = {
        name: max(after / best for after, best in zip(found, least, strict=True) if best) for name, found in reached.items()
    }
    verdicts = [
        sentence(
            "theorem 1: lbf",
            published="the largest backlog of LBF is at most 3 + ⌈log₂ N⌉ times the best possible",
            measured=f"beyond that on {broken_1['lbf']} of {len(links)} links; at most {ratio['lbf']:.2f} times the best where "
            f"that is not 0; counting arrivals (lbf-a) beyond that on {broken_1['lbf-a']}, {ratio['lbf-a']:.2f} times",
            holds=broken_1["lbf"] == 0,
            why="on no link may it be more; to the letter LBF does not see what arrives in a slot, and has a tuple waiting "
            "where the best schedule has none: any number of times 0 is 0",
        ),
        sentence(
            "theorem 2: any rule",
            published="any online algorithm is at most N times the best possible",
            measured=", ".join(f"{name}: beyond that on {count} of {len(links)} links" for name, count in broken_2.items()),
            holds=not any(broken_2.values()),
            why="no rule may have more on any link; the proof takes the tuples that wait in all to be as many as under the "
            "best schedule, and they are more under a rule that visits empty queues",
        ),
    ]
    table = [
        ["rule", "largest backlog over the best possible, at most", "links beyond theorem 1", "links beyond theorem 2"],
        *([name, f"{ratio[name]:.2f}", str(broken_1[name]), str(broken_2[name])] for name in rules),
    ]
    title = f"The theorems, on {len(links)} small links against every schedule there is"
    return PaperFigure("bounds", title, verdicts=[one.row() for one in verdicts], table=table)


def _beyond(reached: Sequence[int], least: Sequence[int], times: Sequence[int]) -> int:
    return sum(after > factor * best for after, best, factor in zip(reached, least, times, strict=True))


def _drawn(seed: int, queues: int, number: int) -> Counts:
    rng = np.random.default_rng(derive(seed, f"hone bound {queues} {number}", 2**63))
    found: list[list[int]] = rng.integers(0, MOST_ARRIVALS + 1, (SLOTS, queues)).tolist()
    return found
