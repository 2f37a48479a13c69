"""What `explain` says of plans: every kind of shuffle, whose it is, and slots that were forgotten."""

import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidParameter, StreamingMismatch


@pytest.fixture
def rows(spark):
    return spark.range(40).selectExpr("id % 5 as user", "id as v", "cast(id % 3 as int) as at")


@pytest.fixture
def told(rows):
    def tell(df):
        found = evenly.explain(df)
        return [(it.kind, it.by, it.partitions, it.ours, it.reader) for it in found.shuffles]

    assert str(evenly.explain(rows)) == "no shuffle: instances have what the input's partitions have"
    return tell


def test_every_kind_of_shuffle_is_told(spark, rows, told):
    assert told(rows.groupBy("user").agg(F.collect_list("v"))) == [("hash", ("user",), 8, False, "ObjectHashAggregate")]
    assert told(rows.repartition(3)) == [("round robin", (), 3, False, None)]
    assert told(rows.repartition(3, "user")) == [("hash", ("user",), 3, False, None)]
    assert told(rows.repartitionById(3, "at")) == [("id", ("at",), 3, False, None)]
    assert told(rows.orderBy("user")) == [("range", ("user",), 8, False, None)]
    assert told(rows.agg(F.collect_list("v"))) == [("single", (), 1, False, "ObjectHashAggregate")]
    small = spark.range(3).selectExpr("id as user", "id as w")
    assert told(rows.join(F.broadcast(small), "user")) == [("copy", (), None, False, "BroadcastHashJoin")]
    joined = rows.hint("merge").join(small, "user")
    assert told(joined) == [("hash", ("user",), 8, False, "SortMergeJoin")]
    words = str(evenly.explain(rows.groupBy("user").agg(F.collect_list("v"))))
    assert words.startswith(
        "1. by Spark's hash of (user), to 8 partitions, of which adaptive execution may merge small ones, for "
    )
    assert "as the job asks: as many rows on each" in str(evenly.explain(rows.repartition(3)))
    assert "1. all rows together, for ObjectHashAggregate: one instance has" in str(
        evenly.explain(rows.agg(F.collect_list("v")))
    )


def test_evenly_s_own_placement_and_what_undoes_it_are_told(rows, told):
    placed = evenly.by_key(rows, key="user", instances=4)
    own = ("slot", ("user", "slot"), 4, True)
    good = placed.groupBy("user", "slot").agg(F.collect_list("v"))
    assert told(good) == [(*own, "ObjectHashAggregate")]
    assert evenly.explain(good).again == ()
    assert evenly.explain(good).placed
    forgotten = evenly.explain(placed.groupBy("user").agg(F.collect_list("v")))
    assert [it.ours for it in forgotten.shuffles] == [True, False]
    assert len(forgotten.again) == 1
    assert "forgotten slot: rows that were placed by (user, slot) are shuffled again by (user)" in str(forgotten)
    assert "placed by Evenly: about as many rows on each" in str(forgotten)
    assert "forgotten slot 1" in forgotten._repr_html_()
    by_number = evenly.by_key(rows, key="user", instances=4, slot=None)
    assert told(by_number) == [("id", (), 4, True, None)]
    assert "1. by the number of its instance, to 4 partitions, placed by Evenly" in str(evenly.explain(by_number))
    cached = placed.persist()
    assert told(cached.where("v < 3")) == [(*own, None)]
    cached.unpersist()


def test_pieces_are_not_said_to_be_alike(rows):
    by_time = evenly.apply_by_key(
        rows, lambda group: group[["v"]], "v long", key="user", instances=2, balance="time", watch=evenly.TimeWatch()
    )
    by_cost = evenly.apply_by_cost(rows, lambda row: row["v"], "v long", instances=2, pieces=True)
    for result in (by_time, by_cost):
        (shuffle,) = evenly.explain(result).shuffles
        assert (shuffle.ours, shuffle.pieces, shuffle.partitions) == (True, True, 10)
        assert str(shuffle).startswith("by the number of its piece, to 10 partitions, placed by Evenly: from large pieces to")
    whole = evenly.explain(evenly.apply_by_key(rows, lambda group: group[["v"]], "v long", key="user", instances=2))
    assert [it.pieces for it in whole.shuffles] == [False]


def test_slots_that_are_shuffled_to_another_number_of_partitions_are_told(spark, rows):
    """Eight partitions in these tests, and slots for four: each leads anywhere."""
    placed = evenly.by_key(rows, key="user", instances=4)
    lists = F.collect_list("v")
    for between in (
        placed.mapInPandas(lambda batches: batches, placed.schema),
        placed.repartition(3),
        placed.localCheckpoint(),
    ):
        again = between.groupBy("user", "slot").agg(lists)
        [found] = evenly.check_placement(again)
        assert (found.by, found.partitions, found.instances) == (("user", "slot"), 8, 4)
        assert "spark.conf.set('spark.sql.shuffle.partitions', 4)" in str(found)
        assert "as even as by Spark's hash, for the slots lead to 4 partitions" in str(evenly.explain(again))
        spark.conf.set("spark.sql.shuffle.partitions", "4")
        try:
            assert evenly.check_placement(between.groupBy("user", "slot").agg(lists)) == ()
        finally:
            spark.conf.set("spark.sql.shuffle.partitions", "8")
    cached = placed.cache()
    assert evenly.check_placement(cached.groupBy("user", "slot").agg(lists)) == ()  # not yet filled: Spark may know better then
    cached.unpersist()


def test_a_finer_question_than_key_and_slot_is_no_forgotten_slot(rows):
    placed = evenly.by_key(rows, key="user", instances=8)
    for finer in (
        placed.groupBy("user", "slot").agg(F.countDistinct("v"), F.countDistinct("at")),
        placed.cube("user", "slot").count(),
    ):
        assert evenly.check_placement(finer) == ()


def test_queries_inside_are_looked_into(spark, rows):
    evenly.by_key(rows, key="user", instances=4).createOrReplaceTempView("placed_inside")
    inside = "select collect_list(v) as them from placed_inside group by user"
    found = evenly.explain(spark.sql(f"select id, (select max(size(them)) from ({inside})) as most from range(3)"))
    assert found.placed
    assert len(found.again) == 1


def test_a_join_by_slots_of_two_mappings_is_told(spark, rows, caplog):
    placed = {"key": "user", "instances": 4, "slot": "place"}  # a name of its own: a session is told each finding once
    mapping = evenly.learn_mapping(rows, key="user", instances=4)
    other = spark.range(30).selectExpr("id % 4 as user", "id as w")
    left = evenly.by_key(rows, **placed, mapping=mapping)
    right = evenly.by_key(other, **placed, mapping=mapping)
    assert evenly.explain(left.join(right, ["user", "place"])).apart == ()
    wrong = left.join(evenly.by_key(other, **placed), ["user", "place"])
    found = evenly.explain(wrong)
    assert len(found.apart) == 1
    assert "wrong: a join or cogroup by place = place misses rows" in str(found)
    assert "wrong 1" in found._repr_html_()
    wrong.count()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(10_000)
    assert [it.levelname for it in caplog.records if "misses rows" in it.getMessage()] == ["ERROR"]
    assert evenly.check_placement(left.join(right, ["user", "place"])) == ()
    assert [str(it) for it in evenly.check_placement(wrong)] == list(found.apart)
    groups = [it.groupBy("user", "place") for it in (left, right, evenly.by_key(other, **placed))]
    cogrouped = [groups[0].cogroup(it).applyInPandas(lambda one, _: one, left.schema) for it in groups[1:]]
    assert [len(evenly.check_placement(it)) for it in cogrouped] == [0, 1]


def test_what_it_cannot_explain_is_refused(spark):
    with pytest.raises(InvalidParameter, match="DataFrame"):
        evenly.explain("rows")
    with pytest.raises(StreamingMismatch, match="check_placement"):
        evenly.explain(spark.readStream.format("rate").load())
