"""Drawing from a discrete distribution by Walker's alias method: one uniform number a draw, no search."""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled
from evenly.kernels.types import F64, I64


@compiled
def alias_table(probabilities: F64) -> tuple[F64, I64]:
    """Acceptance level and alternative of each item. The probabilities sum to 1."""
    n = probabilities.size
    level = probabilities * n
    other = np.arange(n)
    small = np.empty(n, np.int64)
    large = np.empty(n, np.int64)
    smalls, larges = 0, 0
    for i in range(n):
        if level[i] < 1.0:
            small[smalls] = i
            smalls += 1
        else:
            large[larges] = i
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        poor, rich = small[smalls], large[larges - 1]
        other[poor] = rich
        level[rich] -= 1.0 - level[poor]
        if level[rich] < 1.0:
            larges -= 1
            small[smalls] = rich
            smalls += 1
    for i in range(larges):
        level[large[i]] = 1.0
    for i in range(smalls):
        level[small[i]] = 1.0
    return level, other


@compiled
def draw(uniforms: F64, level: F64, other: I64) -> I64:
    """One item for each uniform number in [0, 1)."""
    n = level.size
    out = np.empty(uniforms.size, np.int64)
    for i in range(uniforms.size):
        scaled = uniforms[i] * n
        item = min(int(scaled), n - 1)
        out[i] = item if scaled - item < level[item] else other[item]
    return out
