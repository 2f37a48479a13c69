"""Keys counted in a partition: exactly while they are few, in a sketch beyond; compiled code is loaded for the latter alone."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from evenly.keys.dkg import DKG
from evenly.worker import learning
from evenly.worker.learning import PartitionLearner


def batches(ids, weights, rows=100):
    for at in range(0, ids.size, rows):
        here = slice(at, at + rows)
        yield pa.record_batch({"id": ids[here].view(np.int64), "weight": weights[here]})


def drawn(keys, rows=5_000):
    rng = np.random.default_rng(3)
    names = rng.integers(0, 2**63, keys).astype(np.uint64)
    return names[np.minimum(rng.zipf(1.3, rows), keys) - 1], rng.uniform(1.0, 2.0, rows)


def sums(ids, weights):
    return {int(each): pytest.approx(weights[ids == each].sum()) for each in np.unique(ids)}


@pytest.mark.parametrize("at_once", [2**18, 700])
def test_few_keys_are_counted_exactly(monkeypatch, at_once):
    monkeypatch.setattr(learning, "_ROWS_AT_ONCE", at_once)
    ids, weights = drawn(keys=50)
    (row,) = (it.to_pylist()[0] for it in PartitionLearner(4, 0, most_keys=50)(batches(ids, weights)))
    found = dict(zip(np.frombuffer(row["ids"], np.uint64).tolist(), np.frombuffer(row["weights"]), strict=True))
    assert row["sketch"] is None
    assert found == sums(ids, weights)


@pytest.mark.parametrize("at_once", [2**18, 700])
def test_more_keys_go_into_a_sketch_with_all_rows(monkeypatch, at_once):
    monkeypatch.setattr(learning, "_ROWS_AT_ONCE", at_once)
    ids, weights = drawn(keys=50)
    (row,) = (it.to_pylist()[0] for it in PartitionLearner(4, 0, most_keys=40)(batches(ids, weights)))
    learner, expected = DKG.from_bytes(row["sketch"]), DKG.automatic(4, ids="xxhash64").fit_ids(ids, weights)
    assert learner.total == pytest.approx(weights.sum())
    assert learner.mapping(4).fitted_loads == pytest.approx(expected.mapping(4).fitted_loads)


@pytest.mark.parametrize("at_once", [2**18, 700])
@pytest.mark.parametrize("most_keys", [50, 40])
def test_what_came_later_is_told_apart(monkeypatch, at_once, most_keys):
    monkeypatch.setattr(learning, "_ROWS_AT_ONCE", at_once)
    ids, weights = drawn(keys=50)
    (row,) = (it.to_pylist()[0] for it in PartitionLearner(4, 0, most_keys=most_keys)(batches(ids, weights)))
    found, told = np.frombuffer(row["ids"], np.uint64), np.frombuffer(row["weights"])
    share = np.frombuffer(row["later"], np.float32)
    told = told * share if row["sketch"] is None else told
    total = told.sum() if row["sketch"] is None else DKG.from_bytes(row["sketch"]).counts().buckets @ share
    first = int(np.argmin(np.abs(np.cumsum(weights[::-1])[::-1] - total)))
    later = {int(key): weight for key, weight in zip(found, told, strict=True) if weight > 0.0}
    expected = sums(ids[first:], weights[first:])
    assert 0.25 <= total / weights.sum() <= 0.64
    assert later == {key: pytest.approx(expected[key].expected, rel=1e-5) for key in later}
    assert sum(later.values()) >= (0.99 if row["sketch"] else 1 - 1e-6) * total
    assert row["later_squares"] == pytest.approx(np.square(weights[first:]).sum())
    assert row["squares"] == pytest.approx(np.square(weights).sum())


def test_a_partition_without_rows_gives_none():
    assert list(PartitionLearner(4, 0, most_keys=10)(iter([]))) == []
    assert list(PartitionLearner(4, 0, most_keys=10)(batches(*drawn(keys=5, rows=0)))) == []


def test_few_keys_load_no_compiled_code():
    program = """
import sys
import numpy as np, pyarrow as pa
from evenly.worker.learning import PartitionLearner
batch = pa.record_batch({"id": np.arange(9), "weight": np.ones(9)})
assert len(list(PartitionLearner(4, 0, most_keys=10)(iter([batch])))) == 1
assert not {"numba", "pyspark"} & set(sys.modules), sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
