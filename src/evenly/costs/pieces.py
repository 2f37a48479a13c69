"""Executors of unequal speed: how a batch is cut so that a slow one takes less of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from evenly.costs.speeds import ALIKE
from evenly.errors import InvalidParameter
from evenly.kernels.types import F64


def pieces(speeds: ArrayLike | Mapping[str, float], instances: int, *, slack: float = 0.1, most: int | None = None) -> F64:
    """The parts of the work into which a batch is cut: descending, their sum 1.

    Spark starts partitions in the order of their numbers as slots come free, and does not say beforehand where. So no piece may
    be longer than the slowest executor has time for: at each start at most what it can do in the time that is left, and `slack`
    of the batch more. Then a batch ends within 1 + `slack` of the ideal (all slots busy to the end), if estimates hold and
    there is a slot for each instance. Where speeds are alike (within 1.2) it is one piece for each instance, all the same.

    Parameters: `speeds`, one for each executor (executors have as many slots each); `instances`, the slots of all;
    `slack`, above 0; `most`, how many pieces there may be (16 for each instance). With an executor so slow that
    more would be needed, pieces are larger and the promise does not hold.
    """
    given = np.array(list(speeds.values()), np.float64) if isinstance(speeds, Mapping) else np.asarray(speeds, np.float64)
    if instances < 1:
        raise InvalidParameter(f"instances must be at least 1, got {instances}")
    if not (math.isfinite(slack) and slack > 0.0):
        raise InvalidParameter(f"slack must be above 0, got {slack}")
    if given.ndim != 1 or not (np.isfinite(given) & (given > 0.0)).all():
        raise InvalidParameter(f"speeds must be finite and above 0, got {given.tolist()}")
    limit = 16 * instances if most is None else most
    if limit < instances:
        raise InvalidParameter(f"most must be at least as many as there are instances ({instances}), got {most}")
    if given.size == 0 or instances == 1 or given.max() <= ALIKE * given.min():
        return np.full(instances, 1.0 / instances)
    # A piece is q · (what is left + slack), q the slowest slot's part of all speed: ln(1 + 1/slack) / -ln(1 - q) of them.
    part = float(given.min() / (given.mean() * instances))
    least = -math.expm1(-math.log1p(1.0 / slack) / limit)
    part = min(max(part, least), 1.0)
    cut: list[float] = []
    left = 1.0
    while left > 0.0 and len(cut) < limit:
        cut.append(min(left, part * (left + slack)))
        left -= cut[-1]
    shares = np.sort(np.array(cut))[::-1]
    return np.ascontiguousarray(shares / shares.sum())
