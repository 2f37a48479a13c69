"""What a look at the beginning of a stream says of the batches to come."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from evenly.keys.dkg import DKG
from evenly.spark.streaming.first_look import _mapping
from evenly.streams import zipf


def learnt(ids):
    return DKG.automatic(8, ids="xxhash64").fit_ids(ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def test_later_batches_say_what_to_expect_and_all_batches_make_the_mapping():
    ids = zipf(0.5, 400).draw(40_000, seed=2)
    early, late = ids[:20_000], ids[20_000:]
    told = _mapping(learnt(ids), learnt(late), ("user",))
    changed = _mapping(learnt(np.concatenate([early, late + 100_000])), learnt(late + 100_000), ("user",))
    assert told.fitted_loads.sum() == ids.size
    assert told.columns == ("user",)
    assert told.expected_range_pct[1] < 10.0 < changed.expected_imbalance_pct


def test_one_batch_says_nothing_of_others():
    assert _mapping(learnt(np.arange(1_000) % 50), None, ("user",)).expectation is None
