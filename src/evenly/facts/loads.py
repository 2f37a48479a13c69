"""One number for each instance, in a bounded number of characters: all of them where they are few, else how they are spread."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import ArrayLike

from evenly.kernels.types import F64

MOST_LISTED = 256
"""Above so many instances loads are summarised."""
SPREAD = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
"""The quantiles that a summary tells."""
_BUSIEST = 8
_DIGITS = 6

Instance = Annotated[int, Meta(ge=0)]


class Loads(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Loads of instances. `values` lists up to 256 of them by instance; of more there are `quantiles` and the `busiest`."""

    count: Annotated[int, Meta(ge=1, description="instances")]
    total: Annotated[float, Meta(description="the sum over all instances")]
    least: Annotated[float, Meta(description="the smallest load")]
    most: Annotated[float, Meta(description="the largest load")]
    values: Annotated[
        tuple[float, ...], Meta(max_length=MOST_LISTED, description="by instance, from 0 on; empty above 256 instances")
    ] = ()
    quantiles: Annotated[
        tuple[float, ...], Meta(max_length=len(SPREAD), description="above 256 instances: at 1, 10, 25, 50, 75, 90 and 99 %")
    ] = ()
    busiest: Annotated[
        tuple[tuple[Instance, float], ...],
        Meta(max_length=_BUSIEST, description="above 256 instances: the busiest, each with its load, busiest first"),
    ] = ()

    @classmethod
    def of(cls, loads: ArrayLike, *, most_listed: int = MOST_LISTED) -> Loads | None:
        """The loads of instances 0, 1, …; None of no instance, and where one or their sum is not a number.

        >>> Loads.of([3, 1]).values, Loads.of(range(1000)).busiest[0], Loads.of([])
        ((3.0, 1.0), (999, 999.0), None)
        """
        values = np.asarray(loads, np.float64)
        if values.size == 0 or not np.isfinite(values).all():
            return None
        with np.errstate(over="ignore"):
            count, total = values.size, float(values.sum())
        if not np.isfinite(total):
            return None
        if count <= most_listed:
            told = _rounded(values).tolist()
            return cls(count=count, total=total, least=min(told), most=max(told), values=tuple(told))
        # What is told is rounded, and not all that there is: a record of 10,000 instances is made for every batch.
        sorted_ = np.sort(values)
        least, most, *quantiles = _rounded(np.concatenate((sorted_[[0, -1]], _quantiles(sorted_)))).tolist()
        among = np.flatnonzero(values >= sorted_[-min(_BUSIEST, count)])
        first = among[np.argsort(-values[among], kind="stable")][:_BUSIEST]
        busiest = tuple(zip(first.tolist(), _rounded(values[first]).tolist(), strict=True))
        return cls(count=count, total=total, least=least, most=most, quantiles=tuple(quantiles), busiest=busiest)

    @property
    def mean(self) -> float:
        """The load of an instance if all had the same."""
        return self.total / self.count

    @property
    def imbalance_pct(self) -> float:
        """λ = (largest / mean - 1) x 100 %; 0 if nobody has anything to do."""
        return (self.most / self.mean - 1.0) * 100.0 if self.total > 0.0 else 0.0

    def summarised(self) -> Loads:
        """The same without the list."""
        return Loads.of(self.values, most_listed=0) or self if self.values else self


def _quantiles(ascending: F64) -> F64:
    """Those of `SPREAD`, between two loads by how near they are, as numpy's are."""
    places = np.array(SPREAD) * (ascending.size - 1)
    below = places.astype(np.int64)
    above = np.minimum(below + 1, ascending.size - 1)
    between: F64 = ascending[below] + (ascending[above] - ascending[below]) * (places - below)
    return between


def _rounded(values: F64) -> F64:
    """To six digits, whole numbers below 10^15 as they are: enough for a picture, and short."""
    whole = (values == np.floor(values)) & (np.abs(values) < 1e15)
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.where(values == 0.0, 0.0, np.floor(np.log10(np.abs(values))))
    scale = 10.0 ** (_DIGITS - 1 - np.clip(power, -290, 290))
    return np.where(whole, values, np.round(values * scale) / scale)
