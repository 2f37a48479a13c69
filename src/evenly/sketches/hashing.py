"""Keys to stable 64-bit ids, and ids to buckets by a 2-universal family.

The same key has the same id, and the same seed gives the same buckets, in any process on any machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenly.errors import InvalidKeys, InvalidParameter
from evenly.kernels import hashing as kernels
from evenly.kernels.types import I32, U64

TEXT_SEED = 42
"""The seed of the text hash. It is the one of Spark's `xxhash64`, so that a text has the same id here and there."""

NULL_ID = TEXT_SEED
"""The id of a missing key: Spark's `xxhash64` passes over nulls and returns its seed."""

WRITABLE: tuple[Literal["C", "W"], ...] = ("C", "W")
"""What arrays are made before they reach a kernel: numba would compile it once more for an array that is read-only."""

MAX_BUCKETS = 2**31 - 1

Keys: TypeAlias = "NDArray[Any] | Sequence[Any] | pa.Array | pa.ChunkedArray"
"""What a user may pass as keys: integers, text or bytes, in an array, a list, or an Arrow column."""


def key_ids(keys: Keys, *, hash_integers: bool = False) -> U64:
    """The 64-bit id of every key.

    An integer is its own id (two's complement), or with `hash_integers` the XXH64 of its 8 bytes, which is
    what Spark's `xxhash64` gives to a BIGINT. Text and bytes have the id XXH64 with seed 42 of their
    UTF-8 bytes, so `"a"` and `b"a"` are one key. A missing key (None, null) is a key like any other.
    Floats are refused: 0.1 + 0.2 and 0.3 would be two keys.
    """
    if isinstance(keys, np.ndarray) and keys.dtype.kind in "iub" and keys.ndim == 1:
        return _integer_ids(keys, hash_integers=hash_integers)
    return _arrow_ids(_to_arrow(keys), hash_integers=hash_integers)


def _integer_ids(values: NDArray[Any], *, hash_integers: bool) -> U64:
    if values.dtype != np.uint64:
        values = np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)
    words: U64 = np.require(values, requirements=WRITABLE)
    return kernels.xxh64_words(words, np.uint64(TEXT_SEED)) if hash_integers else words


def _to_arrow(keys: Keys) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        return keys.combine_chunks()
    if isinstance(keys, pa.Array):
        return keys
    try:
        return pa.array(keys, from_pandas=True)
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
        raise InvalidKeys(f"keys must be one sequence of 64-bit integers, or of text or bytes: {error}") from error


def _arrow_ids(keys: pa.Array, *, hash_integers: bool) -> U64:
    kind = keys.type
    if pa.types.is_dictionary(kind):
        ids = _arrow_ids(keys.dictionary, hash_integers=hash_integers)
        codes = keys.indices.fill_null(0).to_numpy(zero_copy_only=False)
        out = ids[codes] if ids.size else np.full(len(keys), NULL_ID, np.uint64)
    elif pa.types.is_null(kind):
        return np.full(len(keys), NULL_ID, np.uint64)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        filled = keys.fill_null(0) if keys.null_count else keys
        out = _integer_ids(filled.to_numpy(zero_copy_only=False), hash_integers=hash_integers)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        out = _text_ids(keys.cast(pa.large_string()))
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        out = _text_ids(keys.cast(pa.large_binary()))
    else:
        raise InvalidKeys(f"keys of type {kind} have no stable id: use integers, text or bytes, or round to one of them")
    if keys.null_count:
        out = np.where(keys.is_null().to_numpy(zero_copy_only=False), np.uint64(NULL_ID), out)
    return out


def _text_ids(texts: pa.Array) -> U64:
    _, offsets, data = texts.buffers()
    if len(texts) == 0:
        return np.zeros(0, np.uint64)
    bounds = np.frombuffer(offsets, np.int64, len(texts) + 1, texts.offset * 8)
    content = np.frombuffer(data if data is not None and data.size else b"0", np.uint8)
    return kernels.xxh64_bytes(content, bounds, np.uint64(TEXT_SEED))


def derive(seed: int, label: str, below: int) -> int:
    """A number in [0, below) that depends on the seed and the label alone: the same on every machine and release."""
    digest = hashlib.blake2b(f"evenly:{seed}:{label}".encode(), digest_size=16).digest()
    return int.from_bytes(digest, "little") % below


class UniversalHash:
    """A function drawn from a 2-universal family: ids to buckets 0 .. buckets - 1.

    For two different ids below 2^61 - 1 the chance over seeds of sharing a bucket is at most
    1 / buckets (plus 2^-29 for rounding); `tests/property/test_hashing.py` checks it.

    Parameters: `buckets` from 1 to 2^31 - 1; `seed` any integer; `row` picks one of many independent
    functions of the same seed.

    >>> UniversalHash(10, seed=1)(np.array([3, 4, 3])).shape
    (3,)
    """

    def __init__(self, buckets: int, *, seed: int = 0, row: int = 0) -> None:
        if not isinstance(buckets, int) or not 1 <= buckets <= MAX_BUCKETS:
            raise InvalidParameter(f"buckets must be a whole number from 1 to {MAX_BUCKETS}, got {buckets}")
        prime = int(kernels.PRIME)
        self.buckets = buckets
        self.a = 1 + derive(seed, f"a{row}", prime - 1)
        self.b = derive(seed, f"b{row}", prime)

    def __call__(self, keys: Keys) -> I32:
        return kernels.to_buckets(key_ids(keys), np.uint64(self.a), np.uint64(self.b), np.uint64(self.buckets))
