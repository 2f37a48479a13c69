"""Spark's hash of an integer and its inverse."""

import numpy as np
import pytest
from pyspark.sql import functions as F

from evenly.spark.placing import murmur3


def test_hash_int_is_sparks(spark):
    rng = np.random.default_rng(1)
    slots = np.concatenate([rng.integers(-(2**31), 2**31, 500), [0, 1, -1, 2**31 - 1, -(2**31)]]).astype(np.int32)
    seeds = np.resize(rng.integers(-(2**31), 2**31, 100), slots.size).astype(np.int32)
    rows = spark.createDataFrame([(int(seed), int(slot)) for seed, slot in zip(seeds, slots, strict=True)], "key int, slot int")
    for row in rows.select(F.hash("key").alias("seed"), "slot", F.hash("key", "slot").alias("hash")).collect():
        assert murmur3.hash_int(np.array([row.slot]), np.array([row.seed]))[0] == row.hash


@pytest.mark.parametrize("partitions", [1, 2, 7, 10_000])
def test_undoing_the_hash_leads_to_every_partition(partitions):
    seeds = np.random.default_rng(2).integers(-(2**31), 2**31, partitions).astype(np.int32)
    mixed = (murmur3.partition_constants(partitions) ^ seeds).view(np.uint32) * np.uint32(murmur3.UNMIX_FIRST)
    slots = ((mixed >> np.uint32(15)) | (mixed << np.uint32(17))) * np.uint32(murmur3.UNMIX_SECOND)
    assert np.array_equal(murmur3.hash_int(slots.view(np.int32), seeds), np.arange(partitions))
