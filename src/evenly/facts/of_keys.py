"""What a batch of a keyed query showed, as part of a record."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from evenly.facts.loads import Loads
from evenly.facts.records import Batch, HeavyKey
from evenly.keys.dkg import KeyCounts
from evenly.keys.mapping import Mapping

_HEAVIEST = 8


def keyed_batch(
    number: int,
    rows: ArrayLike,
    *,
    seconds: float | None = None,
    counts: KeyCounts | None = None,
    mapping: Mapping | None = None,
    label: Callable[[int], str] | None = None,
) -> Batch:
    """A batch by the rows of its instances; `counts` are its heaviest keys, which `label` names by their ids.

    What its instances had to do is taken to follow their rows: so its bound is its time, times the mean of the rows of an
    instance, or those of the heaviest key if that has more, over those of the fullest.
    """
    loads = np.asarray(rows, np.float64)
    total, most = float(loads.sum()), float(loads.max(initial=0.0))
    heavy = () if counts is None or label is None or total <= 0.0 else _heaviest(counts, total, mapping, label)
    heaviest = max((it.share_pct for it in heavy), default=0.0) / 100.0 * total
    duration_ms = None if seconds is None else max(0.0, 1e3 * seconds)
    bound_ms = None
    if duration_ms is not None and most > 0.0:
        bound_ms = duration_ms * min(1.0, max(total / loads.size, heaviest) / most)
    told = Loads.of(loads)
    return Batch(
        number=number,
        rows=round(total),
        duration_ms=duration_ms,
        bound_ms=bound_ms,
        instances=loads.size,
        rows_by_instance=told,
        imbalance_pct=None if told is None else told.imbalance_pct,
        expected_pct=None if mapping is None else expected_pct(mapping),
        heavy_keys=heavy,
    )


def expected_pct(mapping: Mapping) -> float:
    """λ to expect of new rows; of a mapping without rows held back, λ of those that it was fitted to."""
    expected = mapping.expected_imbalance_pct
    return mapping.fitted_imbalance_pct if expected is None else expected


def _heaviest(counts: KeyCounts, total: float, mapping: Mapping | None, label: Callable[[int], str]) -> tuple[HeavyKey, ...]:
    ids, places = np.unique(counts.ids, return_inverse=True)  # a key of both sides of a join is told by each
    loads = np.bincount(places, counts.counts, ids.size).astype(np.float64)
    first = np.argsort(-loads, kind="stable")[:_HEAVIEST]
    first = first[loads[first] > 0.0]
    instances = None if mapping is None else mapping.assign_ids(ids[first])
    return tuple(
        HeavyKey(
            key=label(int(ids[at])),
            share_pct=round(100.0 * min(1.0, float(loads[at]) / total), 4),
            instance=None if instances is None else int(instances[place]),
        )
        for place, at in enumerate(first)
    )
