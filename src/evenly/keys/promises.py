"""What was promised of mappings and what came of it: by this a controller knows how far to trust itself.

Kept beside the checkpoint, so that a query that starts again has not to learn it anew.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Self

from evenly.errors import DamagedData
from evenly.sealed import opened, sealed

PROMISES = "promises.json"
"""The file's name, in the folder `evenly` of the checkpoint."""
MOST_CHANGES, MOST_MOVES = 100, 10
LONGEST_LIFE = 200.0
OUTCOME = 10
"""In how many stretches after a promise its outcome is looked for."""
_FORMAT, _FORMAT_VERSION = "evenly.promises", 1

_PRIOR_TRUST, _PRIOR_WEIGHT = 0.3, 1.0
_LEAST_RATIO, _MOST_RATIO = -0.5, 1.0
_TRIAL_WEIGHT, _CHANGE_WEIGHT = 0.05, 1.0
_FADING = 0.998
_PRIOR_KEPT = 0.9
_APART = 5.0

_Sums = tuple[float, float]
"""Weights, and ratios by their weights."""


@dataclass(frozen=True)
class Outcome:
    """A change: λ before, as promised, as it came, and as the mapping before would have had it in the same batches."""

    version: int
    before_pct: float
    promised_pct: float
    after_pct: float
    kept_pct: float
    batches: int


class Promises:
    """How much of what a mapping gained on rows that it had not seen it goes on to gain, and for how long.

    Told by trials, mappings that were made and watched, and by changes, each of which weighs as much as twenty trials.
    `trust` is a weighted mean of outcome over promise; older ones weigh less, and nothing known is 0.3. Bounded, whatever
    the number of trials: the last 100 changes and 10 moves, and sums.
    """

    def __init__(self) -> None:
        self.changes: deque[Outcome] = deque(maxlen=MOST_CHANGES)
        self._moves: deque[float] = deque(maxlen=MOST_MOVES)
        self._sums: dict[int, _Sums] = {}
        self._young = self._old = (0.0, 0.0)

    def trust(self, span: int) -> float:
        """The share of a promise to expect, of mappings that were learnt from `span` stretches: from 0 to 1."""
        return max(0.0, self._mean_of(self._sums.get(span, (0.0, 0.0)), _PRIOR_TRUST))

    @property
    def life(self) -> float:
        """How many stretches a gain lasts on this stream, as if it faded by the same share in each: from 1 to 200."""
        young, old = self._mean_of(self._young, 1.0), self._mean_of(self._old, _PRIOR_KEPT)
        kept = max(old, 0.0) / max(young, 1e-6)
        return LONGEST_LIFE if kept >= 1.0 else min(LONGEST_LIFE, max(1.0, _APART / -math.log(max(kept, 1e-6))))

    def move_s(self, prior_s: float) -> float:
        """How long a change keeps the query from its rows: the mean of the last ones and of what was thought before."""
        return fmean([prior_s, *self._moves])

    def tried(self, span: int, promised: float, outcome: float, *, age: int, part: float = 1.0) -> None:
        """A mapping that was watched: its gain in the first stretches, and that in the stretch `age` after them.

        `part` is what it counts for, where others say nearly the same.
        """
        weight = _TRIAL_WEIGHT * part
        self._learn(span, promised, outcome, weight)
        ratio = _bounded(outcome / promised)
        if age <= OUTCOME // 2:
            self._young = _added(self._young, ratio, weight)
        else:
            self._old = _added(self._old, ratio, weight)

    def changed(self, change: Outcome, span: int | None) -> None:
        """A change, and what came of it. `span` is None where it was asked for: that says nothing of our own promises."""
        self.changes.append(change)
        if span is not None and change.before_pct > change.promised_pct:
            # What was promised has been trusted only in part already.
            promised = (change.before_pct - change.promised_pct) / max(self.trust(span), 0.1)
            self._learn(span, promised, change.kept_pct - change.after_pct, _CHANGE_WEIGHT)

    def moved(self, seconds: float) -> None:
        """How long a change took, from stop to start."""
        self._moves.append(seconds)

    def _learn(self, span: int, promised: float, outcome: float, weight: float) -> None:
        self._sums[span] = _added(self._sums.get(span, (0.0, 0.0)), _bounded(outcome / promised), weight)

    def _mean_of(self, sums: _Sums, prior: float) -> float:
        weight, ratios = sums
        return (prior * _PRIOR_WEIGHT + ratios) / (_PRIOR_WEIGHT + weight)

    def to_json(self) -> str:
        """As it is kept."""
        content = {
            "changes": [asdict(change) for change in self.changes],
            "moves_s": list(self._moves),
            "trust": {str(span): list(sums) for span, sums in sorted(self._sums.items())},
            "young": list(self._young),
            "old": list(self._old),
        }
        return sealed(content, kind=_FORMAT, version=_FORMAT_VERSION)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str) -> Self:
        """What was kept. Refused: what is damaged, or of a later format."""
        content = opened(text, kind=_FORMAT, version=_FORMAT_VERSION, what="record of promises", source=source)
        found = cls()
        try:
            found.changes.extend(_outcome(entry) for entry in content["changes"])
            found._moves.extend(_finite(seconds) for seconds in content["moves_s"])
            found._sums = {int(span): _sums(sums) for span, sums in content["trust"].items()}
            found._young, found._old = _sums(content["young"]), _sums(content["old"])
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise DamagedData(
                f"{source} does not say what was promised: {error!r}. The running query writes it anew"
            ) from error
        return found


def _outcome(entry: dict[str, Any]) -> Outcome:
    figures = {name: _finite(entry[name]) for name in ("before_pct", "promised_pct", "after_pct", "kept_pct")}
    return Outcome(version=int(entry["version"]), batches=int(entry["batches"]), **figures)


def _added(sums: _Sums, ratio: float, weight: float) -> _Sums:
    return sums[0] * _FADING + weight, sums[1] * _FADING + weight * ratio


def _bounded(ratio: float) -> float:
    return min(_MOST_RATIO, max(_LEAST_RATIO, ratio))


def _sums(entry: list[object]) -> _Sums:
    weight, ratios = (_finite(value) for value in entry)
    if weight < 0.0:
        raise ValueError(f"a weight is {weight}")
    return weight, ratios


def _finite(value: object) -> float:
    number = float(value)  # type: ignore[arg-type] # what is no number is refused by float
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number
