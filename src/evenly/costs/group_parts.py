"""What keys take that are cut into parts, and how many parts they need, by what groups of the size of a part take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenly.costs.group_times import GroupEstimates
from evenly.kernels.types import F64, I64

_SWEEPS = 4
_TRIED = 256
_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class GroupParts:
    """For each key: what all of its parts take together, the fewest parts that each fit an instance's share (1: it stays
    whole), the most parts that its rows allow, and what one of the fewest takes."""

    seconds: F64
    fewest: I64
    most: I64
    longest_s: F64


def in_parts(estimates: GroupEstimates, ids: I64, rows: F64, whole_s: F64, *, total_s: float, instances: int) -> GroupParts:
    """Keys (by id) whose groups have so many rows and take so long, of a stage that takes `total_s` over so many instances.

    A part takes what a group of that key with the part's rows takes. So parts of a key whose time grows with the square of its
    rows take less together than the whole, and those of one whose time is mostly fixed take more; an instance's share follows.
    A key is never cut into more parts than it has rows.
    """
    most = np.clip(rows, 1, instances).astype(np.int64)
    seconds, longest_s, fewest = whole_s.copy(), whole_s.copy(), np.ones(ids.size, np.int64)
    for _ in range(_SWEEPS):
        share_s = (total_s + float((seconds - whole_s).sum())) / instances
        for at in np.flatnonzero((whole_s > share_s * (1.0 + _NOTHING)) & (most > 1)).tolist():
            tried = np.unique(np.geomspace(2, most[at], _TRIED).round().astype(np.int64))
            part_s = estimates.seconds_of(np.full(tried.size, ids[at]), rows[at] / tried)[0]
            fits = np.flatnonzero(part_s <= share_s * (1.0 + _NOTHING))
            # Where no part fits, as many as would if time went with the rows: what parts really take is then measured.
            by_rows = int(np.searchsorted(tried, np.ceil(whole_s[at] / share_s)))
            chosen = int(fits[0]) if fits.size else min(by_rows, tried.size - 1)
            seconds[at], longest_s[at], fewest[at] = tried[chosen] * part_s[chosen], part_s[chosen], tried[chosen]
    return GroupParts(seconds, fewest, most, longest_s)
