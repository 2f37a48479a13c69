"""How fast one measure grows with another."""

from __future__ import annotations

from evenly.kernels.types import F64


def slope(x: F64, y: F64) -> float:
    """The slope of the straight line of least squares; 0 where all x are one."""
    off = x - x.mean()
    spread = float(off @ off)
    return float(off @ (y - y.mean())) / spread if spread > 0.0 else 0.0
