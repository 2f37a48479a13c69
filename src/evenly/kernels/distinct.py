"""HyperLogLog kernels: how many distinct keys each of many buckets has seen."""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.hashing import bucket_of
from evenly.kernels.types import F64, U8, U64


@inlined
def _mixed(key: np.uint64) -> np.uint64:
    x = key + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def update(keys: U64, a: np.uint64, b: np.uint64, registers: U8) -> None:
    """Show each key to the registers of its bucket; `registers[bucket]` is a power of 2 of them."""
    buckets, size = np.uint64(registers.shape[0]), np.uint64(registers.shape[1])
    bits = np.uint64(0)
    while np.uint64(1) << bits < size:
        bits += np.uint64(1)
    for i in range(keys.size):
        mixed = _mixed(keys[i])
        register = mixed & (size - np.uint64(1))
        rest = mixed >> bits
        rank = np.uint8(1)
        while rest & np.uint64(1) == np.uint64(0) and rank < np.uint8(60):
            rank += np.uint8(1)
            rest >>= np.uint64(1)
        bucket = bucket_of(keys[i], a, b, buckets)
        registers[bucket, register] = max(registers[bucket, register], rank)


@compiled
def estimate(registers: U8) -> F64:
    """The number of distinct keys of every bucket: HyperLogLog, with linear counting where few registers are hit."""
    buckets, size = registers.shape
    out = np.empty(buckets, np.float64)
    alpha = 0.7213 / (1.0 + 1.079 / size)
    for bucket in range(buckets):
        harmonic = 0.0
        free = 0
        for register in range(size):
            harmonic += 2.0 ** -float(registers[bucket, register])
            free += registers[bucket, register] == 0
        raw = alpha * size * size / harmonic
        out[bucket] = size * np.log(size / free) if raw <= 2.5 * size and free > 0 else raw
    return out
