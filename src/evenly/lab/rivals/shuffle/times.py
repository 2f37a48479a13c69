"""Times that instances measure, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenly.errors import InvalidCost
from evenly.kernels.types import F64
from evenly.sketches.hashing import WRITABLE


def checked_times(values: ArrayLike, count: int, name: str) -> F64:
    """One finite number of ms for each of `count` tuples; a single number will do for one tuple."""
    try:
        times: F64 = np.require(np.atleast_1d(np.asarray(values, np.float64)), requirements=WRITABLE)
    except (TypeError, ValueError) as error:
        raise InvalidCost(f"a tuple's {name} must be a number of ms, got {values!r}") from error
    if times.shape != (count,) or not np.isfinite(times).all():
        raise InvalidCost(f"each of {count} tuples must have a {name} in ms that is finite, got {values!r}")
    return times
