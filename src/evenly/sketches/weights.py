"""The check that weights and costs pass before they reach a kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from evenly.errors import InvalidCost
from evenly.kernels.types import F64
from evenly.sketches.hashing import WRITABLE

ONE = np.ones(1)


def checked_weights(values: ArrayLike | Sequence[float], count: int, *, what: str) -> F64:
    """`values` as float64, one for each of `count` tuples, all finite and none negative."""
    try:
        array = np.require(values, np.float64, WRITABLE)
    except (TypeError, ValueError) as error:
        raise InvalidCost(f"{what} must be numbers: {error}") from error
    if array.shape != (count,):
        raise InvalidCost(f"{count} keys came with {what} of shape {array.shape}: give one for each key")
    bad = ~(np.isfinite(array) & (array >= 0.0))
    if bad.any():
        at = int(np.argmax(bad))
        raise InvalidCost(f"{what}[{at}] is {array[at]}: it must be finite and at least 0")
    return array
