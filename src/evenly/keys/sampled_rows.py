"""What an engine would count of rows (`evenly.keys.native_counts`), counted of ids that are in memory here: a small sample."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evenly.kernels.types import F64, I32, I64, U64
from evenly.keys.native_counts import ORDER_BITS, ORDERS, NativeCounts, octave_bit
from evenly.keys.turns import TURNS

_BOTH_TURNS = TURNS * TURNS
"""So many pairs there are of a turn in the one order and a turn in the other."""


def counts_of(ids: U64, at: Mapping[str, I64], buckets: int, *, stands: int = 1) -> NativeCounts:
    """The sums of rows with these ids, each of which stands for so many, by fine bucket.

    `at` are the places of rows, from 0, in each of `ORDERS`. Memory is in proportion to the rows, at most 200 bytes each. Of
    ids that weigh the same the bits of the id say which is the heaviest.
    """
    octaves = {order: np.minimum(np.frexp(at[order] + 1.0)[1] - 1, ORDER_BITS - 1) for order in ORDERS}
    in_rows, in_partitions = (octaves[order] % TURNS for order in ORDERS)
    by_id = np.argsort(ids)
    ids, turns = ids[by_id], (in_rows * TURNS + in_partitions)[by_id]
    first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: ids.size])
    keys, counts = ids[first], np.diff(np.append(first, ids.size))
    fine = keys.view(np.int64) % buckets
    heaviest = _heaviest(keys, counts, fine, buckets)
    of_key = np.repeat(np.arange(keys.size), counts)
    place = np.full(keys.size, -1)
    place[heaviest] = np.arange(heaviest.size)
    own = place[of_key]
    sums = _by_turns(fine[of_key], turns, buckets)
    return NativeCounts(
        fine=fine[heaviest],
        weights=stands * sums[fine[heaviest]],
        ids=keys[heaviest],
        own_weights=stands * _by_turns(own[own >= 0], turns[own >= 0], heaviest.size),
        squares=float(ids.size) * stands**2,
        octaves=sum(1 << octave_bit(order) + octave for order in ORDERS for octave in _present(octaves[order])),
        rows=float(ids.size) * stands,
    )


def _present(octaves: I32) -> list[int]:
    found: list[int] = np.flatnonzero(np.bincount(octaves)).tolist()
    return found


def _heaviest(keys: U64, counts: I64, fine: I64, buckets: int) -> I64:
    """Where the heaviest key of each bucket is, bucket after bucket; keys are sorted."""
    rank = counts * (1.0 + (keys >> np.uint64(44)) / 2.0**44)
    most = np.zeros(buckets)
    np.maximum.at(most, fine, rank)
    at = np.flatnonzero(rank == most[fine])[::-1]
    first = np.full(buckets, -1)
    first[fine[at]] = at
    found: I64 = first[first >= 0]
    return found


def _by_turns(of: I64, turns: I64, number: int) -> F64:
    """How many rows there are of each, and of these in each turn of each order but the first, as `NativeCounts` has them."""
    counts = np.bincount(of * _BOTH_TURNS + turns, minlength=number * _BOTH_TURNS).astype(np.float64)
    of_both = counts.reshape(number, TURNS, TURNS)
    return np.column_stack([of_both.sum(axis=(1, 2)), of_both.sum(axis=2)[:, 1:], of_both.sum(axis=1)[:, 1:]])
