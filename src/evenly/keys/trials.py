"""Mappings that are watched before they are put in force: each is judged by rows that came after those it was learnt from."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from evenly.keys.dkg import DKG
from evenly.keys.drift import rebuild
from evenly.keys.mapping import Mapping
from evenly.keys.promises import OUTCOME, Promises
from evenly.keys.stretches import Stretch, chance_pct, steady_counts

SPANS = (2, 8)
"""From how many stretches candidates are learnt: few follow what is new, many what lasts."""
_PROMISED = 3
_AGES = _PROMISED + OUTCOME
_FADING = 0.9
_LEVELS = 40
_MAD_OF_NORMAL = 0.6745
_BURST_STRETCHES = 5.0
_PRIOR_LEVELS, _PRIOR_BURSTS, _PRIOR_BURSTS_PCT = 4.0, 0.3, 5.0


@dataclass(eq=False)
class Trial:
    """A mapping that was learnt from `span` stretches, and for each one since: λ of `instead_of`, and what it gains on that.

    `back` is what it would have gained in stretches before those it was learnt from. `over_hash`: `instead_of` was made
    without rows, so that the gain tells nothing of how long others last.
    """

    span: int
    mapping: Mapping
    instead_of: Mapping
    moved_load_pct: float
    back: float
    over_hash: bool = False
    kept_pct: list[float] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """The mean gain on rows that it has not seen, in points of λ."""
        return fmean(self.gains)

    @property
    def promised(self) -> float:
        """The mean gain in the first stretches that it had not seen."""
        return fmean(self.gains[:_PROMISED])

    def tells(self, least_gain: float) -> bool:
        """Whether what becomes of its gain says something of gains worth a change, now or after the stretch that comes."""
        return len(self.gains) >= _PROMISED and self.promised >= least_gain and not self.over_hash

    def expected(self, trust: float, bursts: float) -> float:
        """The gain to expect: so much of what it was; and, as likely as it is a burst, what it would lose when that has passed.

        The more a gain exceeds how far λ goes up and down by itself, the less likely it is one.
        """
        gain = self.gain
        beyond = gain * gain / (gain * gain + 4.0 * bursts * bursts) if gain > 0.0 else 0.0
        return trust * gain + (1.0 - max(trust, beyond)) * min(0.0, self.back)


class Trials:
    """Candidates for the mapping in force. At most thirteen of each span are watched at a time.

    Those for a mapping that is in force no more are watched to their end: they tell what becomes of gains on this stream.
    """

    def __init__(self, learner: DKG, promises: Promises) -> None:
        self._learner, self._promises = learner, promises
        self._window: deque[Stretch] = deque(maxlen=2 * max(SPANS))
        self._watched: list[Trial] = []
        self._jumps = self._jumps_weight = 0.0
        self._levels: deque[float] = deque(maxlen=_LEVELS)
        self._learnt = True
        self._bursts_before = 0.0

    @property
    def window(self) -> Sequence[Stretch]:
        """The last stretches."""
        return self._window

    def candidates(self, in_force: Mapping, *, judged_by: int) -> list[Trial]:
        """Those for the mapping in force that so many stretches or more have judged."""
        return [it for it in self._watched if it.instead_of is in_force and len(it.gains) >= judged_by]

    def judge(self, stretch: Stretch, in_force: Mapping, *, least_gain: float) -> None:
        """A stretch that none of them has seen. What became of gains is told to the record of promises."""
        kept = {id(it.instead_of): it.instead_of for it in self._watched} | {id(in_force): in_force}
        levels = {at: stretch.imbalance_pct(mapping) for at, mapping in kept.items()}
        self._levels.append(levels[id(in_force)])
        jumps, told = [], Counter(it.span for it in self._watched if it.tells(least_gain))
        for trial in self._watched:
            trial.kept_pct.append(levels[id(trial.instead_of)])
            trial.gains.append(trial.kept_pct[-1] - stretch.imbalance_pct(trial.mapping))
            if len(trial.gains) > 1:
                jumps.append((trial.gains[-1] - trial.gains[-2]) ** 2 / 2.0)
            if len(trial.gains) > _PROMISED and trial.tells(least_gain):
                # Those of one stretch say nearly the same: together they count for one.
                self._promises.tried(
                    trial.span,
                    trial.promised,
                    trial.gains[-1],
                    age=len(trial.gains) - _PROMISED,
                    part=1.0 / told[trial.span],
                )
        if jumps:
            self._jumps = self._jumps * _FADING + fmean(jumps)
            self._jumps_weight = self._jumps_weight * _FADING + 1.0
        self._watched = [trial for trial in self._watched if len(trial.gains) < _AGES]

    def bursts(self, judged: int) -> float:
        """How far λ of the mapping in force goes up and down by itself, in points, before the last `judged` stretches.

        Of a mapping that has hardly been seen yet: as far as that of the one before it did; at least 5 points, and three
        tenths of its λ without what the heaviest key alone makes of it. Of one that was made without rows: not at all, since
        what others gain over it is no matter of bursts.
        """
        if not self._learnt:
            return 0.0
        usual = list(self._levels)[:-judged] or list(self._levels)[:1]
        middle = float(np.median(usual))
        seen = float(np.median(np.abs(np.subtract(usual, middle)))) / _MAD_OF_NORMAL
        mendable = max(0.0, middle - self._window[-1].least_pct(self._learner.instances))
        thought = max(self._bursts_before, _PRIOR_BURSTS_PCT, _PRIOR_BURSTS * mendable)
        return (_PRIOR_LEVELS * thought + len(usual) * seen) / (_PRIOR_LEVELS + len(usual))

    def doubt(self, trial: Trial) -> float:
        """The standard error of a gain: what chance and bursts may have added to it, in points of λ.

        Chance is another in each stretch. A burst lasts: what λ of the mapping in force usually does, before this candidate
        was judged, may be what it has done now.
        """
        rows = float(np.mean([it.rows for it in self._window]))
        by_chance = chance_pct(self._learner.instances, rows) / 2.0
        seen = self._jumps / self._jumps_weight if self._jumps_weight else 0.0
        judged = len(trial.gains)
        bursts = self.bursts(judged)
        return math.sqrt(max(by_chance * by_chance, seen) / judged + bursts * bursts / (1.0 + judged / _BURST_STRETCHES))

    def learn(self, stretch: Stretch) -> None:
        """Take in a stretch for the candidates to come."""
        self._window.append(stretch)

    def propose(self, in_force: Mapping, *, budget_pct: float) -> None:
        """Make the candidates of now, to be judged by what comes."""
        for span in SPANS:
            if span != SPANS[0] and len(self._window) <= span // 2:
                continue
            learner = DKG.automatic(self._learner.instances, seed=self._learner.seed, ids=self._learner.ids)
            learner.fit_counts(steady_counts(list(self._window)[-span:], learner))
            built = rebuild(learner, in_force, budget_pct=budget_pct)
            if built.moves:
                older = list(self._window)[:-span][-max(SPANS) :]
                back = [it.imbalance_pct(in_force) - it.imbalance_pct(built.mapping) for it in older]
                self._watched.append(
                    Trial(span, built.mapping, in_force, built.moved_load_pct, fmean(back) if back else 0.0, not self._learnt)
                )

    def begin(self, *, learnt: bool) -> None:
        """Another mapping is in force: what was usual of the one before is not of it. `learnt`: from rows."""
        self._bursts_before = self.bursts(1) if self._levels else 0.0
        self._levels.clear()
        self._learnt = learnt

    def clear(self) -> None:
        """Nothing of what is tried may be decided on."""
        self._watched = []
