"""A Spark that hashes in another way than `murmur3.py` says is noticed before rows are placed."""

import logging
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.costs.model import CostModel
from evenly.errors import UnsupportedSpark
from evenly.spark.costs.routing import route
from evenly.spark.costs.row_ids import with_id
from evenly.spark.features import Found
from evenly.spark.placing import canary, murmur3
from evenly.worker.routing import Routing

INSTANCES = 4


@pytest.fixture(scope="module")
def visits(spark):
    user = F.concat(F.lit("user "), F.floor(F.sqrt(F.col("id") % 900)))
    return spark.range(1_000).select(F.when(F.col("id") % 50 != 7, user).alias("user"), F.col("id").alias("amount")).persist()


@pytest.fixture(scope="module")
def mapping(visits):
    return evenly.learn_mapping(visits, key="user", instances=INSTANCES)


@pytest.fixture
def unasked(monkeypatch):
    monkeypatch.setattr(canary, "_wrong", WeakKeyDictionary())


@pytest.fixture
def other_hash(monkeypatch):
    """As if Spark hashed in another way: what `murmur3.py` says is off."""
    monkeypatch.setattr(canary, "_wrong", WeakKeyDictionary())
    right = murmur3.partition_constants
    monkeypatch.setattr(murmur3, "partition_constants", lambda partitions: right(partitions) + 1)


@pytest.fixture
def before_repartition_by_id(monkeypatch):
    monkeypatch.setattr(Found, "of", classmethod(lambda cls, _: cls("4.0.2")))


def places(df):
    return {(row.user, row.at) for row in df.select("user", F.spark_partition_id().alias("at")).collect()}


def counts(df):
    return sorted(map(tuple, df.collect()), key=repr)


def place(df, mapping, **options):
    return evenly.by_key(df, key="user", instances=INSTANCES, mapping=mapping, **options)


def as_mapped(df, mapping):
    found = places(df)
    return mapping.assign([user for user, _ in found]).tolist() == [at for _, at in found]


@pytest.mark.usefixtures("unasked")
def test_spark_is_asked_without_a_job(spark):
    context = spark.sparkContext
    context.setJobGroup("canary", "what the check runs")
    try:
        assert canary.slots_lead(spark, by="the test")
        assert list(context.statusTracker().getJobIdsForGroup("canary")) == []
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


@pytest.mark.usefixtures("unasked")
def test_an_application_is_asked_once_however_many_threads_and_sessions_begin(spark, monkeypatch):
    asked = []
    monkeypatch.setattr(canary, "_hashes", lambda session: asked.append(session) or list(range(len(canary.KEYS))))
    sessions = [spark, spark.newSession()] * 8
    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(lambda session: canary.slots_lead(session, by="the test"), sessions))
    assert len(asked) == 1


def test_each_kind_of_key_is_told_that_hashes_in_another_way():
    hashes = list(range(len(canary.KEYS)))
    assert canary.disagreeing(hashes) == ()
    hashes[list(canary.KEYS).index("string")] += 1
    assert canary.disagreeing(hashes) == ("string",)


@pytest.mark.usefixtures("other_hash")
def test_a_batch_is_placed_by_sparks_hash_with_a_warning(visits, mapping, caplog):
    placed = place(visits, mapping)
    expected = (
        f"by_key: Spark {visits.sparkSession.version} hashes keys of {', '.join(canary.KEYS)} in another way than this release "
        "of Evenly expects. Rows are placed by Spark's hash of the key alone, as uneven as that is"
    )
    assert caplog.record_tuples == [("evenly.spark.placing.canary", logging.WARNING, expected)]
    assert placed.dtypes == [*visits.dtypes, ("slot", "int")]
    assert places(placed) == places(visits.repartition(INSTANCES, "user"))
    grouped = placed.groupBy("user", "slot").agg(F.collect_set("amount").alias("amounts"))
    assert counts(grouped.select("user", F.size("amounts"))) == counts(visits.groupBy("user").count())
    assert grouped._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0].count("Exchange ") == 1


@pytest.mark.usefixtures("other_hash")
def test_what_is_placed_by_number_needs_no_hash(visits, mapping, caplog):
    assert as_mapped(place(visits, mapping, slot=None), mapping)
    assert not caplog.records


@pytest.mark.usefixtures("other_hash")
def test_streams_are_refused(spark, visits, mapping, tmp_path):
    visits.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(visits.schema).parquet(str(tmp_path / "in"))
    with pytest.raises(UnsupportedSpark, match=r"^by_key of a stream: Spark .* hashes keys of int, bigint, .* group by"):
        place(stream, mapping)
    with pytest.raises(UnsupportedSpark, match=r"^stream_by_key: Spark .* hashes keys of"):
        evenly.stream_by_key(
            stream, lambda placed: placed.writeStream, key="user", instances=INSTANCES, checkpoint=tmp_path / "checkpoint"
        )
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.usefixtures("before_repartition_by_id")
def test_before_spark_has_repartition_by_id_a_slot_of_our_own_leads_there(visits, mapping):
    assert as_mapped(place(visits, mapping, slot=None), mapping)


@pytest.mark.usefixtures("before_repartition_by_id", "other_hash")
def test_and_sparks_hash_does_where_that_slot_would_not(visits, mapping, caplog):
    placed = place(visits, mapping, slot=None)
    assert placed.columns == visits.columns
    assert places(placed) == places(visits.repartition(INSTANCES, "user"))
    assert len(caplog.records) == 1


@pytest.mark.usefixtures("before_repartition_by_id")
def test_splitting_keys_names_the_spark_that_it_needs(visits, mapping):
    with pytest.raises(UnsupportedSpark, match=r"repartitionById, which Spark 4\.1 or later has; this is Spark 4\.0\.2"):
        evenly.split_by_key(visits, key="user", instances=INSTANCES, mapping=mapping)


@pytest.mark.usefixtures("before_repartition_by_id", "other_hash")
def test_rows_dealt_by_cost_are_then_dealt_evenly(visits, caplog):
    routing = Routing(CostModel(("user",)).table, np.full(INSTANCES, 1 / INSTANCES), "longest-first")
    dealt = route(with_id(visits, ("user",), order="content"), routing, routers=1)
    assert evenly.placed_rows(dealt, instances=INSTANCES).rows == (250,) * INSTANCES
    assert [record.message.split(":")[0] for record in caplog.records] == ["rows dealt by cost"]
