"""Sums by key as Spark's `tuple_sketch_agg_double` gives them: the compact image of a Tuple sketch of Apache DataSketches.

Such a sketch is made to estimate, but as long as it has at least as many places as there are keys it keeps each of them and
adds up exactly what it is given. Nothing of Spark's reads that again, so it is read here: 8 or 16 bytes that say what follows,
and for each key its hash, its sum, and a byte for how it was summed.
"""

from __future__ import annotations

import numpy as np

from evenly.errors import DamagedData
from evenly.kernels.types import F64, U64

_ENTRY = np.dtype([("hash", "<u8"), ("sum", "<f8"), ("mode", "u1")])
_SERIAL_VERSION, _FAMILY, _COMPACT = 3, 9, 1
_EMPTY = 4
_ALONE, _SEVERAL = 1, 2
"""How many times 8 bytes come before the entries: for one, and for several of which none was left out."""
_SEED = np.uint64(9001)
_FIRST, _SECOND = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_MIXERS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))


def tuple_sums(image: bytes, keys: int) -> tuple[F64, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The sums of the keys 0 to `keys` - 1, and which of them were there. An image with any other key, or of which a key was
    left out, is refused."""
    found = _entries(image)
    hashes = key_hashes(keys)
    order = np.argsort(hashes)
    at = np.minimum(np.searchsorted(hashes[order], found["hash"]), max(keys - 1, 0))
    if found.size and (keys == 0 or (hashes[order][at] != found["hash"]).any()):
        raise DamagedData(f"a sketch has sums of other keys than the {keys} that it was asked for")
    sums, there = np.zeros(keys), np.zeros(keys, np.bool_)
    sums[order[at]], there[order[at]] = found["sum"], True
    return sums, there


def key_hashes(keys: int) -> U64:
    """What the keys 0 to `keys` - 1 are called in a sketch: half of a MurmurHash3 of 128 bits, without its last bit."""
    with np.errstate(over="ignore"):
        mixed = _rotated(np.arange(keys, dtype=np.uint64) * _FIRST, 31) * _SECOND
        length = np.uint64(8)
        one = (_SEED ^ mixed) ^ length
        two = np.full(keys, _SEED ^ length)
        one = one + two
        two = two + one
        hashes: U64 = (_final(one) + _final(two)) >> np.uint64(1)
    return hashes


def _entries(image: bytes) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    if len(image) < 8 or (image[1], image[2], image[3]) != (_SERIAL_VERSION, _FAMILY, _COMPACT):
        raise DamagedData(f"no sketch of sums by key: it begins with {image[:8].hex()}")
    words, empty = image[0], bool(image[5] & _EMPTY)
    if words not in (_ALONE, _SEVERAL):
        raise DamagedData("a sketch has left out keys: it had too few places for them")
    several = words == _SEVERAL and len(image) >= 2 * 8
    count = 0 if empty else int.from_bytes(image[8:12], "little") if several else 1
    body = image[8 * words :]
    if len(body) != count * _ENTRY.itemsize:
        raise DamagedData(f"a sketch of {count} sums by key has {len(body)} bytes of them")
    return np.frombuffer(body, _ENTRY)


def _rotated(values: U64, bits: int) -> U64:
    rotated: U64 = values << np.uint64(bits) | values >> np.uint64(64 - bits)
    return rotated


def _final(values: U64) -> U64:
    shift = np.uint64(33)
    for mixer in _MIXERS:
        values = (values ^ values >> shift) * mixer
    mixed: U64 = values ^ values >> shift
    return mixed
