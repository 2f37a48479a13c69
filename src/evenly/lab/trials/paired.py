"""Two ways measured in turn, round by round: what one takes as a part of the other, and what that shows.

A round runs both ways on the same rows, so what the rows and the machine do to both is divided out. Of the ratios the median
counts, with an interval that needs no assumption about them: between the j-th least and the j-th largest of n values their
true median lies with a probability that coin tosses have.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evenly.errors import InvalidParameter

ENOUGH = 0.9
"""How probable it must be that the median lies in the interval before anything counts as shown. Five rounds are enough."""

Verdict = Literal["met", "missed", "not shown"]


@dataclass(frozen=True)
class PairedRatio:
    """The median of some rounds' ratios, and where it truly lies with the given probability."""

    median: float
    low: float
    high: float
    confidence: float

    def at_most(self, bar: float) -> Verdict:
        """Whether the ratio is at most `bar`; not shown if the interval lies on both sides of it, or rounds are too few."""
        if self.confidence < ENOUGH:
            return "not shown"
        return "met" if self.high <= bar else "missed" if self.low > bar else "not shown"

    def at_least(self, bar: float) -> Verdict:
        """Whether the ratio is at least `bar`, likewise."""
        if self.confidence < ENOUGH:
            return "not shown"
        return "met" if self.low >= bar else "missed" if self.high < bar else "not shown"

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> PairedRatio:
    """`ours` over `theirs`, each with one value above 0 for a round.

    The interval is the narrowest that is probable enough; with fewer than five rounds it is all that was seen.
    """
    if not ours or len(ours) != len(theirs):
        raise InvalidParameter(f"a ratio needs the same rounds of both ways, one at least: got {len(ours)} and {len(theirs)}")
    if min(*ours, *theirs) <= 0.0:
        raise InvalidParameter(f"a ratio needs values above 0: got {min(*ours, *theirs)}")
    ratios = sorted(one / other for one, other in zip(ours, theirs, strict=True))
    cut = 0
    while 2 * (cut + 2) <= len(ratios) and _probability(len(ratios), cut + 1) >= ENOUGH:
        cut += 1
    return PairedRatio(statistics.median(ratios), ratios[cut], ratios[-1 - cut], _probability(len(ratios), cut))


def _probability(values: int, cut: int) -> float:
    """That the true median is among the rest of so many values, after the `cut` least and the `cut` largest are taken away."""
    return 1.0 - 2.0 * sum(math.comb(values, below) for below in range(cut + 1)) / 2.0**values
