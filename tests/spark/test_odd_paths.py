"""Checkpoints in folders whose names a URI would escape: their state is found, and moves when the mapping changes."""

import pytest
from visiting import INSTANCES, Visits, by_hash, turned

import evenly
from evenly.spark.jvm.readable_state import readable

ODD = "a b%20c ü&"


@pytest.fixture
def odd_visits(spark, tmp_path):
    (tmp_path / ODD).mkdir()
    return Visits(spark, tmp_path / ODD)


@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize("window", [None, "window"])
def test_a_mapping_changes_wherever_its_checkpoint_is(spark, odd_visits, window):
    keys = ("user",) if window is None else ("window", "user")
    visits, mapping = odd_visits, by_hash()
    visits.add(600)
    rows = visits.stream() if window is None else visits.windows()
    options = {"key": "user", "instances": INSTANCES, "checkpoint": visits.checkpoint, "window": window, "look": False}
    query = evenly.stream_by_key(rows, visits.counts(*keys), mapping=mapping, **options)
    try:
        query.processAllAvailable()
        changed = query.change_mapping(turned(mapping))
        visits.add(600)
        query.processAllAvailable()
    finally:
        query.stop()
    assert (query.refusals, changed.number) == ((), 2)
    assert visits.written(*keys) == visits.expected(*keys)
    if window is None:
        assert changed.figures["moved_state_rows"] == changed.figures["state_rows"] > 0
        found = evenly.diagnose_checkpoint(spark, visits.checkpoint)
        assert [sum(store.rows) for store in found.stores] == [len(visits.expected("user"))]


def test_other_folders_are_read_by_their_own_name(spark, tmp_path):
    assert readable(spark, str(tmp_path)) == (spark, str(tmp_path))
    before = spark.conf.getAll
    session, path = readable(spark, str(tmp_path / ODD))
    assert session is not spark
    assert path.startswith("viewfs://evenly-")
    assert spark.conf.getAll == before
