"""The highest rate that a dataflow holds, found by trying rates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from evenly.errors import InvalidParameter
from evenly.planning.observed.verdict import Verdict

_MOST_TRIALS = 64
_LEAST_RATE = 1e-3


@dataclass
class PeakSearch:
    """Rates to try, one after the other: first up (or down) by `step` until one holds and one does not, then halving between
    them until they are within `precision` of each other.

        search = PeakSearch(1_000.0)
        while search.rate is not None:
            search.tell(held=try_at(search.rate))
        search.peak

    Guarantees (property-tested), where every rate up to some peak holds and none above it: `peak` is that or at most
    `precision` below it, and no rate is tried twice. Where the answers contradict each other it still ends.
    """

    first: float
    step: float = 1.5
    precision: float = 0.05
    _held: float = field(default=0.0, init=False)
    _broke: float = field(default=math.inf, init=False)
    _trials: list[tuple[float, bool]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.first) and self.first > 0.0):
            raise InvalidParameter(f"the first rate to try must be finite and above 0 rows/s, got {self.first}")
        if not self.step > 1.0 or not self.precision > 0.0:
            raise InvalidParameter("the step must be above 1 and the precision above 0")

    @property
    def trials(self) -> tuple[tuple[float, bool], ...]:
        """The rates that were tried, and whether each held."""
        return tuple(self._trials)

    @property
    def rate(self) -> float | None:
        """The rate to try next; None: the search has ended."""
        if len(self._trials) >= _MOST_TRIALS:
            return None
        if not self._trials:
            return self.first
        if math.isinf(self._broke):
            return self._held * self.step if self._held < 1e12 else None
        if self._held == 0.0:
            return self._broke / self.step if self._broke / self.step >= _LEAST_RATE else None
        if self._broke <= self._held * (1.0 + self.precision):
            return None
        return math.sqrt(self._held * self._broke)

    def tell(self, *, held: bool) -> None:
        """Whether the rate held."""
        rate = self.rate
        if rate is None:
            raise InvalidParameter("the search has ended: no rate was to be tried")
        self._trials.append((rate, held))
        if held:
            self._held = max(self._held, rate)
        else:
            self._broke = min(self._broke, rate)

    @property
    def peak(self) -> float | None:
        """The highest rate that held; None: none did."""
        return self._held or None

    @property
    def breaks_at(self) -> float | None:
        """The lowest rate that did not hold; None: all did."""
        return None if math.isinf(self._broke) else self._broke


@dataclass(frozen=True)
class Trial:
    """A rate that was tried, and what its batches showed."""

    rate: float
    verdict: Verdict


@dataclass(frozen=True)
class Peak:
    """`rate`: the highest that held (None: none did); `breaks_at`: the lowest that did not (None: all held). `interrupted`: the
    search was ended before they were near each other."""

    rate: float | None
    breaks_at: float | None
    trials: tuple[Trial, ...]
    interrupted: bool = False

    @property
    def verdict(self) -> Verdict | None:
        """What the batches showed at the highest rate that held, or at the last that was tried; None: none was."""
        last = self.trials[-1].verdict if self.trials else None
        return next((one.verdict for one in self.trials if one.rate == self.rate), last)

    @property
    def broke(self) -> str:
        """The operator that broke first at the lowest rate that did not hold; "" if none is known."""
        return next((one.verdict.broke for one in self.trials if one.rate == self.breaks_at), "")
