"""What a stage, and an application, would save: from when tasks really ran, on the slots that there were."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence

import numpy as np

from evenly.kernels.types import I64


def in_turn_ms(work_ms: I64, slots: int) -> float:
    """How long tasks take that start in this order, each on the slot that comes free first."""
    if work_ms.size <= slots:
        return float(work_ms.max(initial=0))
    free = [0] * slots
    for work in work_ms.tolist():
        heapq.heapreplace(free, free[0] + work)
    return float(max(free))


def left_at_the_end_ms(begin_ms: I64, finish_ms: I64, slots: int) -> float:
    """What balance could have saved of a stage's end as it was.

    Until the last task begins no slot is idle for want of balance: a task waits for every slot that comes free, or other
    stages have the slots. After that the stage ends no earlier than its longest task; the work that is left at that moment,
    spread over the slots, would take its sum over their number.
    """
    last = begin_ms.max()
    left = np.maximum(finish_ms - np.maximum(begin_ms, last), 0).sum()
    return max(0.0, float(finish_ms.max() - last) - float(left) / slots)


def rounds_lost_ms(tasks: int, slots: int, mean_ms: float) -> float:
    """What equal tasks lose because the last round of them has fewer tasks than slots."""
    return (math.ceil(tasks / slots) - tasks / slots) * mean_ms if slots > 0 else 0.0


def on_critical_path_s(bounds_ms: Sequence[tuple[int, int]], saved: Iterable[tuple[tuple[int, int], float]]) -> float:
    """What the application would save: `bounds_ms` are all stages' begins and ends, `saved` those that would be shorter, in s.

    A stage that gets shorter by s gives back its last s seconds. A moment is saved if something ran in it and all that ran
    would have been given back: what runs at the same time counts once, and not at all while another stage goes on.
    """
    moments: list[tuple[float, int, int]] = []
    for begin, end in bounds_ms:
        moments += [(begin, 1, 0), (end, -1, 0)]
    for (begin, end), seconds in saved:
        back = max(begin, end - 1000.0 * seconds)
        moments += [(back, 0, 1), (end, 0, -1)]
    moments.sort()
    total, running, back_again, last = 0.0, 0, 0, 0.0
    for moment, ran, given in moments:
        if running > 0 and running == back_again:
            total += moment - last
        running, back_again, last = running + ran, back_again + given, moment
    return total / 1000.0
