"""State that could not be moved safely: refused with the setting that helps, before anything is written."""

from dataclasses import replace

import pytest
from visiting import by_hash, turned

from evenly.errors import ImmovableState
from evenly.spark.state import migration
from evenly.spark.state.migration import migrate_state

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
pytestmark = pytest.mark.usefixtures("rocksdb")


def refused(visits, told):
    folder = visits.folder / "checkpoint"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    new = replace(turned(by_hash()), version=2)
    with pytest.raises(ImmovableState, match=told):
        migrate_state(visits.spark, folder, key=("user",), slot="slot", old=replace(by_hash(), version=1), new=new)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_file_system_that_replaces_a_file_in_several_steps(visits, monkeypatch):
    visits.add(100)
    visits.run(visits.counts("user"), mapping=by_hash(), controller=False)
    monkeypatch.setattr(migration, "_RENAME_IN_ONE_STEP", ("hdfs",))
    refused(visits, r"is on file:, which replaces a file in several steps.*keep the checkpoint on one of hdfs")


def test_state_whose_commits_name_each_file(spark, visits):
    spark.conf.set(FORMAT, "2")
    try:
        visits.add(100)
        visits.run(visits.counts("user"), mapping=by_hash(), controller=False)
        refused(visits, rf"is in state format 2.*{FORMAT}=1")
    finally:
        spark.conf.unset(FORMAT)
