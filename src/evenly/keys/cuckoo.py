"""Tables in which a key is found by two comparisons, whatever the number of keys (cuckoo hashing)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenly.kernels.types import I32, U64

_MOST_MOVES = 64


def two_choice_tables(hashes: U64) -> tuple[I32, I32]:
    """Two tables of equal size, a power of 2: each item is in the first at the low bits of its hash or in the
    second at the high bits, as its number; -1 is a free place. Sizes double until every item has found a place."""
    bits = max(1, (2 * hashes.size - 1).bit_length())
    while True:
        tables = _filled(hashes, bits)
        if tables is not None:
            return tables
        bits += 1


def in_places(table: I32, values: NDArray[Any]) -> NDArray[Any]:
    """The value at each place. A free place holds the first value: a key that matches it is that key."""
    return values[np.maximum(table, 0)]


def _filled(hashes: U64, bits: int) -> tuple[I32, I32] | None:
    places = (hashes & np.uint64((1 << bits) - 1)).tolist(), (hashes >> np.uint64(64 - bits)).tolist()
    tables = [-1] * (1 << bits), [-1] * (1 << bits)
    for start in range(hashes.size):
        item, side = start, 0
        for _ in range(_MOST_MOVES):
            place = places[side][item]
            item, tables[side][place] = tables[side][place], item
            if item < 0:
                break
            side = 1 - side
        else:
            return None
    return np.array(tables[0], np.int32), np.array(tables[1], np.int32)
