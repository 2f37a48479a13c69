"""Hash kernels: Carter-Wegman over the Mersenne prime 2^61 - 1, and XXH64 of bytes.

All arithmetic is on unsigned 64-bit integers. The Carter-Wegman function of a key x is
`(a x + b) mod p`, scaled (not reduced modulo) to the wanted number of buckets, which keeps the
family 2-universal and needs no division.
"""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.types import F64, I32, I64, U8, U64

PRIME = np.uint64((1 << 61) - 1)

_3 = np.uint64(3)
_29 = np.uint64(29)
_32 = np.uint64(32)
_61 = np.uint64(61)
_LOW29 = np.uint64((1 << 29) - 1)
_LOW32 = np.uint64((1 << 32) - 1)

_X1 = np.uint64(0x9E3779B185EBCA87)
_X2 = np.uint64(0xC2B2AE3D27D4EB4F)
_X3 = np.uint64(0x165667B19E3779F9)
_X4 = np.uint64(0x85EBCA77C2B2AE63)
_X5 = np.uint64(0x27D4EB2F165667C5)


@inlined
def fold61(key: np.uint64) -> np.uint64:
    """The residue of a 64-bit key modulo 2^61 - 1."""
    folded = (key & PRIME) + (key >> _61)
    return folded - PRIME if folded >= PRIME else folded


@inlined
def affine61(a: np.uint64, b: np.uint64, x: np.uint64) -> np.uint64:
    """(a x + b) mod 2^61 - 1, for a, b and x below the prime."""
    a1, a0 = a >> _32, a & _LOW32
    x1, x0 = x >> _32, x & _LOW32
    middle = a1 * x0 + a0 * x1
    low = a0 * x0
    total = ((a1 * x1) << _3) + (middle >> _29) + ((middle & _LOW29) << _32) + (low & PRIME) + (low >> _61) + b
    total = (total & PRIME) + (total >> _61)
    return total - PRIME if total >= PRIME else total


@inlined
def scale61(residue: np.uint64, buckets: np.uint64) -> np.uint64:
    """A residue below the prime to a bucket in [0, buckets), for fewer than 2^31 buckets."""
    return ((residue >> _29) * buckets) >> _32


@inlined
def bucket_of(key: np.uint64, a: np.uint64, b: np.uint64, buckets: np.uint64) -> np.uint64:
    """The bucket of a key: Carter-Wegman's, or, where `a` is 0, the key as a signed integer modulo `buckets`."""
    if a == np.uint64(0):
        return np.uint64(np.int64(key) % np.int64(buckets))
    return scale61(affine61(a, b, fold61(key)), buckets)


@compiled
def to_buckets(keys: U64, a: np.uint64, b: np.uint64, buckets: np.uint64) -> I32:
    """The bucket of every key."""
    out = np.empty(keys.size, np.int32)
    for i in range(keys.size):
        out[i] = bucket_of(keys[i], a, b, buckets)
    return out


@compiled
def add_to_buckets(keys: U64, weights: F64, a: np.uint64, b: np.uint64, loads: F64) -> None:
    """Add each key's weight to the load of its bucket."""
    buckets = np.uint64(loads.size)
    for i in range(keys.size):
        loads[bucket_of(keys[i], a, b, buckets)] += weights[i]


@inlined
def _rotate(x: np.uint64, bits: np.uint64) -> np.uint64:
    return (x << bits) | (x >> (np.uint64(64) - bits))


@inlined
def _read64(data: U8, at: int) -> np.uint64:
    word = np.uint64(0)
    for j in range(8):
        word |= np.uint64(data[at + j]) << np.uint64(8 * j)
    return word


@inlined
def _round(state: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(state + word * _X2, np.uint64(31)) * _X1


@inlined
def _avalanche(h: np.uint64) -> np.uint64:
    h ^= h >> np.uint64(33)
    h *= _X2
    h ^= h >> _29
    h *= _X3
    return h ^ (h >> _32)


@inlined
def _xxh64(data: U8, start: int, end: int, seed: np.uint64) -> np.uint64:
    at = start
    if end - start >= 32:
        v1, v2, v3, v4 = seed + _X1 + _X2, seed + _X2, seed, seed - _X1
        while at <= end - 32:
            v1 = _round(v1, _read64(data, at))
            v2 = _round(v2, _read64(data, at + 8))
            v3 = _round(v3, _read64(data, at + 16))
            v4 = _round(v4, _read64(data, at + 24))
            at += 32
        h = _rotate(v1, np.uint64(1)) + _rotate(v2, np.uint64(7)) + _rotate(v3, np.uint64(12)) + _rotate(v4, np.uint64(18))
        h = (h ^ _round(np.uint64(0), v1)) * _X1 + _X4
        h = (h ^ _round(np.uint64(0), v2)) * _X1 + _X4
        h = (h ^ _round(np.uint64(0), v3)) * _X1 + _X4
        h = (h ^ _round(np.uint64(0), v4)) * _X1 + _X4
    else:
        h = seed + _X5
    h += np.uint64(end - start)
    while at <= end - 8:
        h = _rotate(h ^ _round(np.uint64(0), _read64(data, at)), np.uint64(27)) * _X1 + _X4
        at += 8
    if at <= end - 4:
        word = np.uint64(0)
        for j in range(4):
            word |= np.uint64(data[at + j]) << np.uint64(8 * j)
        h = _rotate(h ^ (word * _X1), np.uint64(23)) * _X2 + _X3
        at += 4
    while at < end:
        h = _rotate(h ^ (np.uint64(data[at]) * _X5), np.uint64(11)) * _X1
        at += 1
    return _avalanche(h)


@compiled
def xxh64_bytes(data: U8, offsets: I64, seed: np.uint64) -> U64:
    """XXH64 of each run `data[offsets[i]:offsets[i + 1]]`."""
    out = np.empty(offsets.size - 1, np.uint64)
    for i in range(out.size):
        out[i] = _xxh64(data, offsets[i], offsets[i + 1], seed)
    return out


@compiled
def xxh64_words(words: U64, seed: np.uint64) -> U64:
    """XXH64 of each 64-bit word, read as its 8 little-endian bytes."""
    out = np.empty(words.size, np.uint64)
    for i in range(words.size):
        h = seed + _X5 + np.uint64(8)
        h = _rotate(h ^ _round(np.uint64(0), words[i]), np.uint64(27)) * _X1 + _X4
        out[i] = _avalanche(h)
    return out
