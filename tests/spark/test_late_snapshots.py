"""State that was moved stays as it was written, whatever the providers of stopped runs still upload; each start checks it."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evenly
from evenly.errors import CheckpointMismatch, DamagedData, InvalidCheckpoint
from evenly.keys.dkg import DKG
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.state_stores import StateStores
from evenly.spark.state.lineage import CLOSED, current_checkpoint, needed_files, opened
from evenly.spark.state.migration import recover
from evenly.spark.state.reading import rows_per_partition

INSTANCES = 2
BATCHES = 3  # and as many changelogs make a snapshot, which waits for the next maintenance
PATIENCE_S = 120.0
STATE = "spark.sql.streaming.stateStore"
SETTINGS = {
    f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{STATE}.minDeltasForSnapshot": str(BATCHES),
    f"{STATE}.maintenanceInterval": "1h",  # it comes when the test says so
}


@pytest.fixture(scope="module")
def stores(spark):
    """The state stores of this process. Stopped before and after: Spark reads the interval when it starts their maintenance."""
    stores = spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    stores.stop()
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield stores
    stores.stop()
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


class Visits:
    """Visits of users, counted under a mapping that changes."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.checkpoint = spark, folder, folder / "checkpoint"
        self.fed = 0
        (folder / "in").mkdir()
        (folder / "out").mkdir()

    def feed(self, files):
        for _ in range(files):
            users = np.random.default_rng(self.fed).integers(0, 60, 200)
            staged = self.folder / f"{self.fed:04d}.parquet"
            pd.DataFrame({"user": users}).to_parquet(staged)
            staged.rename(self.folder / "in" / staged.name)
            self.fed += 1

    def counting(self, placed):
        def write(batch, number):
            batch.toPandas().to_parquet(self.folder / "out" / f"{number:04d}.parquet")

        return placed.groupBy("user", "slot").count().writeStream.outputMode("update").foreachBatch(write)

    def rows(self):
        return self.spark.readStream.schema("user bigint").option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))

    def start(self):
        return evenly.stream_by_key(
            self.rows(),
            self.counting,
            key="user",
            instances=INSTANCES,
            checkpoint=self.checkpoint,
            mapping=DKG.automatic(INSTANCES, ids="xxhash64").mapping(columns=("user",)),
            controller=False,
        )

    def counts(self):
        batches = [pd.read_parquet(path) for path in sorted((self.folder / "out").iterdir())]
        return pd.concat(batches).groupby("user")["count"].max().to_dict()

    def expected(self):
        return pd.concat([pd.read_parquet(path) for path in (self.folder / "in").iterdir()]).groupby("user").size().to_dict()


def turned(mapping):
    """Every key on the other instance."""
    return replace(
        mapping,
        buckets=((mapping.buckets + 1) % INSTANCES).astype(np.int32),
        heavy_instances=((mapping.heavy_instances + 1) % INSTANCES).astype(np.int32),
    )


def maintain(spark, stores, checkpoint, run):
    """Let the providers of a run have their maintenance, and wait until each has uploaded its snapshot."""
    jvm = spark._jvm
    state, path = jvm.org.apache.spark.sql.execution.streaming.state, jvm.org.apache.hadoop.fs.Path(f"file:{checkpoint}")
    for partition in range(INSTANCES):
        store = state.StateStoreId(f"{path.toString()}/state", 0, partition, "default")
        # Where the next run has been given the partition already, Spark does it by itself.
        stores.doMaintenanceAndUnload(state.StateStoreProviderId(store, jvm.java.util.UUID.fromString(run)))
    until = time.monotonic() + PATIENCE_S
    while len(uploaded(checkpoint)) < INSTANCES and time.monotonic() < until:
        time.sleep(0.05)


def uploaded(checkpoint):
    return list(Path(checkpoint, "state").glob("0/*/*.zip"))


@pytest.fixture(scope="module")
def moved(spark, stores, tmp_path_factory):
    """A query whose state was moved twice, each time before its providers had uploaded their snapshots; now stopped."""
    visits = Visits(spark, tmp_path_factory.mktemp("visits"))
    query = visits.start()
    for _ in range(2):
        visits.feed(BATCHES)
        query.processAllAvailable()
        old, run = current_checkpoint(spark, visits.checkpoint), query.query.runId
        before = uploaded(old)
        query.change_mapping(turned(query.mapping))
        assert uploaded(old) == []
        maintain(spark, stores, old, run)
        # Else nothing was late, and the test shows nothing. The second lineage began with a snapshot, the first without.
        assert len(uploaded(old)) == INSTANCES >= len(before)
    visits.feed(1)
    query.processAllAvailable()
    query.stop()
    return visits


def test_snapshots_uploaded_after_a_move_do_not_reach_what_the_query_reads(spark, stores, moved):
    stores.stop()
    moved.feed(1)
    query = moved.start()
    query.processAllAvailable()
    query.stop()
    assert moved.counts() == moved.expected()
    assert [version.number for version in query.versions] == [1, 2, 3]
    # What came late was deleted, and all state is in one lineage.
    assert sorted(path.name for path in moved.checkpoint.iterdir() if path.name[0] != ".") == ["evenly", "metadata"]
    assert [str(path) for path in (moved.checkpoint / "evenly" / "lineages").iterdir()] == [
        current_checkpoint(spark, moved.checkpoint)
    ]
    assert sum(rows_per_partition(spark, moved.checkpoint)[0].rows) == len(moved.expected())


def test_a_task_of_the_move_that_writes_late_does_not_reach_what_the_query_reads(spark, tmp_path, monkeypatch):
    """Its executor hung, and the move went on with another attempt: what it writes has the same rows in other bytes."""
    visits, written = Visits(spark, tmp_path), []
    write = StateStores.write
    monkeypatch.setattr(StateStores, "write", lambda stores, to, rewrite: (written.append(to), write(stores, to, rewrite)))
    query = visits.start()
    visits.feed(1)
    query.processAllAvailable()
    query.change_mapping(turned(query.mapping))
    query.stop()
    late = Path(written[0]) / "state" / "0" / "0"
    late.mkdir(parents=True, exist_ok=True)
    for file in uploaded(current_checkpoint(spark, visits.checkpoint)):
        (late / file.name).write_bytes(b"late")
        (late / f".{file.name}.crc").unlink(missing_ok=True)
    visits.feed(1)
    query = visits.start()
    query.processAllAvailable()
    query.stop()
    assert visits.counts() == visits.expected()
    assert not Path(written[0]).exists()


def test_a_query_started_there_without_evenly_fails_at_once(spark, moved):
    with pytest.raises(Exception, match=CLOSED):
        moved.counting(moved.rows().selectExpr("user", "0 as slot")).option("checkpointLocation", str(moved.checkpoint)).start()
    with pytest.raises(InvalidCheckpoint, match=f"holds state that Evenly has moved for .*: give {moved.checkpoint}"):
        recover(spark, current_checkpoint(spark, moved.checkpoint))


def test_state_files_that_are_not_those_of_the_move_are_refused(spark, moved):
    file = uploaded(current_checkpoint(spark, moved.checkpoint))[0]
    content = file.read_bytes()
    damages = {
        "has another checksum": bytes([content[0] ^ 1]) + content[1:],
        f"bytes, not {len(content):,}": content[:-1],
        "is missing": None,
    }
    for told, damaged in damages.items():
        file.unlink()
        if damaged is not None:
            file.write_bytes(damaged)
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        with pytest.raises(DamagedData, match=rf"1 of \d+ state files .* {told}.*The query was not started"):
            moved.start()
    file.write_bytes(content)
    stale = file.with_name(f".{file.name}.crc")
    stale.write_bytes(b"crc\0\0\0\2\0" + bytes(4 * (len(content) // 512 + 1)))
    with pytest.raises(DamagedData, match=r"ChecksumException.* delete the files \.\*\.crc"):
        moved.start()
    stale.unlink()
    moved.start().stop()


def test_a_backup_restored_over_state_that_was_moved_since_is_refused_and_nothing_is_deleted(moved):
    metadata = moved.checkpoint / "metadata"
    closed = metadata.read_text()
    hidden = moved.checkpoint / ".metadata.crc"
    hidden.unlink(missing_ok=True)
    metadata.write_text(opened(closed))
    (moved.checkpoint / "offsets").mkdir()
    (moved.checkpoint / "offsets" / "0").write_text("of the backup")
    with pytest.raises(InvalidCheckpoint, match=r"is as it was before its state was moved.*delete the whole folder"):
        moved.start()
    assert (moved.checkpoint / "offsets" / "0").read_text() == "of the backup"
    metadata.unlink()
    moved.start().stop()
    assert not (moved.checkpoint / "offsets").exists()
    metadata.write_text(closed)


@pytest.mark.parametrize(
    ("lost", "error", "told"),
    [
        ("migrated.json", DamagedData, "does not say where"),
        ("versions.json", CheckpointMismatch, "has begun"),
    ],
)
def test_a_lost_file_never_brings_old_state_back(spark, moved, lost, error, told):
    before = current_checkpoint(spark, moved.checkpoint)
    file = moved.checkpoint / "evenly" / lost
    away = file.rename(moved.folder / lost)
    try:
        with pytest.raises(error, match=told):
            moved.start()
    finally:
        away.rename(file)
    assert current_checkpoint(spark, moved.checkpoint) == before
    moved.start().stop()


def test_a_stale_checksum_of_hadoop_beside_a_restored_file_is_passed_by_or_told(spark, tmp_path, caplog):
    folder = Folder(spark, str(tmp_path))
    folder.write("versions.json", "as it was")
    (tmp_path / "versions.json").write_text("restored")
    with pytest.raises(DamagedData, match=r"versions\.json does not fit .* delete \.versions\.json\.crc if you have restored"):
        folder.read("versions.json")
    assert folder.read("versions.json", checked_by_caller=True) == b"restored"
    assert "is read without it" in caplog.text
    folder.write("versions.json", "new")
    assert folder.read("versions.json") == b"new"
    folder.remove("versions.json")
    assert list(tmp_path.iterdir()) == []


def test_a_recorded_file_is_needed_until_its_store_has_a_later_snapshot():
    recorded = ["state/0/0/4.zip", "state/0/0/SSTs/a.sst", "state/0/1/left/4.zip", "state/0/1/right/4.zip"]
    found = [*recorded, "state/0/0/5.changelog", "state/0/1/left/6.zip"]
    assert needed_files(recorded, found, version=4) == {*recorded[:2], recorded[3]}
