"""When a running query should change its mapping, and to which: decided from what each batch showed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from evenly.checks import is_number
from evenly.errors import InvalidParameter
from evenly.kernels.types import F64
from evenly.keys.dkg import DKG, KeyCounts
from evenly.keys.mapping import Mapping
from evenly.keys.promises import LONGEST_LIFE, OUTCOME, Outcome, Promises
from evenly.keys.stretches import Stretch, sample_for
from evenly.keys.trials import Trial, Trials
from evenly.measures.load import imbalance_pct

_RECENT = 8
_MOST_EXTRA = 6
_DEVIATIONS = 3.0
_MOST_DOUBLINGS = 20
_TRUST_OVER_HASH = 0.9
"""What lasts of a gain over a mapping that was fitted to nothing: bursts have no part in it."""
_MOVE_STRETCHES = 1.0
"""What a change is taken to cost, in stretches, where nobody says how long batches take."""


@dataclass(frozen=True)
class BatchLoad:
    """What one batch showed: rows per instance, rows by key, and how long it took, where that is known.

    `rows` are those under the mapping in force; where older mappings still serve some rows, `keys` are of all.
    """

    rows: F64
    keys: KeyCounts
    seconds: float | None = None

    @property
    def imbalance_pct(self) -> float:
        """λ of the rows of this batch."""
        return imbalance_pct(self.rows)


@dataclass(frozen=True)
class Decision:
    """Keep the mapping (`mapping` is None), or change to this one. λ as measured now, and as expected of the new mapping."""

    reason: str
    now_pct: float
    expected_pct: float
    moved_load_pct: float = 0.0
    mapping: Mapping | None = None


@dataclass
class _Followed:
    """A change, and for each stretch since: λ, and what it would be under the mapping before."""

    before: Mapping
    before_pct: float
    promised_pct: float
    span: int | None
    after_pct: list[float] = field(default_factory=list)
    kept_pct: list[float] = field(default_factory=list)
    batches: int = 0

    @property
    def is_miss(self) -> bool:
        """Whether it has not brought half of what it promised."""
        gained = fmean(self.kept_pct) - fmean(self.after_pct)
        return gained < (self.before_pct - self.promised_pct) / 2.0


def check_counted(mapping: Mapping, learner: DKG) -> None:
    """Refuse a mapping that a controller cannot watch, because rows are not counted by its buckets."""
    if (learner.a, learner.b, learner.bucket_count) != (mapping.a, mapping.b, mapping.buckets.size):
        raise InvalidParameter(
            f"the mapping has {mapping.buckets.size} buckets and the controller learns {learner.bucket_count}, or their hashes "
            "differ: use a mapping with automatic parameters, learnt with the same seed, or no controller"
        )


class DriftController:
    """Observations of batches in, decisions out; no clock and no Spark.

    Batches are put together until there are rows enough to say λ to twice the threshold: a stretch. After every stretch
    candidates are made for the mapping in force, from the last two and from the last eight, without keys that came in bursts.
    Each is judged by the stretches after those it was learnt from (`Trials`). A change to a candidate is decided when

    - it was judged by at least `patience` stretches, by one to six more where the mapping in force was learnt from
      rows and λ goes up and down by itself, and still gains;
    - the gain to expect is at least `threshold_pct` points of λ: its mean gain, times the share of such gains that lasted on
      this stream (`Promises`), less what it would lose if it was a burst and the stream went back to what it was before;
    - half of the threshold is sure: three standard errors, of what chance and bursts do to a gain, taken off;
    - the time that it saves over the life of such gains exceeds what a change costs (`move_s` and what earlier ones took).

    A candidate moves at most `budget_pct` of the load; of a mapping that was made without any rows there is nothing worth
    keeping, so it may move all. After a change `patience` stretches pass before the next one is considered, and twice as many
    after each change in a row that did not bring half of what it promised. Memory does not grow with the keys.
    """

    def __init__(
        self,
        mapping: Mapping,
        *,
        threshold_pct: float = 5.0,
        budget_pct: float = 5.0,
        patience: int = 2,
        move_s: float = 5.0,
        promises: Promises | None = None,
        seed: int = 0,
    ) -> None:
        if not (is_number(threshold_pct) and threshold_pct > 0.0):
            raise InvalidParameter(f"threshold_pct must be above 0, got {threshold_pct!r}")
        if not (is_number(budget_pct) and 0.0 <= budget_pct <= 100.0):
            raise InvalidParameter(f"budget_pct must be from 0 to 100, got {budget_pct!r}")
        if patience < 1:
            raise InvalidParameter(f"patience must be at least 1 batch, got {patience}")
        if not (is_number(move_s) and 0.0 <= move_s < math.inf):
            raise InvalidParameter(f"move_s must be 0 seconds or more, got {move_s!r}")
        self.threshold_pct, self.budget_pct, self.patience, self.move_s = threshold_pct, budget_pct, patience, move_s
        self._learner = DKG.automatic(mapping.instances, seed=seed, ids=mapping.ids)
        check_counted(mapping, self._learner)
        self.promises = Promises() if promises is None else promises
        self._trials = Trials(self._learner, self.promises)
        self._pending: Stretch | None = None
        self._recent: list[float] = []
        self._misses = 0
        self._followed: _Followed | None = None
        self._decided: Trial | None
        self._begin(mapping)

    @property
    def learner(self) -> DKG:
        """Its `bucket_count` and `counters` are those of the counts that are taken in."""
        return self._learner

    @property
    def mapping(self) -> Mapping:
        """The mapping in force."""
        return self._mapping

    @property
    def now_pct(self) -> float:
        """The mean λ of the last batches under the mapping in force."""
        return fmean(self._recent) if self._recent else 0.0

    @property
    def kept_pct(self) -> float | None:
        """The mean λ that the mapping before would have had since the last change, at most ten stretches; None if unknown."""
        followed = self._followed
        return fmean(followed.kept_pct) if followed is not None and followed.kept_pct else None

    def observe(self, batch: BatchLoad) -> Decision:
        """Take in a batch and say what to do. A decision to change is only that: call `changed` once it is in force."""
        if batch.rows.size != self._mapping.instances:
            raise InvalidParameter(f"{batch.rows.size} loads came for {self._mapping.instances} instances: give one each")
        self._decided = None
        in_force = bool(batch.rows.any())
        if in_force:
            self._recent = [*self._recent, imbalance_pct(batch.rows, self._mapping.capacities)][-_RECENT:]
        here = Stretch(batch.keys, 1, batch.seconds)
        self._pending = here if self._pending is None else self._pending.with_next(here)
        needed = sample_for(self._mapping.instances, 2.0 * self.threshold_pct)
        if self._pending.rows < needed:
            return self._keep(f"{self._pending.rows:.0f} rows do not say λ yet: {needed:.0f} do")
        stretch, self._pending = self._pending, None
        self._take_in(stretch)
        if not in_force:
            return self._keep("no row is under the mapping in force yet")
        self._stretches += 1
        if self._stretches <= self._pause:
            return self._keep(f"stretch {self._stretches} of {self._pause} to wait for")
        return self._decision()

    def changed(self, mapping: Mapping, *, expected_pct: float | None = None) -> None:
        """A mapping has come into force. `expected_pct` is the λ that was promised of it."""
        self._end_following()
        decided = self._decided
        if expected_pct is not None:
            now = self.now_pct if decided is None else fmean(decided.kept_pct)
            span = None if decided is None or decided.over_hash else decided.span
            self._followed = _Followed(self._mapping, now, expected_pct, span)
        self._begin(mapping)

    def moved(self, seconds: float) -> None:
        """How long the query stood still for a change."""
        self.promises.moved(seconds)

    def refused(self) -> None:
        """The change that was decided could not be brought in force: wait longer before the next."""
        self._misses = min(self._misses + 1, _MOST_DOUBLINGS)
        self._stretches = 0
        self._decided = None
        self._trials.clear()

    @property
    def _pause(self) -> int:
        followed = self._followed
        missing = followed is not None and bool(followed.kept_pct) and followed.is_miss
        return int(self.patience * 2 ** min(self._misses + missing, _MOST_DOUBLINGS))

    def _begin(self, mapping: Mapping) -> None:
        self._mapping = mapping
        self._decided = None
        self._recent = []
        self._stretches = 0
        self._trials.begin(learnt=self._learnt)

    def _take_in(self, stretch: Stretch) -> None:
        self._trials.judge(stretch, self._mapping, least_gain=self.threshold_pct / 2.0)
        followed = self._followed
        if followed is not None:
            followed.batches += stretch.batches
            followed.after_pct.append(stretch.imbalance_pct(self._mapping))
            followed.kept_pct.append(stretch.imbalance_pct(followed.before))
            if len(followed.kept_pct) == OUTCOME:
                self._end_following()
        self._trials.learn(stretch)
        # Where all is well there is nothing to be gained, and nothing is tried.
        if fmean([it.imbalance_pct(self._mapping) for it in list(self._trials.window)[-2:]]) >= self.threshold_pct:
            self._trials.propose(self._mapping, budget_pct=self.budget_pct if self._learnt else 100.0)

    def _end_following(self) -> None:
        """Judge the last change by what there is, once it has been seen as often as a candidate is."""
        followed, self._followed = self._followed, None
        if followed is None or len(followed.kept_pct) < self.patience:
            return
        self._misses = min(self._misses + 1, _MOST_DOUBLINGS) if followed.is_miss else 0
        after, kept = fmean(followed.after_pct), fmean(followed.kept_pct)
        told = Outcome(self._mapping.version, followed.before_pct, followed.promised_pct, after, kept, followed.batches)
        self.promises.changed(told, followed.span)

    @property
    def _learnt(self) -> bool:
        return bool(self._mapping.heavy_weights.sum() + self._mapping.bucket_weights.sum() > 0.0)

    def _decision(self) -> Decision:
        judged = [it for it in self._trials.candidates(self._mapping, judged_by=self.patience) if self._lasts(it)]
        if not judged:
            return self._keep("no other mapping has done better for long enough, in batches that it was not learnt from")
        best = max(judged, key=self._surely)
        surely, trust = self._surely(best), self._trust(best)
        now, gain = fmean(best.kept_pct), self._expected(best)
        expected = max(0.0, now - gain)
        if gain < self.threshold_pct or surely < self.threshold_pct / 2.0:
            return self._keep(f"a change would gain {gain:.1f} points, {max(surely, 0.0):.1f} of them surely", now, expected)
        saved, cost = self._saved(gain, now), self._cost()
        if saved < cost:
            return self._keep(f"a change would save {saved:.1f} batches' time and cost {cost:.1f}", now, expected)
        self._decided = best
        reason = (
            f"λ was {now:.1f} % in {len(best.gains)} stretches of batches for which this mapping, learnt before them, would "
            f"have given {now - best.gain:.1f} %; {100.0 * trust:.0f} % of such a gain is trusted"
        )
        return Decision(reason, now, expected, best.moved_load_pct, best.mapping)

    def _lasts(self, trial: Trial) -> bool:
        """Whether a gain has lasted longer than a burst does: it is still there, and the longer the more λ goes up and down."""
        extra = 1 + int(2.0 * self._trials.bursts(len(trial.gains)) / self.threshold_pct) if self._learnt else 0
        return len(trial.gains) >= self.patience + min(extra, _MOST_EXTRA) and trial.gains[-1] >= trial.gain / 2.0

    def _trust(self, trial: Trial) -> float:
        return _TRUST_OVER_HASH if trial.over_hash else self.promises.trust(trial.span)

    def _expected(self, trial: Trial) -> float:
        return trial.expected(self._trust(trial), self._trials.bursts(len(trial.gains)))

    def _surely(self, trial: Trial) -> float:
        """The gain to be sure of."""
        return self._expected(trial) - _DEVIATIONS * self._trust(trial) * self._trials.doubt(trial)

    def _saved(self, gain: float, now: float) -> float:
        """What a change saves over the life of its gain, in stretches, if a stretch takes as long as its busiest instance."""
        # What a fitted mapping gains over one that was fitted to nothing does not fade.
        life = self.promises.life if self._learnt else LONGEST_LIFE
        return life * gain / (100.0 + now)

    def _cost(self) -> float:
        """What a change costs, in stretches."""
        seconds = [it.seconds for it in self._trials.window if it.seconds is not None]
        if not seconds:
            return _MOVE_STRETCHES
        return self.promises.move_s(self.move_s) / max(float(np.median(seconds)), 1e-3)

    def _keep(self, reason: str, now: float | None = None, expected: float | None = None) -> Decision:
        now = self.now_pct if now is None else now
        return Decision(reason, now, now if expected is None else expected)
