"""Work that can be cut anywhere, on top of loads that cannot: like water, it stands at one level wherever it stands."""

from __future__ import annotations

import numpy as np

from evenly.kernels.types import F64


def water_level(loads: F64, room: F64, water: float) -> float:
    """The level, load over room, to which `water` rises when it is poured over all: the lowest is filled first."""
    relative = loads / room
    order = np.argsort(relative, kind="stable")
    levels = (water + np.cumsum(loads[order])) / np.cumsum(room[order])
    return float(levels[np.argmax(levels <= np.append(relative[order][1:], np.inf))])
