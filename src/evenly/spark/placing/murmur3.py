"""Spark's Murmur3 of one 32-bit integer, and its inverse.

Spark puts a row with key columns `(key…, slot)` in partition `pmod(murmur3(slot, seed = murmur3(key…)), n)`.
Every step of that hash is a bijection of 32-bit integers, so for a wanted partition the steps can be undone:

    hash = finish(5 rotl13(seed ^ mix(slot)) + 0xe6546b64),  mix(x) = 0x1b873593 rotl15(0xcc9e2d51 x)

Undoing all but the mix gives one constant for each partition (`partition_constants`); a slot is then
`unmix(constant ^ seed)`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenly.kernels.types import I32

U32 = NDArray[np.uint32]

MIX_FIRST = 0xCC9E2D51
MIX_SECOND = 0x1B873593
UNMIX_FIRST = pow(MIX_SECOND, -1, 2**32)
UNMIX_SECOND = pow(MIX_FIRST, -1, 2**32)
UNMIX_ROTATION = 15

SEED = 42
"""What Spark begins with: the hash of no columns."""
_FINISH_FIRST = 0x85EBCA6B
_FINISH_SECOND = 0xC2B2AE35
_FIVE_INVERSE = pow(5, -1, 2**32)
_ADDED = 0xE6546B64
_LENGTH = 4


def signed32(value: int) -> int:
    """The signed 32-bit integer with the same bits."""
    return (value + 2**31) % 2**32 - 2**31


def _rotate_left(x: U32, bits: int) -> U32:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def hash_int(slot: I32, seed: I32) -> I32:
    """Spark's hash of an INT column after columns whose hash is `seed`."""
    mixed = _rotate_left(slot.astype(np.int32).view(np.uint32) * np.uint32(MIX_FIRST), 15) * np.uint32(MIX_SECOND)
    h = _rotate_left(seed.astype(np.int32).view(np.uint32) ^ mixed, 13) * np.uint32(5) + np.uint32(_ADDED)
    h ^= np.uint32(_LENGTH)
    h ^= h >> np.uint32(16)
    h *= np.uint32(_FINISH_FIRST)
    h ^= h >> np.uint32(13)
    h *= np.uint32(_FINISH_SECOND)
    h ^= h >> np.uint32(16)
    return h.view(np.int32)


def partition_constants(partitions: int) -> I32:
    """For each partition p the value of `seed ^ mix(slot)` for which the hash is p itself."""
    h = np.arange(partitions, dtype=np.uint32)
    h ^= h >> np.uint32(16)
    h *= np.uint32(pow(_FINISH_SECOND, -1, 2**32))
    h ^= (h >> np.uint32(13)) ^ (h >> np.uint32(26))
    h *= np.uint32(pow(_FINISH_FIRST, -1, 2**32))
    h ^= h >> np.uint32(16)
    h ^= np.uint32(_LENGTH)
    h = (h - np.uint32(_ADDED)) * np.uint32(_FIVE_INVERSE)
    return _rotate_left(h, 32 - 13).view(np.int32)


def slots(partitions: int) -> I32:
    """For each partition the INT that leads there if it is the only column."""
    mixed = (partition_constants(partitions).view(np.uint32) ^ np.uint32(SEED)) * np.uint32(UNMIX_FIRST)
    return (_rotate_left(mixed, 32 - UNMIX_ROTATION) * np.uint32(UNMIX_SECOND)).view(np.int32)
