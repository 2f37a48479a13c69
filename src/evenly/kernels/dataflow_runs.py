"""Kernels of the rehearsal of a plan: tuples through the threads of an operator, and the work of a machine's cores."""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled
from evenly.kernels.types import F64, I32, I64


@compiled
def threads_in_turn(parts: F64, first_thread: I64, threads: I64, tuples: int) -> I32:
    """The thread of every tuple: bundles in turn by their parts (which add up to 1), in a bundle its threads in turn.

    At every moment each bundle has had its part of the tuples to within one tuple for each bundle there is.
    """
    credit = np.zeros(parts.size)
    following = np.zeros(parts.size, np.int64)
    chosen = np.empty(tuples, np.int32)
    for j in range(tuples):
        best = 0
        for b in range(parts.size):
            credit[b] += parts[b]
            if credit[b] > credit[best]:
                best = b
        credit[best] -= 1.0
        chosen[j] = first_thread[best] + following[best]
        following[best] = (following[best] + 1) % threads[best]
    return chosen


@compiled
def served(arrivals_s: F64, thread: I32, service_s: F64) -> tuple[F64, F64]:
    """When each tuple's execution starts and ends, first come first served on its thread."""
    free_s = np.zeros(thread.max() + 1)
    starts_s = np.empty(arrivals_s.size)
    ends_s = np.empty(arrivals_s.size)
    for j in range(arrivals_s.size):
        starts_s[j] = max(arrivals_s[j], free_s[thread[j]])
        ends_s[j] = starts_s[j] + service_s[j]
        free_s[thread[j]] = ends_s[j]
    return starts_s, ends_s


@compiled
def unfinished(times_s: F64, work_s: F64, cores: float) -> F64:
    """Core-seconds of work that a machine has not done yet after each piece that comes (times do not descend)."""
    left = np.empty(times_s.size)
    now, waiting = 0.0, 0.0
    for j in range(times_s.size):
        waiting = max(0.0, waiting - cores * (times_s[j] - now)) + work_s[j]
        now = times_s[j]
        left[j] = waiting
    return left
