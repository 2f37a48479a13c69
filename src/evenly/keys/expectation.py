"""The imbalance to expect of rows that a mapping was not learnt from: a range of what chance and held-back rows say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64

_TAIL = 0.03
"""What may be missed at each end. Below half of the tenth that is promised: small numbers are not quite normal."""
_HALVINGS = 40
_FAR = 8.0


@dataclass(frozen=True)
class Expectation:
    """λ of new rows: the likeliest value, and a range that has it in nine of ten runs (`tests/property/test_expectation.py`).

    That holds for a run as long as what was learnt from, of rows of the same kind, a hundred for each instance or more. Where
    later rows differed from earlier ones, `low_pct` is for new rows that are like all those seen, and `high_pct` for new rows
    that differ as much as the held-back ones did. A change that is larger, or that begins later, is in no range. `rows` is how
    many held-back rows it rests on.
    """

    imbalance_pct: float
    low_pct: float
    high_pct: float
    rows: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.low_pct <= self.imbalance_pct <= self.high_pct < math.inf:
            raise InvalidParameter(f"an expected λ lies in its range and the range above 0, got {self.to_content()}")

    def __str__(self) -> str:
        digits = 0 if self.high_pct >= 10.0 else 1
        return f"{self.low_pct:.{digits}f} to {self.high_pct:.{digits}f} %"

    def to_content(self) -> dict[str, float]:
        """It as plain data."""
        return asdict(self)

    @classmethod
    def from_content(cls, content: dict[str, Any] | None) -> Self | None:
        """What `to_content` was called on; None of None."""
        if content is None:
            return None
        return cls(**{name: float(content[name]) for name in ("imbalance_pct", "low_pct", "high_pct", "rows")})


@dataclass(frozen=True)
class Weighed:
    """Rows under a mapping: what they are to each instance, and how many rows that was measured on.

    Rows that stand for several say less than as many rows: `rows` is then the square of their weights' sum over the sum of the
    squares.
    """

    loads: F64
    rows: float

    @classmethod
    def of(cls, loads: F64, squares: float) -> Self:
        """Rows whose weights have this sum of squares."""
        total = float(loads.sum())
        return cls(loads, total * total / squares if squares > 0.0 else 0.0)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to be told of them."""
        return self.rows <= 0.0 or not self.loads.any()


def expectation(
    learnt: Weighed, held_back: Sequence[Weighed], *, new_rows: float, capacities: F64 | None = None
) -> Expectation | None:
    """What to expect of `new_rows` rows under a mapping that was learnt from rows `learnt`. None if nothing was held back.

    Each of `held_back` are rows under a mapping that was learnt without them. Several are several ways to hold rows back, of
    which one may show what another does not: the range holds what each of them says.
    """
    held_back = [one for one in held_back if not one.empty]
    if learnt.empty or not held_back:
        return None
    low_pct, high_pct = by_chance(learnt, new_rows, capacities)
    shown = [_shown(one, new_rows, capacities) for one in held_back]
    point_pct = max(point for point, _ in shown)
    high_pct = max(high_pct, *(high for _, high in shown))
    return Expectation(min(max(point_pct, low_pct), high_pct), low_pct, high_pct, min(one.rows for one in held_back))


def by_chance(learnt: Weighed, new_rows: float, capacities: F64 | None) -> tuple[float, float]:
    """The range of λ for new rows like those seen.

    An instance's share of the new rows differs from that of the seen ones by the chance in both. Chance in the seen ones can
    have made equal items look unequal, and then less is to come than both together say: the lower end allows for either.
    """
    share, room = _shares(learnt, capacities)
    here, there = _spread(share, room, learnt.rows), _spread(share, room, new_rows)
    both = np.hypot(here, there)
    low = min(_largest(share, room, one, _TAIL) for one in (there, both))
    return low, _largest(share, room, both, 1.0 - _TAIL)


def _shown(held_back: Weighed, new_rows: float, capacities: F64 | None) -> tuple[float, float]:
    """The λ of new rows that differ from those learnt from as the held-back ones do, and the most that it may be.

    The largest of shares that were measured by chance is too large: of their spread that part is kept which chance in the
    held-back rows does not explain, and what chance adds to new ones.
    """
    share, room = _shares(held_back, capacities)
    here, there = _spread(share, room, held_back.rows), _spread(share, room, new_rows)
    seen = float(np.square(share / room - 1.0).sum())
    if seen == 0.0:
        return 0.0, 0.0
    real = max(0.0, seen - float(np.square(here / room).sum())) + float(np.square(there / room).sum())
    kept = min(1.0, math.sqrt(real / seen))
    fullest = int((share / room).argmax())
    point = 100.0 * kept * max(0.0, float(share[fullest] / room[fullest]) - 1.0)
    return point, point + 100.0 * kept * NormalDist().inv_cdf(1.0 - _TAIL) * float(here[fullest] / room[fullest])


def _shares(weighed: Weighed, capacities: F64 | None) -> tuple[F64, F64]:
    """Each instance's share of the rows, and the share that would be even."""
    even = np.full(weighed.loads.size, 1.0) if capacities is None else capacities
    return weighed.loads / weighed.loads.sum(), even / even.sum()


def _spread(share: F64, room: F64, rows: float) -> F64:
    """How far chance moves a share that is measured on so many rows. One of nothing is taken for an even one."""
    spread: F64 = np.sqrt(np.maximum(share * (1.0 - share), room * (1.0 - room)) / max(rows, 1.0))
    return np.maximum(spread, 1e-12)


def _largest(share: F64, room: F64, spread: F64, likelihood: float) -> float:
    """The λ that shares with this spread stay below with this likelihood: the distribution of the largest, turned round."""
    below, above = float(((share - _FAR * spread) / room).max()), float(((share + _FAR * spread) / room).max())
    chance = NormalDist().cdf
    for _ in range(_HALVINGS):
        middle = (below + above) / 2.0
        if math.prod(map(chance, ((middle * room - share) / spread).tolist())) < likelihood:
            below = middle
        else:
            above = middle
    return max(0.0, 100.0 * (above - 1.0))
