"""Files and folders through Hadoop's file systems, and what Spark makes of a schema in Arrow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from evenly.spark.arrow_schema import arrow_schema
from evenly.spark.jvm.hadoop_files import Folder

pytestmark = pytest.mark.spark


def test_a_folder_lists_copies_and_removes_what_is_in_it(spark, tmp_path):
    folder = Folder(spark, str(tmp_path))
    folder.write("one", "1234")
    folder.child("below").write("two", "12")
    (tmp_path / "below" / "empty").mkdir()
    (tmp_path / ".hidden").write_text("")
    assert folder.scheme == "file"
    assert folder.resolved("one") == f"file:{tmp_path}/one"
    assert folder.names() == ["below", "one"]
    assert folder.sizes_bytes()["one"] == 4
    assert folder.folders("below") == ["empty"]
    assert {name: size for name, size in folder.lengths("below").items() if not name.endswith(".crc")} == {"below/two": 2}
    folder.copy("below", "there/copied")
    assert folder.read("there/copied/two") == b"12"
    folder.remove("below")
    folder.remove("one")
    assert folder.names() == ["there"]


def test_what_is_not_there_has_nothing_in_it_and_needs_no_removal(spark, tmp_path):
    folder = Folder(spark, f"{tmp_path}/missing")
    assert (folder.names(), folder.sizes_bytes(), folder.folders("x"), folder.lengths("x")) == ([], {}, [], {})
    folder.copy("x", "y")
    folder.remove("x")
    assert not (tmp_path / "missing").exists()


def test_a_file_is_replaced_whole_under_readers_and_is_beside_no_checksum_of_another(spark, tmp_path):
    folder, reading = Folder(spark, str(tmp_path)), Folder(spark, str(tmp_path))
    folder.write("one", "0")
    with ThreadPoolExecutor(2) as threads:
        written = [threads.submit(folder.write, "one", str(number) * 700) for number in range(10)]
        while not all(it.done() for it in written):
            assert len(set(reading.read("one"))) == 1
    assert all(it.result() is None for it in written)
    assert folder.read("one")[:1].isdigit()
    # A driver that is killed between the two steps leaves the file without its checksum.
    checksum = tmp_path / ".one.crc"
    assert sorted(tmp_path.iterdir()) == [checksum, tmp_path / "one"]
    checksum.unlink()
    assert len(folder.read("one")) == 700


def test_the_arrow_schema_follows_the_settings_of_the_session(spark):
    empty = spark.createDataFrame([], "a string, b timestamp")
    usual = arrow_schema(spark, empty.schema, empty)
    assert usual.field("a").type == pa.string()
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        assert arrow_schema(spark, empty.schema, empty).field("a").type == pa.large_string()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    assert arrow_schema(spark, empty.schema, empty) == usual
