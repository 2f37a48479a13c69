"""Constant arrays in the form in which rows hold them."""

import numpy as np
import pytest
from pyspark.sql import functions as F

from evenly.spark.jvm.held_arrays import held_arrays
from evenly.spark.placing.lookup import lookup_tables

KINDS = {np.int8: "array<tinyint>", np.int16: "array<smallint>", np.int32: "array<int>", np.int64: "array<bigint>"}


@pytest.mark.parametrize("entries", [0, 1, 63, 64, 65, 1_000])
def test_every_entry_is_where_it_was_in_tables_of_every_type_behind_a_shuffle_too(spark, entries):
    draw = np.random.default_rng(entries)
    tables = [draw.integers(np.iinfo(kind).min, np.iinfo(kind).max, entries, kind, endpoint=True) for kind in KINDS]
    held = [array.alias(f"t{at}") for at, array in enumerate(held_arrays(spark, tables))]
    rows = spark.range(0, 2, 1, 2).repartition(2, "id").select("id", *held)
    assert [field.dataType.simpleString() for field in rows.schema[1:]] == list(KINDS.values())
    assert not any(field.nullable or field.dataType.containsNull for field in rows.schema[1:])
    for row in rows.collect():
        assert [list(array) for array in row[1:]] == [table.tolist() for table in tables]
    read = spark.range(max(entries, 1)).select("id", F.get(held_arrays(spark, tables[3:])[0], F.expr("int(id)")))
    assert [row[1] for row in read.orderBy("id").collect()] == (tables[3].tolist() or [None])


def test_what_is_no_table_of_whole_numbers_is_no_constant(spark):
    with pytest.raises(KeyError):
        lookup_tables(spark.range(1), {"table": np.array([0.5])})
