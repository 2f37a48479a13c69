"""Synthetic key streams, as the DKG paper's experiments draw them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels import drawing
from evenly.kernels.types import F64, I64

UNIVERSE_FACTOR = 100


@dataclass(frozen=True, eq=False)
class KeyStream:
    """A distribution over `n` distinct keys, from which independent streams are drawn.

    Every `draw` with another seed first maps the n keys to distinct values of a universe 100 times larger,
    at random, so that neither a key's value nor the gaps between values say anything about its frequency.
    """

    name: str
    probabilities: F64
    _table: tuple[F64, I64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_table", drawing.alias_table(self.probabilities))

    @property
    def n(self) -> int:
        return self.probabilities.size

    def draw(self, tuples: int, *, seed: int) -> I64:
        """`tuples` keys; the same seed gives the same keys."""
        if tuples < 0:
            raise InvalidParameter(f"tuples must be at least 0, got {tuples}")
        rng = np.random.default_rng(seed)
        values = injection(self.n, rng)
        return values[self.draw_ranks(tuples, rng)]

    def draw_ranks(self, tuples: int, rng: np.random.Generator) -> I64:
        """`tuples` places in the list of probabilities, before they are mapped to values."""
        level, other = self._table
        return drawing.draw(rng.random(tuples), level, other)


def injection(n: int, rng: np.random.Generator) -> I64:
    """n distinct values in random order from a universe of 100 n (1 to 100 n, as in the paper)."""
    return rng.choice(UNIVERSE_FACTOR * n, n, replace=False, shuffle=True) + 1


def zipf(alpha: float, n: int = 10_000) -> KeyStream:
    """The i-th key has probability proportional to 1 / i^alpha; alpha = 0 is uniform."""
    if not 0.0 <= alpha < math.inf:
        raise InvalidParameter(f"alpha must be at least 0 and finite, got {alpha}")
    return _stream(f"zipf-{alpha:.1f}", np.arange(1, _checked_n(n) + 1, dtype=np.float64) ** -alpha)


def uniform(n: int = 10_000) -> KeyStream:
    """All keys equally likely."""
    return _stream("uniform", np.ones(_checked_n(n)))


def normal(mean: float, deviation: float, n: int = 10_000) -> KeyStream:
    """Keys 1 to n with the density of a normal distribution at their number."""
    if not math.isfinite(mean):
        raise InvalidParameter(f"mean must be a finite number, got {mean}")
    if not 0.0 < deviation < math.inf:
        raise InvalidParameter(f"deviation must be above 0 and finite, got {deviation}")
    distance = (np.arange(1, _checked_n(n) + 1) - mean) / deviation
    density = np.exp(-0.5 * (distance**2 - (distance**2).min()))
    return _stream(f"normal-{mean:g}-{deviation:g}", density)


def _checked_n(n: int) -> int:
    if n < 1:
        raise InvalidParameter(f"n, the number of distinct keys, must be at least 1, got {n}")
    return n


def _stream(name: str, shape: F64) -> KeyStream:
    return KeyStream(name, shape / shape.sum())
