"""What evenly.sketches.hashing promises: stable ids, and buckets from a 2-universal family."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import naive
from evenly.errors import InvalidKeys
from evenly.kernels import hashing as kernels
from evenly.sketches import UniversalHash, key_ids
from evenly.sketches.hashing import MAX_BUCKETS, NULL_ID, TEXT_SEED

IDS = st.integers(0, 2**64 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
HASHES = [UniversalHash(10, seed=seed) for seed in range(2_000)]


def xxh64(data: bytes) -> int:
    return xxhash.xxh64_intdigest(data, seed=TEXT_SEED)


def text_ids(texts: list[str | None]) -> list[int]:
    return [NULL_ID if text is None else xxh64(text.encode()) for text in texts]


@given(st.lists(IDS, max_size=50), st.integers(1, MAX_BUCKETS), st.integers(), st.integers(0, 20))
@example([0, 2**61 - 2, 2**61 - 1, 2**61, 2**64 - 1], MAX_BUCKETS, 0, 0)
def test_buckets_are_those_of_big_integer_arithmetic(ids, buckets, seed, row):
    drawn = UniversalHash(buckets, seed=seed, row=row)
    expected = [naive.universal_bucket(drawn.a, drawn.b, key, buckets) for key in ids]
    assert drawn(np.array(ids, np.uint64)).tolist() == expected
    assert all(0 <= bucket < buckets for bucket in expected)


@given(st.integers(1, naive.PRIME - 1), st.integers(0, naive.PRIME - 1), st.sampled_from([0, 1, 2, 7, -1, -2]))
def test_residues_at_both_ends_of_the_field_are_reduced_fully(a, b, wanted):
    key = (wanted - b) * pow(a, -1, naive.PRIME) % naive.PRIME
    bucket = kernels.to_buckets(np.array([key], np.uint64), np.uint64(a), np.uint64(b), np.uint64(1_000))
    assert bucket.tolist() == [naive.universal_bucket(a, b, key, 1_000)] == [0 if wanted >= 0 else 999]


@settings(max_examples=25)
@given(st.tuples(*[st.integers(0, 2**61 - 2)] * 2))
@example((0, 1))
@example((7, 7 + 2**60))
@example((0, 2**61 - 2))
def test_two_different_ids_share_a_bucket_for_at_most_one_seed_in_as_many_as_there_are_buckets(pair):
    assume(pair[0] != pair[1])
    ids = np.array(pair, np.uint64)
    shared = sum(int(np.ptp(drawn(ids)) == 0) for drawn in HASHES)
    expected = len(HASHES) / 10
    assert shared <= expected + 6 * math.sqrt(expected)


def test_the_shares_of_the_buckets_are_even_over_seeds():
    buckets = np.concatenate([drawn(np.arange(20)) for drawn in HASHES])
    assert np.bincount(buckets, minlength=10) / buckets.size == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("row", [0, 3])
def test_rows_of_one_seed_are_different_functions(row):
    ids = np.arange(1_000)
    others = [UniversalHash(1_000, seed=5, row=other)(ids) for other in (1, 2, 7)]
    assert all((UniversalHash(1_000, seed=5, row=row)(ids) == other).mean() < 0.05 for other in others)


@pytest.mark.parametrize(
    ("seed", "row", "a", "b"),
    [
        (0, 0, 716_878_578_357_898_359, 1_397_526_674_211_672_869),
        (7, 3, 2_173_314_874_011_329_749, 1_346_613_559_304_452_949),
        (-1, 0, 80_292_921_827_040_597, 181_778_064_604_405_644),
    ],
)
def test_a_seed_gives_the_same_function_in_every_release(seed, row, a, b):
    drawn = UniversalHash(10, seed=seed, row=row)
    assert (drawn.a, drawn.b) == (a, b)


def test_another_process_finds_the_same_ids_and_buckets():
    program = (
        "import numpy as np; from evenly.sketches import UniversalHash, key_ids;"
        "print(UniversalHash(1000, seed=3)(['b', 'ä', None]).tolist(), key_ids(['b', 'ä', None]).tolist())"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    keys = ["b", "ä", None]
    assert told.strip() == f"{UniversalHash(1000, seed=3)(keys).tolist()} {key_ids(keys).tolist()}"


@pytest.mark.parametrize("length", [*range(101), 1_000, 4_095, 100_000])
def test_bytes_of_any_length_have_their_xxh64_as_id(length):
    data = np.random.default_rng(length).bytes(length)
    assert key_ids([data]).tolist() == [xxh64(data)]


@given(st.lists(st.one_of(st.none(), st.text(max_size=70)), max_size=30))
def test_text_has_the_id_of_its_utf8_bytes_and_null_has_its_own(texts):
    assert key_ids(texts).tolist() == text_ids(texts)
    encoded = [None if text is None else text.encode() for text in texts]
    assert key_ids(encoded).tolist() == text_ids(texts)


TEXT_COLUMNS = {
    "string": lambda texts: pa.array(texts, pa.string()),
    "large string": lambda texts: pa.array(texts, pa.large_string()),
    "string view": lambda texts: pa.array(texts, pa.string_view()),
    "binary": lambda texts: pa.array([None if t is None else t.encode() for t in texts], pa.binary()),
    "large binary": lambda texts: pa.array([None if t is None else t.encode() for t in texts], pa.large_binary()),
    "dictionary": lambda texts: pa.array(texts, pa.string()).dictionary_encode(),
    "dictionary with a null in it": lambda texts: pa.array(texts, pa.string()).dictionary_encode(null_encoding="encode"),
    "numpy objects": lambda texts: np.array(texts, object),
}


@pytest.mark.parametrize("column", TEXT_COLUMNS)
@given(st.lists(st.one_of(st.none(), st.text(max_size=40)), max_size=20), st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=25)
def test_a_slice_of_any_text_column_has_the_ids_of_its_texts(column, texts, start, length):
    assert key_ids(TEXT_COLUMNS[column](texts)[start : start + length]).tolist() == text_ids(texts[start : start + length])


@pytest.mark.parametrize("encode", [False, True])
@given(st.lists(st.lists(st.one_of(st.none(), st.text(max_size=10)), max_size=6), max_size=5))
@settings(max_examples=25)
def test_chunks_do_not_matter(encode, chunks):
    arrays = [pa.array(chunk, pa.string()) for chunk in chunks]
    arrays = [array.dictionary_encode() for array in arrays] if encode else arrays
    kind = pa.dictionary(pa.int32(), pa.string()) if encode else pa.string()
    column = pa.chunked_array(arrays, kind)
    assert key_ids(column).tolist() == text_ids([text for chunk in chunks for text in chunk])
    assert key_ids(column[1:]).tolist() == key_ids(column).tolist()[1:]


@given(st.lists(st.one_of(st.none(), INT64), max_size=30))
def test_an_integer_is_its_own_id_in_twos_complement(values):
    expected = [NULL_ID if value is None else value % 2**64 for value in values]
    assert key_ids(values).tolist() == expected
    assert key_ids(pa.array([0, *values], pa.int64())[1:]).tolist() == expected
    assert key_ids(pa.array(values, pa.int64()).dictionary_encode()).tolist() == expected


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u8", "?"])
def test_every_integer_type_gives_the_same_ids(dtype):
    values = np.array([0, 1, 1, 0, 1], dtype)
    assert key_ids(values).tolist() == [0, 1, 1, 0, 1]
    assert key_ids(np.repeat(values, 3)[::3]).tolist() == [0, 1, 1, 0, 1]
    if ">" not in dtype:
        assert key_ids(pa.array(values)).tolist() == [0, 1, 1, 0, 1]


def test_negative_integers_keep_their_id_in_every_width():
    assert {int(key_ids(np.array([-5], dtype))[0]) for dtype in ("i1", "i2", "i4", "i8")} == {2**64 - 5}


@given(st.lists(st.one_of(st.none(), INT64), max_size=30))
def test_integers_hashed_as_spark_does_are_the_xxh64_of_their_eight_bytes(values):
    expected = [NULL_ID if value is None else xxh64(value.to_bytes(8, "little", signed=True)) for value in values]
    assert key_ids(values, hash_integers=True).tolist() == expected
    assert key_ids(pa.array([0, *values], pa.int64())[1:], hash_integers=True).tolist() == expected
    assert key_ids(pa.array(values, pa.int64()).dictionary_encode(), hash_integers=True).tolist() == expected
    whole = np.array([value for value in values if value is not None], np.int64)
    assert key_ids(whole, hash_integers=True).tolist() == [h for h, v in zip(expected, values, strict=True) if v is not None]


@given(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=10))
def test_text_has_the_same_id_whether_integers_are_hashed_or_not(texts):
    assert key_ids(texts, hash_integers=True).tolist() == text_ids(texts)


@pytest.mark.parametrize(
    "keys",
    [[0.5], np.array([0.1 + 0.2]), [1, "a"], np.array(["2020-01-01"], "M8[D]"), pa.array([[1]]), [{"a": 1}]],
    ids=["float", "float array", "mixed", "date", "list", "dict"],
)
def test_keys_without_a_stable_id_are_refused(keys):
    with pytest.raises(InvalidKeys):
        key_ids(keys)


@pytest.mark.parametrize("empty", [[], np.zeros(0, np.int64), pa.array([], pa.string()), pa.chunked_array([], pa.string())])
def test_no_keys_have_no_ids(empty):
    assert key_ids(empty).shape == (0,)
