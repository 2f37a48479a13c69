"""What a simulation asks of any grouping by key, ours or yours."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64
from evenly.measures.load import instance_loads


def learns_first(sender: Any) -> bool:
    """Whether a splitting grouping is given tuples to learn from (`fit`) before it routes."""
    return callable(getattr(sender, "fit", None))


def checked_loads(assigned: Any, instances: int, loads: F64 | None, name: str) -> F64:
    """The load of every instance, for what a grouping has answered."""
    where = np.asarray(assigned)
    if where.dtype.kind not in "iu" or where.ndim != 1 or (loads is not None and where.size != loads.size):
        raise InvalidParameter(f"{name} must answer with one whole number for each tuple, got {assigned!r}")
    if where.size and not 0 <= where.min() <= where.max() < instances:
        raise InvalidParameter(
            f"{name} sent tuples to instances {where.min()} to {where.max()}: there are 0 to {instances - 1}"
        )
    return instance_loads(where, instances, loads)
