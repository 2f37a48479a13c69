"""`stream_by_key`: what does not fit is refused with the remedy, and nothing is started."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import functions as F
from visiting import INSTANCES, SCHEMA, by_hash, turned

import evenly
from evenly.errors import (
    CheckpointMismatch,
    ColumnConflict,
    DamagedData,
    ImmovableState,
    InvalidParameter,
    StreamingMismatch,
    UnknownColumn,
)
from evenly.keys.dkg import DKG
from evenly.keys.versions import Version
from evenly.spark.streaming.first_look import can_look
from evenly.spark.streaming.mapping_store import MappingStore, Placement

KEPT = "user string, slot int"


def test_what_does_not_fit_the_checkpoint_is_refused_and_nothing_is_started(spark, visits):
    visits.add(100)
    visits.run(visits.counts("user"), mapping=by_hash(), controller=False)
    build = visits.counts("user")
    for options, word in (
        ({"instances": 8}, "instances=4.*instances=8"),
        ({"key": ["user", "ts"]}, "key=.*'user'.*'ts'"),
        ({"slot": "place"}, "slot='slot'.*slot='place'"),
        ({"rows": visits.windows(), "window": "window"}, "window=None.*window='window'"),
    ):
        with pytest.raises(CheckpointMismatch, match=word):
            visits.run(build, **options)

    folder = Path(visits.checkpoint) / "evenly"
    log, first = folder / "versions.json", folder / "mapping-000001.json"
    whole, mapping = log.read_text(), first.read_text()

    def put(path, text):
        (folder / f".{path.name}.crc").unlink(missing_ok=True)
        path.write_text(text) if text else path.unlink()

    for path, text, error in (
        (first, mapping[: len(mapping) // 2], DamagedData),
        (first, mapping.replace('"buckets": [', '"buckets": [1, ', 1), DamagedData),
        (first, turned(by_hash()).to_json(), DamagedData),
        (first, "", DamagedData),
        (log, whole[:-30], DamagedData),
        (log, whole.replace('"given"', '"taken"'), DamagedData),
        (log, "", CheckpointMismatch),
    ):
        put(path, text)
        with pytest.raises(error, match=rf"{path.name}.*(missing|damaged).*backup.*new checkpoint"):
            visits.run(build)
        put(log, whole)
        put(first, mapping)
    assert spark.streams.active == []
    visits.add(100)
    visits.run(build)
    assert visits.written("user") == visits.expected("user")


def test_a_checkpoint_knows_the_types_of_its_key_also_one_that_was_begun_without(spark, tmp_path):
    untyped = Placement(("user",), INSTANCES, "slot")
    store = MappingStore(spark, str(tmp_path), untyped)
    store.propose(by_hash())
    store.enforce(Version(1, "given", ((1, None),)))
    assert store.mapping(1).types == ()

    typed = MappingStore(spark, str(tmp_path), replace(untyped, key=("USER",), types=("int",)))
    assert typed.load(), "the case of a name does not count"
    assert typed.mapping(1).types == ("int",)
    typed.placement.check(replace(by_hash(), columns=("id",), types=("smallint",)))
    with pytest.raises(InvalidParameter, match=r"'USER' is int, and the mapping is for bigint"):
        typed.placement.check(replace(by_hash(), types=("bigint",)))
    typed.note(1, {"after_pct": 1.0})
    with pytest.raises(CheckpointMismatch, match=r"types=\['int'\].*types=\['bigint'\].*Cast the key columns to int"):
        MappingStore(spark, str(tmp_path), replace(untyped, types=("bigint",))).load()


def test_streams_whose_keys_would_not_find_each_other_are_refused_with_the_remedy(visits):
    rows = visits.stream()
    for other, error, word in (
        (
            rows.selectExpr("cast(user as bigint) as user", "ts"),
            InvalidParameter,
            "string in the first DataFrame and bigint in Da",
        ),
        (rows.selectExpr("user as who", "ts"), UnknownColumn, r"'user'.*in DataFrame 2.*withColumnRenamed"),
    ):
        with pytest.raises(error, match=word):
            visits.run(visits.counts("user"), rows=(rows, other))
    whole = (rows.selectExpr("cast(user as bigint) as user"), rows.selectExpr("cast(user as int) as user"))
    with pytest.raises(InvalidParameter, match=r"Cast it in DataFrame 2: \.withColumn\('user', .*cast\('bigint'\)"):
        visits.run(visits.counts("user"), rows=whole)


def test_a_source_that_cannot_be_read_twice_is_not_looked_at(spark, visits):
    assert can_look([visits.stream()])
    assert can_look([spark.readStream.format("rate").load()])
    tidying = spark.readStream.schema(SCHEMA).option("cleanSource", "delete").parquet(visits.input)
    assert not can_look([tidying])
    assert not can_look([spark.readStream.format("socket").option("host", "127.0.0.1").option("port", 9).load()])


def test_wrong_arguments_are_refused_with_the_remedy(spark, visits):
    build = visits.counts("user")
    for options, error, word in (
        ({"rows": spark.range(3).selectExpr("string(id) as user")}, StreamingMismatch, "use by_key"),
        ({"rows": []}, InvalidParameter, "no DataFrame"),
        ({"window": "hour"}, UnknownColumn, "'hour'.*functions.window"),
        ({"slot": "TS"}, ColumnConflict, "'TS'"),
        ({"key": "usr"}, UnknownColumn, "'usr'"),
        ({"instances": 0}, InvalidParameter, "instances"),
        ({"mapping": DKG.automatic(8, ids="xxhash64").mapping()}, InvalidParameter, "for 8 instances, not for 4"),
        ({"mapping": DKG.automatic(4).mapping()}, InvalidParameter, "not learnt on Spark"),
    ):
        with pytest.raises(error, match=word):
            visits.run(build, **options)
    assert not Path(visits.checkpoint).exists()
    with pytest.raises(InvalidParameter, match="DataStreamWriter"):
        visits.run(lambda placed: placed, mapping=by_hash())
    assert spark.conf.get("spark.sql.shuffle.partitions") == "8"


def test_a_pipeline_that_leaves_the_window_out_is_refused_before_it_starts(visits):
    visits.add()
    with pytest.raises(InvalidParameter, match=r"groups by \(user, slot\).*Group by \(window, user, slot\)"):
        visits.run(visits.counts("user"), rows=visits.windows(), window="window", look=False)
    with pytest.raises(InvalidParameter, match=r"groups by \(user, slot\).*Group by \(window, user, slot\)"):
        visits.run(
            lambda placed: placed.dropDuplicates(["user", "slot"]).writeStream.format("noop"),
            rows=visits.windows(),
            window="window",
            look=False,
        )


@pytest.mark.usefixtures("rocksdb")
def test_a_slot_that_one_of_two_states_does_not_know_is_refused_before_anything_is_moved(visits):
    """Its groups would be begun anew, each under its new slot."""

    def build(placed):
        distinct = placed.dropDuplicates(["user", "slot", "ts"])
        rows = distinct.mapInPandas(lambda frames: frames, "user string, ts timestamp, slot int").withColumnRenamed(
            "slot", "place"
        )
        counts = rows.groupBy("user", "place").count()
        return counts.writeStream.outputMode("update").foreachBatch(
            lambda batch, number: batch.write.mode("overwrite").parquet(f"{visits.output}/batch={number}")
        )

    visits.add(300)
    query = visits.run(build, mapping=by_hash(), controller=False)
    with pytest.raises(ImmovableState, match=r"2 operators .* group by the slot, and the state of 1 says so.* Call it 'slot'"):
        query.change_mapping(turned(by_hash()))
    visits.add(300)
    assert len(visits.run(build, controller=False).versions) == 1
    assert visits.written("user") == visits.expected("user")


@pytest.mark.usefixtures("rocksdb")
def test_a_slot_that_a_function_gives_which_may_have_kept_it_keeps_its_mapping(visits):
    """Its state is not by the slot, so it stays: what it gives later has the slot of an earlier mapping, and another group."""

    def last_of_before(key, frames, state):  # noqa: ARG001
        rows = pd.concat(frames)
        if state.exists:
            yield pd.DataFrame([state.get], columns=["user", "slot"])
        state.update((str(rows["user"].iloc[-1]), int(rows["slot"].iloc[-1])))

    def build(placed):
        minutes = placed.withColumn("minute", F.minute("ts")).groupBy("minute")
        given = minutes.applyInPandasWithState(last_of_before, KEPT, KEPT, "append", "NoTimeout")
        return given.dropDuplicates(["user", "slot"]).writeStream.format("noop")

    visits.add(100)
    query = visits.run(build, mapping=by_hash(), controller=False)
    with pytest.raises(ImmovableState, match=r"slot by which .* comes out of .*State, which is grouped by \(minute\)"):
        query.change_mapping(turned(by_hash()))


def test_a_side_that_was_placed_before_has_to_be_under_the_mapping_of_the_query_and_keeps_it(spark, visits):
    """Under another one rows of a key miss each other, and nothing told so: now and after a change."""
    visits.add(300)
    homes = spark.createDataFrame([(f"u{one}", one) for one in range(200)], "user string, home int")

    def started(side, *keys, **options):
        side = evenly.by_key(homes, key="user", instances=INSTANCES, mapping=side)
        build = visits.counts(*keys)
        return visits.run(lambda placed: build(placed.join(side, ["user", "slot"])), mapping=by_hash(), **options)

    other = turned(by_hash())
    with pytest.raises(InvalidParameter, match=r"slot = slot, which was placed by another mapping than version 1.*learn_map"):
        started(other, "user")
    with pytest.raises(InvalidParameter, match="slot is that of a window and a key"):
        started(by_hash(), "window", "user", rows=visits.windows(), window="window")
    # What it was learnt from, and its version, put no key elsewhere.
    query = started(replace(by_hash(), version=7), "user", controller=False)
    expected = {user: count for user, count in visits.expected("user").items() if user != (None,)}
    assert visits.written("user") == expected
    with pytest.raises(ImmovableState, match="placed once and do not follow"):
        query.change_mapping(other)


def test_other_rows_that_were_placed_by_themselves_are_seen_too(spark, visits):
    visits.add(100)
    spark.conf.set("spark.sql.shuffle.partitions", INSTANCES)
    try:
        placed = visits.stream().transform(evenly.by_key, key="user", instances=INSTANCES, mapping=turned(by_hash()))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 8)
    for build in (
        lambda rows: visits.counts("user")(rows.union(placed)),
        lambda rows: rows.join(placed, ["user", "slot"]).writeStream.format("noop"),
    ):
        with pytest.raises(InvalidParameter, match="another mapping than version 1"):
            visits.run(build, mapping=by_hash())


def test_rows_that_a_query_has_written_with_their_slot_meet_those_of_none(spark, visits):
    """Its mapping may have changed since, in the midst of them: keys of before and after would be under two slots."""
    visits.add(100)

    def distinct(placed):
        return placed.dropDuplicates(["user", "slot"]).writeStream.format("parquet").option("path", visits.output)

    visits.run(distinct, mapping=by_hash(), controller=False)
    written = spark.read.parquet(visits.output).select("user", "slot")
    again = spark.readStream.schema(written.schema).parquet(visits.output)
    checkpoint = f"{visits.checkpoint}-2"
    for build, told in (
        (
            lambda placed: placed.join(written, ["user", "slot"]).writeStream.format("noop"),
            "has written.*drop slot, then by_key",
        ),
        (lambda placed: placed.join(written, ["user", "slot"], "left_semi").writeStream.format("noop"), "has written"),
        (lambda placed: distinct(placed.select("user", "slot").union(again)), "nothing in it uses|groups by .*user, slot"),
        (lambda placed: distinct(again.union(placed.select("user", "slot"))), "nothing in it uses|groups by .*user, slot"),
    ):
        with pytest.raises(InvalidParameter, match=told):
            visits.run(build, mapping=by_hash(), checkpoint=checkpoint)
    anew = evenly.by_key(written.drop("slot"), key="user", instances=INSTANCES, mapping=by_hash())
    visits.run(
        lambda placed: placed.join(anew, ["user", "slot"]).writeStream.format("noop"), mapping=by_hash(), checkpoint=checkpoint
    )


def test_a_key_that_is_computed_within_a_grouping_or_join_by_the_slot_is_refused(spark, visits):
    """Also without state, where groups of one batch, or rows and a static side, would miss each other."""
    homes = spark.createDataFrame([("U1", 1)], "user string, home int")
    homes = homes.transform(evenly.by_key, key="user", instances=INSTANCES, mapping=by_hash())
    homes = homes.select(F.col("user").alias("who"), F.col("slot").alias("place"), "home")
    for build, told in (
        (lambda rows: rows.groupBy(F.upper("user"), "slot").count(), r"groups by \(upper\(user\), slot\)"),
        (lambda rows: rows.withColumn("user", F.upper("user")).dropDuplicates(["user", "slot"]), r"groups by \(user, slot\)"),
        (
            lambda rows: rows.select(F.struct("*").alias("s")).groupBy("s.user", "s.slot").count(),
            r"by \(s\.`?user`?, s\.`?slot`?\)",
        ),
        (
            lambda rows: rows.groupBy(F.upper("user"), "slot").applyInPandas(lambda frame: frame[["user"]], "user string"),
            r"by \(upper\(user\), slot\), and upper\(user\) was computed anew.*stream_by_key",
        ),
        (
            lambda rows: rows.join(homes, (F.upper("user") == F.upper("who")) & (rows.slot == homes.place)),
            r"by \(upper\(user\), slot\), and upper\(user\) was computed anew",
        ),
    ):
        with pytest.raises(InvalidParameter, match=told):
            visits.run(lambda rows, build=build: build(rows).writeStream.format("noop"), mapping=by_hash())
    assert not Path(visits.checkpoint, "commits").exists()
