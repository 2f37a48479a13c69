"""When a running query should change its mapping, and to which: decided from what each batch showed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenly.checks import is_number
from evenly.errors import InvalidParameter
from evenly.kernels.types import F64
from evenly.keys.dkg import DKG, KeyCounts
from evenly.keys.drift import detect, rebuild
from evenly.keys.mapping import Mapping
from evenly.measures.load import imbalance_pct

_LEAST_HALF_LIFE = 20_000.0
_HALF_LIFE_BATCHES = 2.0
_FORGOTTEN = 1e-30


def _sample_for(instances: int, imbalance_pct: float) -> float:
    """The size of a sample whose λ is about `imbalance_pct` by chance alone, though the stream is balanced."""
    return 2.0 * math.log(max(instances, 2)) * instances / (imbalance_pct / 100.0) ** 2


@dataclass(frozen=True)
class BatchLoad:
    """What one batch showed: rows per instance, and rows by key.

    `rows` are those under the mapping in force; where older mappings still serve some rows, `keys` are of all.
    """

    rows: F64
    keys: KeyCounts

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


class DriftController:
    """Observations of batches in, decisions out; no clock and no Spark.

    A change is decided when the measured λ of recent batches exceeds what a fresh mapping would give by at least
    `threshold_pct` percentage points, beyond what chance explains in a sample of that size, in each of the last
    `patience` batches, and when the moves that `budget_pct` of the load allows gain at least half of the threshold. After
    a change `patience` batches pass before the next one is considered, and twice as many after each change in a row
    that did not bring half of the gain it promised: so a stream that no mapping helps is left alone.

    Recent means a half-life of `half_life` rows (None: as many as say λ to the threshold, and at least two batches).
    `budget_pct` does not bind a mapping that was made without any rows: there is nothing worth keeping in it. Memory does
    not grow with the keys.
    """

    def __init__(
        self,
        mapping: Mapping,
        *,
        threshold_pct: float = 5.0,
        budget_pct: float = 5.0,
        patience: int = 2,
        half_life: float | None = None,
        seed: int = 0,
    ) -> None:
        if not (is_number(threshold_pct) and threshold_pct > 0.0):
            raise InvalidParameter(f"threshold_pct must be above 0, got {threshold_pct!r}")
        if not (is_number(budget_pct) and 0.0 <= budget_pct <= 100.0):
            raise InvalidParameter(f"budget_pct must be from 0 to 100, got {budget_pct!r}")
        if patience < 1:
            raise InvalidParameter(f"patience must be at least 1 batch, got {patience}")
        self.threshold_pct, self.budget_pct, self.patience = threshold_pct, budget_pct, patience
        if half_life is not None and not 1.0 <= half_life < math.inf:
            raise InvalidParameter(f"half_life must be at least 1 row (or None to choose it), got {half_life}")
        self.half_life = half_life
        self._learner = DKG.automatic(mapping.instances, seed=seed, ids=mapping.ids)
        if (self._learner.a, self._learner.b, self._learner.bucket_count) != (mapping.a, mapping.b, mapping.buckets.size):
            raise InvalidParameter(
                f"the mapping has {mapping.buckets.size} buckets and the controller learns {self._learner.bucket_count}, or "
                "their hashes differ: use a mapping with automatic parameters, learnt with the same seed, or no controller"
            )
        self._rows: F64 = np.zeros(mapping.instances)
        self._seen = 0.0
        self._misses = 0
        self._promised: tuple[float, float] | None = None
        self._begin(mapping)

    @property
    def learner(self) -> DKG:
        """What holds the recent rows by key: its `bucket_count` and `counters` are those of the counts it takes."""
        return self._learner

    @property
    def mapping(self) -> Mapping:
        """The mapping in force."""
        return self._mapping

    @property
    def now_pct(self) -> float:
        """λ of recent batches under the mapping in force."""
        return imbalance_pct(self._rows)

    def observe(self, batch: BatchLoad) -> Decision:
        """Take in a batch and say what to do. A decision to change is only that: call `changed` once it is in force."""
        if batch.rows.size != self._mapping.instances:
            raise InvalidParameter(f"{batch.rows.size} loads came for {self._mapping.instances} instances: give one each")
        fading = self._fading(float(batch.keys.buckets.sum()))
        self._learner.fade(fading).fit_counts(batch.keys)
        if not batch.rows.any():
            return self._keep("no row is under the mapping in force yet", 0.0)
        self._seen = self._seen * fading + batch.rows.sum()
        self._rows = self._rows * fading + batch.rows
        self._batches += 1
        now, chance = self.now_pct, self._chance_pct()
        if self._batches < self._pause or self._seen == 0.0:
            return self._keep(f"batch {self._batches} of {self._pause} to wait for", now)
        self._judge_last_change(now)
        if chance > 2.0 * self.threshold_pct:
            return self._keep(f"{self._seen:.0f} rows say λ only to ±{chance:.1f} points", now)
        fresh = detect(self._learner, self._mapping, threshold_pct=self.threshold_pct).fresh_pct
        if now - fresh < self.threshold_pct + chance:
            self._exceeded = 0
            return self._keep("a fresh mapping would gain too little", now, fresh)
        self._exceeded += 1
        if self._exceeded < self.patience:
            return self._keep(f"λ is too high for {self._exceeded} of {self.patience} batches", now, fresh)
        return self._proposal(now, fresh)

    def changed(self, mapping: Mapping, *, expected_pct: float | None = None) -> None:
        """A mapping has come into force. `expected_pct` is the λ that was promised of it."""
        promised = None if expected_pct is None else (self.now_pct, expected_pct)
        self._begin(mapping)
        self._promised = promised

    def refused(self) -> None:
        """The change that was decided could not be brought in force: wait longer before the next."""
        self._misses += 1
        self._batches = 0
        self._exceeded = 0

    @property
    def _pause(self) -> int:
        return int(self.patience * 2 ** min(self._misses, 20))

    def _begin(self, mapping: Mapping) -> None:
        self._mapping = mapping
        self._rows = np.zeros(mapping.instances)
        self._batches = 0
        self._exceeded = 0

    def _judge_last_change(self, now: float) -> None:
        if self._promised is None:
            return
        before, expected = self._promised
        self._misses = 0 if before - now >= (before - expected) / 2.0 else self._misses + 1
        self._promised = None

    def _fading(self, rows: float) -> float:
        """What all that came before a batch of so many rows weighs after it."""
        least = max(_LEAST_HALF_LIFE, _sample_for(self._mapping.instances, self.threshold_pct))
        return max(_FORGOTTEN, float(0.5 ** (rows / (self.half_life or max(least, _HALF_LIFE_BATCHES * rows)))))

    def _chance_pct(self) -> float:
        """The λ that a balanced stream would show by chance in so many rows."""
        return math.sqrt(_sample_for(self._mapping.instances, 1.0) / max(self._seen, 1.0))

    def _proposal(self, now: float, fresh: float) -> Decision:
        learnt = self._mapping.heavy_weights.sum() + self._mapping.bucket_weights.sum() > 0.0
        built = rebuild(self._learner, self._mapping, budget_pct=self.budget_pct if learnt else 100.0)
        expected = built.mapping.fitted_imbalance_pct
        if now - expected < self.threshold_pct / 2.0 or not built.moves:
            return self._keep(f"moving {self.budget_pct:g} % of the load would not help", now, expected)
        reason = f"λ is {now:.1f} %, a fresh mapping would give {fresh:.1f} %, this one {expected:.1f} %"
        return Decision(reason, now, expected, built.moved_load_pct, built.mapping)

    def _keep(self, reason: str, now: float, expected: float | None = None) -> Decision:
        return Decision(reason, now, now if expected is None else expected)
