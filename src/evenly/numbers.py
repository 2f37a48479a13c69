"""Numbers as people write them."""

from __future__ import annotations

import math

_SMALLEST = -6
"""Below a millionth, zeros say less than a power of ten does."""


def plain(value: float, digits: int = 3) -> str:
    """A number by its first `digits` digits, never as 1.02e+03: 1,020 and 0.00123.

    >>> plain(1_023.4), plain(0.00123456), plain(2.0), plain(12.345)
    ('1,020', '0.00123', '2', '12.3')
    """
    if not math.isfinite(value) or value == 0.0:
        return f"{value:g}"
    power = math.floor(math.log10(abs(value)))
    if power < _SMALLEST:
        return f"{value:.{digits - 1}g}"
    kept = round(value, digits - 1 - power)
    shown = f"{kept:,.{max(0, digits - 1 - power)}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
