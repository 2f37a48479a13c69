"""`evenly diagnose` on what Spark really writes: event logs of its jobs, tables, and checkpoints of its queries."""

import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import functions as F

import documented_json
import evenly
from evenly.diagnosis.application import read_application
from evenly.diagnosis.causes import diagnose_stage
from evenly.diagnosis.compression import compression_of
from evenly.diagnosis.event_log import open_event_log
from evenly.diagnosis.findings import Cause, Thresholds
from evenly.diagnosis.keys import KeyAdvice
from evenly.errors import DamagedData, EmptyStream, InvalidCheckpoint, InvalidParameter, UnknownColumn
from evenly.keys.carried import Carried
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.spark.diagnosis import diagnose_source, read_source
from evenly.streams import zipf

SLOTS = 8
JOBS = """
import sys, time
import numpy as np
import pyarrow as pa
from evenly import by_key
from evenly.lab.rivals.keys import DKG
from evenly.spark import comparison as demo
from evenly.spark.keyed.keys import key_id
from evenly.spark.session import local_session

spark = local_session(
    "diagnosed",
    slots=8,
    memory="1g",
    settings={"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file://" + sys.argv[1]},
)

def player(events):
    time.sleep(0.001 * len(events))
    return pa.table({"rows": [len(events)]})

def slow_beginning(batches):
    for batch in batches:
        time.sleep(0.001 * float((batch.column(0).to_numpy() < 4_000).sum()))
        yield batch.slice(0, 1)

def equal(batches):
    for batch in batches:
        time.sleep(0.0005 * len(batch))
        yield batch.slice(0, 1)

few = spark.range(8, numPartitions=8)
few.mapInArrow(equal, "id long").collect()  # starts Python
df = demo.football_rows(spark, 40_000)
df.repartition(8, "player").groupBy("player").applyInArrow(player, "rows long").collect()
ids = df.select(key_id(("player",)).alias("id")).toArrow().column("id").to_numpy()
mapping = DKG.automatic(8, ids="xxhash64").fit_ids(ids.view(np.uint64), np.ones(ids.size)).mapping(columns=("player",))
placed = by_key(df, key="player", instances=8, mapping=mapping)
placed.groupBy("player", "slot").applyInArrow(player, "rows long").collect()
spark.range(32_000, numPartitions=8).mapInArrow(slow_beginning, "id long").collect()
spark.range(32_000, numPartitions=8).mapInArrow(equal, "id long").collect()
spark.stop()
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """The rolling, compressed log of the demonstration's job by hash and by Evenly, of uneven costs, and of an even job."""
    folder = tmp_path_factory.mktemp("events")
    script = folder.parent / "jobs.py"
    script.write_text(JOBS)
    subprocess.run([sys.executable, script, folder], check=True, timeout=900, capture_output=True)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def stages(log):
    application = read_application(open_event_log(log))
    assert (application.name, application.slots, application.truncated) == ("diagnosed", SLOTS, False)
    return sorted(application.stages, key=lambda stage: stage.stage)


def of(stages, operator, rows):
    """Those that apply a Python function to so many rows, in the order in which they ran."""
    return [stage for stage in stages if stage.operators[:1] == (operator,) and int(stage.tasks.rows.sum()) == rows]


SMALL = Thresholds(least_saved_s=0.2, least_saved_pct=2.0)
"""What is asked is the cause. How much it costs differs between machines, above all between busy ones."""


def test_the_skewed_run_of_the_demonstrations_job_is_found_with_its_keys(stages):
    by_hash, by_evenly = of(stages, "FlatMapGroupsInArrow", 40_000)
    found = diagnose_stage(by_hash, SMALL)
    assert found.cause is Cause.KEYS
    assert found.call == 'df.transform(evenly.by_key, key="player", instances=8).groupBy("player", "slot")'
    assert by_hash.line.startswith("collect at jobs.py:")
    assert by_hash.rows_imbalance_pct > 30.0
    assert by_evenly.exchange.keys == ("player", "slot")
    assert by_evenly.rows_imbalance_pct < 5.0
    assert diagnose_stage(by_evenly, SMALL).cause is not Cause.KEYS


def test_rows_of_uneven_cost_are_told_from_uneven_rows(stages):
    slow, _ = of(stages, "MapInArrow", 32_000)
    found = diagnose_stage(slow, SMALL)
    assert found.cause is Cause.COST
    assert slow.tasks.run_ms.argmax() == 0
    assert slow.rows_imbalance_pct == 0.0
    assert found.call == "df.transform(evenly.apply_by_cost, function=function, schema=schema, instances=8)"


def test_an_even_job_needs_nothing(stages):
    _, even = of(stages, "MapInArrow", 32_000)
    assert diagnose_stage(even, Thresholds(least_saved_pct=25.0)).cause is Cause.EVEN
    assert even.time_imbalance_pct < 25.0


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy", "lzf"])
def test_what_sparks_own_codecs_write_is_read_without_them(spark, log, tmp_path, codec):
    jvm = spark._jvm
    parts = [file.read_bytes() for file in sorted(log.glob("events_*"))]
    assert [compression_of(part[:16]) for part in parts] == ["zstd"]
    codecs = jvm.org.apache.spark.io.CompressionCodec
    settings = spark.sparkContext._jsc.sc().conf()
    bytes_in = jvm.java.io.FileInputStream(str(next(log.glob("events_*"))))
    plain = codecs.createCodec(settings, "zstd").compressedInputStream(bytes_in)
    target = tmp_path / f"app.{codec}"
    out = codecs.createCodec(settings, codec).compressedOutputStream(jvm.java.io.FileOutputStream(str(target)))
    plain.transferTo(out)
    out.close()
    assert compression_of(target.read_bytes()[:16]) == codec
    expected, found = (read_application(open_event_log(path)) for path in (log, target))
    assert found.finished == expected.finished > 5
    for one, other in zip(expected.stages, found.stages, strict=True):
        assert one.tasks.run_ms.tolist() == other.tasks.run_ms.tolist()
        assert (one.name, one.operators, one.exchange) == (other.name, other.operators, other.exchange)


@pytest.fixture(scope="module")
def skewed(spark):
    users = [f"user {key}" for key in zipf(1.0, 400).draw(20_000, seed=3)]
    return (
        spark.createDataFrame([(user, i % 3) for i, user in enumerate(users)], "user string, shop int").repartition(4).persist()
    )


def test_keys_are_counted_where_spark_puts_them(skewed):
    steps = []
    found = evenly.diagnose_keys(skewed, key=["user", "shop"], instances=[8], progress=steps.append)
    exact = skewed.groupBy("user", "shop").count().orderBy(F.desc("count"), "user", "shop").collect()
    assert (found.rows, found.distinct_keys) == (20_000, len(exact))
    assert [(one.key, one.rows) for one in found.heaviest] == [(f"{row[0]}, {row[1]}", row[2]) for row in exact[:10]]
    for at in found.at:
        for rows, placed in (
            (at.rows_by_hash, skewed.repartition(at.instances, "user", "shop")),
            (at.rows_by_evenly, evenly.by_key(skewed, key=["user", "shop"], instances=at.instances)),
        ):
            partitions = placed.groupBy(F.spark_partition_id().alias("p")).count().collect()
            assert {row.p: row["count"] for row in partitions} == {i: count for i, count in enumerate(rows) if count}
        assert at.least_pct == pytest.approx(max(0.0, exact[0][2] / 20_000 * at.instances * 100.0 - 100.0))
    assert len(steps) == 3


def test_advice_follows_the_number_of_instances(skewed):
    found = evenly.diagnose_keys(skewed, key="user", instances=[4, 64], heaviest=1)
    few, many = found.at
    assert few.advice is KeyAdvice.BY_KEY
    assert many.advice is KeyAdvice.SPLIT  # the heaviest user has 15 % of the rows
    assert found.heaviest[0].share * 4 < 1.0 < found.heaviest[0].share * 64


def test_null_and_dotted_keys_are_keys_like_any_other(spark):
    df = spark.sql("select if(id % 2 = 0, null, named_struct('a', id % 3)) as `s`, id as `slot` from range(600)")
    found = evenly.diagnose_keys(df, key="s.a", instances=3)
    assert (found.rows, found.distinct_keys, found.heaviest[0].key, found.heaviest[0].rows) == (600, 4, "null", 300)
    assert sum(found.at[0].rows_by_hash) == sum(found.at[0].rows_by_evenly) == 600


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"key": "nobody", "instances": 4}, UnknownColumn, "no column 'nobody'"),
        ({"key": "user", "instances": []}, InvalidParameter, "instances names no number"),
        ({"key": "user", "instances": [4, 0]}, InvalidParameter, "got 0"),
        (
            {"key": "user", "instances": 4, "heaviest": -1},
            InvalidParameter,
            "heaviest must be a whole number from 0 to 1000, got -1",
        ),
    ],
)
def test_bad_parameters_are_refused(skewed, options, error, said):
    with pytest.raises(error, match=said):
        evenly.diagnose_keys(skewed, **options)


def test_no_rows_and_no_table_are_told(spark, skewed):
    with pytest.raises(EmptyStream, match="no rows"):
        evenly.diagnose_keys(skewed.where("false"), key="user", instances=4)
    with pytest.raises(DamagedData, match="no_such_table is neither a file or folder on this machine nor a table"):
        read_source(spark, "no_such_table")
    skewed.createOrReplaceTempView("orders")
    assert read_source(spark, "orders").columns == ["user", "shop"]


ODD = {
    "lines.csv": (b'user,n\n"a\nb",1\n"a\nb",2\nc,3\n', {"a\nb": 2, "c": 1}),
    "quotes.csv": (b'user,n\n"a ""x"", b",1\n"a ""x"", b",2\nc,3\n', {'a "x", b': 2, "c": 1}),
    "list.json": (b'[{"user": "a"},\n{"user": "b"}]', {"a": 1, "b": 1}),
    "lines.json": (b'{"user": "a"}\n{"user": null}\n{"n": 1}\n', {"a": 1, "null": 2}),
    "g[1]{a,b}*.csv": (b"user\na\n", {"a": 1}),
}


@pytest.mark.parametrize("name", ODD)
def test_the_keys_of_a_file_are_those_that_are_in_it(spark, tmp_path, name):
    content, rows = ODD[name]
    (tmp_path / name).write_bytes(content)
    (tmp_path / "g1a_other.csv").write_bytes(b"user\nother\n")
    read = {"instances": [2], "heaviest": 9, "progress": str}
    found = diagnose_source(spark, str(tmp_path / name), key="user", **read)
    assert {one.key: one.rows for one in found.heaviest} == rows


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("cut.json", b'{"user": "a"}\n{"user": "b"\n{"user": "c"}\n', "cannot be read"),
        ("latin.csv", "user\nhé\nhè\n".encode("latin1"), r"is not UTF-8 at byte 6: convert it first \(iconv"),
        ("mixed/z.parquet", b"user\nb\n" * 9, "cannot be read"),
    ],
)
def test_a_file_that_spark_reads_in_part_is_refused_in_a_sentence(spark, tmp_path, name, content, said):
    where = tmp_path / name
    if where.parent != tmp_path:
        spark.range(2).selectExpr("'a' as user").coalesce(1).write.parquet(str(where.parent))
    where.write_bytes(content)
    with pytest.raises(DamagedData, match=said) as refused:
        diagnose_source(
            spark, str(where.parent if where.parent != tmp_path else where), key="user", instances=[2], heaviest=9, progress=str
        )
    assert "\n" not in str(refused.value)


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """A query whose state is on partition 3, mostly."""
    folder = tmp_path_factory.mktemp("query")
    chosen = (F.pmod(F.hash("id"), F.lit(8)) == 3) | (F.col("id") % 20 == 0)
    spark.range(12_000).where(chosen).write.parquet(str(folder / "rows"))
    stream = spark.readStream.schema("id long").parquet(str(folder / "rows"))
    query = (
        stream.groupBy("id")
        .count()
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return folder / "checkpoint"


def test_the_state_of_a_query_is_counted_and_judged(spark, checkpoint):
    found = evenly.diagnose_checkpoint(spark, checkpoint)
    (store,) = found.stores
    expected = spark.read.parquet(str(checkpoint.parent / "rows")).groupBy(F.pmod(F.hash("id"), F.lit(8)).alias("p")).count()
    assert dict(enumerate(store.rows)) == {row.p: row["count"] for row in expected.collect()}
    assert (store.instances, store.heaviest[0][0], store.even) == (8, 3, False)
    assert "No mapping of Evenly stands beside the checkpoint" in found.advice


def test_a_mapping_beside_the_checkpoint_is_seen(spark, checkpoint):
    mapping = Mapping(8, np.zeros(1, np.int32), 0, 0, ids="xxhash64")
    (checkpoint / "evenly").mkdir()
    try:
        for version in (1, 2):
            replace(mapping, version=version).save(checkpoint / "evenly" / f"mapping-{version:06}.json")
        found = evenly.diagnose_checkpoint(spark, checkpoint)
    finally:
        for file in (checkpoint / "evenly").iterdir():
            file.unlink()
        (checkpoint / "evenly").rmdir()
    assert found.mappings == (1, 2)
    assert "(version 2)" in found.advice
    assert found.carried is None
    assert found.expected_pct == 0.0


def test_a_key_that_is_too_heavy_for_an_instance_is_not_called_drift(spark, checkpoint):
    mapping = DKG.automatic(8).fit(np.array([1] * 600 + list(range(2, 402)))).mapping()
    beside = checkpoint / "evenly"
    beside.mkdir()
    try:
        mapping.save(beside / "mapping-000001.json")
        (beside / "carried.json").write_text(Carried(1, 1, 1, (6_000, *([571] * 7)), read=True).to_json())
        hot = evenly.diagnose_checkpoint(spark, checkpoint)
        (beside / "mapping-000001.json").write_text("{")
        damaged = evenly.diagnose_checkpoint(spark, checkpoint)
    finally:
        shutil.rmtree(beside)
    assert hot.expected_pct == pytest.approx(mapping.fitted_imbalance_pct)
    assert "a new mapping does not help" in hot.advice
    assert "have drifted away" in damaged.advice


def test_a_mapping_that_balances_the_rows_is_not_called_drifted_for_its_state(spark, tmp_path):
    """One key has half of the rows and one row of state: the mapping leaves its instance nearly alone."""
    rows, checkpoint = str(tmp_path / "rows"), tmp_path / "checkpoint"
    spark.range(8_000).selectExpr("if(id % 2 = 0, -1, id) as user").write.parquet(rows)
    mapping = evenly.learn_mapping(spark.read.parquet(rows), key="user", instances=2, tolerance_pct=None)
    evenly.stream_by_key(
        spark.readStream.schema("user long").parquet(rows),
        lambda placed: placed.dropDuplicates(["user", "slot"]).writeStream.format("noop").outputMode("append"),
        key="user",
        instances=2,
        checkpoint=checkpoint,
        mapping=mapping,
        trigger={"availableNow": True},
    ).awaitTermination()
    found = evenly.diagnose_checkpoint(spark, checkpoint)
    assert not found.stores[0].even
    assert sum(found.carried.rows) == 8_000
    assert found.carried.imbalance_pct < 5.0
    assert "The rows are even under Evenly's mapping (version 1)" in found.advice


def test_a_folder_that_is_no_checkpoint_is_refused(spark, tmp_path):
    with pytest.raises(InvalidCheckpoint, match="is not the checkpoint of a streaming query"):
        evenly.diagnose_checkpoint(spark, tmp_path)


def test_the_commands_tell_programs_and_draw_pages(skewed, checkpoint, tmp_path):
    skewed.write.csv(str(tmp_path / "orders"), header=True)
    program = (
        "import sys; from evenly.cli.main import main\n"
        "for words in sys.argv[1].split('|'):\n"
        "    sys.argv = ['evenly', 'diagnose', *words.split('+')]\n"
        "    try: main()\n"
        "    except SystemExit as stopped: assert not stopped.code, words\n"
    )
    orders = f"keys+{tmp_path / 'orders'}+--key+user+--instances+64+--json+--page+{tmp_path / 'keys.html'}"
    state = f"checkpoint+{checkpoint}+--json+--page+{tmp_path / 'state.html'}"
    done = subprocess.run(
        [sys.executable, "-c", program, f"{orders}|{state}"], capture_output=True, text=True, timeout=900, check=True
    )
    by_key, by_state = map(documented_json.check, done.stdout.splitlines())
    assert by_key["parameters"]["instances"] == [64]
    verdicts = {row["instances"]: row["verdict"] for row in by_key["results"] if row["series"] == "instances"}
    assert verdicts == {64: "split"}
    (store,) = (row for row in by_state["results"] if row["series"] == "store")
    assert (store["verdict"], store["heaviest_partition"], store["instances"]) == ("uneven", 3, 8)
    assert (tmp_path / "keys.html").read_text().count("<svg") == 2  # by hash, and by Evenly
    assert "partition 3 alone has" in (tmp_path / "state.html").read_text()
