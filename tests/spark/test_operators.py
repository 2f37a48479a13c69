"""Every keyed operator on rows that `by_key` placed: Spark's own results, no second shuffle, each key on its instance."""

import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Window
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidParameter
from evenly.measures import imbalance_pct, instance_loads
from evenly.spark.keyed.keys import key_id
from evenly.streams import zipf

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

INSTANCES = 8


@pytest.fixture(scope="module")
def visits(spark):
    keys = zipf(0.9, 300).draw(5_000, seed=6)
    rows = [(f"user {key}" if key % 17 != 5 else None, index % 1_000) for index, key in enumerate(keys.tolist())]
    return spark.createDataFrame(rows, "user string, amount bigint").persist()


@pytest.fixture(scope="module")
def homes(spark, visits):
    """Half of the users, a few strangers, and one user without a name."""
    users = sorted(row.user for row in visits.select("user").distinct().collect() if row.user)
    rows = [(user, len(user or "")) for user in [*users[::2], "stranger", None]]
    return spark.createDataFrame(rows, "user string, home int").persist()


@pytest.fixture(scope="module")
def mapping(visits):
    return evenly.learn_mapping(visits, key="user", instances=INSTANCES)


@pytest.fixture(params=["adaptive", "not adaptive"])
def adaptive(request, spark):
    spark.conf.set("spark.sql.adaptive.enabled", str(request.param == "adaptive").lower())
    yield
    spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.fixture
def no_broadcast(spark):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def place(df, mapping, **options):
    return df.transform(evenly.by_key, key="user", instances=INSTANCES, mapping=mapping, **options)


def rows_of(df):
    return sorted((tuple(row) for row in df.collect()), key=repr)


def shuffles(df):
    """The shuffles of the plan that was executed, without those of cached inputs."""
    plan = df._jdf.queryExecution().executedPlan().toString()
    executed = re.split(r"^\+- == Initial Plan ==", plan, flags=re.MULTILINE)[0]  # subqueries have one of their own
    tree = "\n".join(line for line in executed.splitlines() if "InMemoryRelation" not in line)
    return len(re.findall(r"\bExchange ", tree))


def assert_same(ours, theirs, *, columns, mapping, shuffled=1):
    """Equal to the last row, shuffled so often, and every key where the mapping wants it. `ours` has the column `at`."""
    executed = ours.select(*columns, "at", key_id(("user",)).alias("id"))
    collected = executed.collect()
    assert sorted((tuple(row)[: len(columns)] for row in collected), key=repr) == rows_of(theirs.select(*columns))
    assert collected
    assert shuffles(executed) == shuffled
    ids = np.array([row.id for row in collected], np.int64).view(np.uint64)
    assert mapping.assign_ids(ids).tolist() == [row.at for row in collected]


def at_partition(df):
    return df.withColumn("at", F.spark_partition_id())


def test_instances_get_about_equal_numbers_of_rows_where_hashing_does_not(visits, mapping):
    def imbalance(df):
        at = np.array([row.at for row in df.select(F.spark_partition_id().alias("at")).collect()], np.int32)
        return imbalance_pct(instance_loads(at, INSTANCES))

    assert imbalance(place(visits, mapping)) < 3.0
    assert imbalance(place(visits, mapping, slot=None)) < 3.0
    assert imbalance(visits.repartition(INSTANCES, "user")) > 20.0


@pytest.mark.usefixtures("adaptive")
def test_aggregates(visits, mapping):
    all_amounts = F.array_sort(F.collect_list("amount")).alias("amounts")
    ours = place(visits, mapping).groupBy("user", "slot").agg(all_amounts, F.sum("amount").alias("total"))
    theirs = visits.groupBy("user").agg(all_amounts, F.sum("amount").alias("total"))
    assert_same(at_partition(ours), theirs, columns=["user", "amounts", "total"], mapping=mapping)


def totals(group: pd.DataFrame) -> pd.DataFrame:
    from pyspark import TaskContext

    at = TaskContext.get().partitionId()
    return pd.DataFrame({"user": [group["user"].iloc[0]], "total": [group["amount"].sum()], "at": [at]})


def totals_of_table(group: pa.Table) -> pa.Table:
    from pyspark import TaskContext

    at = pa.array([TaskContext.get().partitionId()], pa.int32())
    return pa.table({"user": group["user"][:1], "total": pa.array([sum(group["amount"].to_pylist())], pa.int64()), "at": at})


@pytest.mark.usefixtures("adaptive")
def test_apply_in_pandas(visits, mapping):
    schema = "user string, total bigint, at int"
    ours = place(visits, mapping).groupBy("user", "slot").applyInPandas(totals, schema)
    theirs = visits.groupBy("user").agg(F.sum("amount").alias("total"))
    assert_same(ours, theirs, columns=["user", "total"], mapping=mapping)


def test_apply_in_arrow(visits, mapping):
    schema = "user string, total bigint, at int"
    ours = place(visits, mapping).groupBy("user", "slot").applyInArrow(totals_of_table, schema)
    theirs = visits.groupBy("user").agg(F.sum("amount").alias("total"))
    assert_same(ours, theirs, columns=["user", "total"], mapping=mapping)


def both(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    from pyspark import TaskContext

    user = (left if len(left) else right)["user"].iloc[0]
    told = {"user": [user], "visits": [len(left)], "homes": [len(right)], "at": [TaskContext.get().partitionId()]}
    return pd.DataFrame(told)


@pytest.mark.usefixtures("adaptive")
def test_cogrouped_map_of_two_sides_under_one_mapping(visits, homes, mapping):
    schema = "user string, visits bigint, homes bigint, at int"
    left, right = place(visits, mapping).groupBy("user", "slot"), place(homes, mapping).groupBy("user", "slot")
    ours = left.cogroup(right).applyInPandas(both, schema)
    theirs = visits.groupBy("user").cogroup(homes.groupBy("user")).applyInPandas(both, schema)
    assert_same(ours, theirs, columns=["user", "visits", "homes"], mapping=mapping, shuffled=2)


@pytest.mark.usefixtures("adaptive")
def test_window_functions(visits, mapping):
    ranked = F.rank().over(Window.partitionBy("user", "slot").orderBy("amount"))
    running = F.sum("amount").over(Window.partitionBy("user", "slot").orderBy("amount"))
    ours = place(visits, mapping).withColumns({"rank": ranked, "running": running})
    plain = Window.partitionBy("user").orderBy("amount")
    theirs = visits.withColumns({"rank": F.rank().over(plain), "running": F.sum("amount").over(plain)})
    assert_same(at_partition(ours), theirs, columns=["user", "amount", "rank", "running"], mapping=mapping)


@pytest.mark.usefixtures("adaptive", "no_broadcast")
@pytest.mark.parametrize("how", ["inner", "left", "left_semi", "left_anti"])
def test_joins_of_two_sides_under_one_mapping(spark, visits, homes, mapping, how):
    ours = place(visits, mapping).join(place(homes, mapping), ["user", "slot"], how)
    theirs = visits.join(homes, ["user"], how)
    columns = [name for name in theirs.columns if name != "slot"]
    # Spark puts a semi or anti join before the shuffle of by_key; that one is enough it only sees without adaptive execution.
    once_more = how in {"left_semi", "left_anti"} and spark.conf.get("spark.sql.adaptive.enabled") == "true"
    assert_same(at_partition(ours), theirs, columns=columns, mapping=mapping, shuffled=3 if once_more else 2)


@pytest.mark.usefixtures("no_broadcast")
def test_a_join_of_three_sides_shuffles_each_once(visits, homes, mapping):
    more = homes.withColumn("room", F.col("home") * 2).drop("home")
    ours = place(visits, mapping).join(place(homes, mapping), ["user", "slot"]).join(place(more, mapping), ["user", "slot"])
    theirs = visits.join(homes, ["user"]).join(more, ["user"])
    assert_same(at_partition(ours), theirs, columns=["user", "amount", "home", "room"], mapping=mapping, shuffled=3)


def test_a_side_whose_keys_are_of_another_type_is_refused_and_can_be_cast(spark):
    orders = spark.range(500).select((F.col("id") % 40).alias("user"), F.col("id").alias("amount"))
    users = spark.range(40).select(F.col("id").cast("int").alias("user"), F.lit(1).alias("home"))
    learnt = evenly.learn_mapping(orders, key="user", instances=INSTANCES)
    with pytest.raises(InvalidParameter, match=r"is int, and the mapping is for bigint.*cast"):
        place(users, learnt)
    again = evenly.Mapping.from_json(learnt.to_json())
    cast = users.withColumn("user", F.col("user").cast("bigint"))
    ours = place(orders, again).join(place(cast, again), ["user", "slot"])
    assert rows_of(ours.select("user", "amount", "home")) == rows_of(orders.join(users, ["user"]))


@pytest.mark.usefixtures("adaptive")
def test_sort_within_instances(visits, mapping):
    ours = place(visits, mapping, slot=None).sortWithinPartitions("user", F.desc("amount"))
    assert_same(at_partition(ours), visits, columns=["user", "amount"], mapping=mapping)
    rows = ours.select("user", "amount", F.spark_partition_id().alias("at"))
    per_instance = {at: [] for at in range(INSTANCES)}
    for row in rows.collect():
        per_instance[row.at].append((row.user is not None, row.user or "", -row.amount))
    assert all(found == sorted(found) for found in per_instance.values())


@pytest.mark.usefixtures("adaptive")
def test_partitioned_files_are_one_a_key_and_written_by_its_instance(spark, visits, mapping, tmp_path):
    few = visits.where("user < 'user 11'")
    place(few, mapping, slot=None).write.partitionBy("user").parquet(str(tmp_path / "out"))
    files = list((tmp_path / "out").glob("user=*/*.parquet"))
    users = [file.parent.name.removeprefix("user=").replace("%20", " ") for file in files]
    assert len(set(users)) == len(users) == few.select("user").distinct().count()
    written_by = [int(file.name.split("-")[1]) for file in files]
    assert mapping.assign(users).tolist() == written_by
    assert rows_of(spark.read.parquet(str(tmp_path / "out")).select("user", "amount")) == rows_of(few)


KEYS = {
    "string": "concat('é ', n)",
    "int": "cast(n as int)",
    "bigint": "(n - 50) * 1000000000000000",
    "decimal": "cast(n / 4 as decimal(10,2))",
    "wide decimal": "cast(n * 100000000000000000000BD as decimal(38,3))",
    "date": "date_add(date'2020-01-01', cast(n as int))",
    "timestamp": "timestamp_seconds(n * 86401)",
    "binary": "cast(concat('b', n) as binary)",
    "boolean": "n % 2 = 0",
    "struct": "named_struct('a', n, 'b', concat('x', n))",
}


@pytest.mark.parametrize("kind", [*KEYS, "several columns"])
def test_keys_of_every_type_group_as_spark_groups_them_on_their_instances(spark, kind):
    value = KEYS.get(kind, KEYS["string"])
    df = spark.range(800).selectExpr("id", "floor(sqrt(id)) * 7 as n").selectExpr(f"if(n % 11 = 0, null, {value}) as key", "id")
    df = df.withColumn("other", (F.col("id") % 3 if kind == "several columns" else F.lit(0)).cast("int"))
    names = ["key", "other"] if kind == "several columns" else ["key"]
    learnt = evenly.learn_mapping(df, key=names, instances=5)
    placed = df.transform(evenly.by_key, key=names, instances=5, mapping=learnt)
    grouped = placed.groupBy(*names, "slot").agg(F.count("*").alias("n"), F.array_sort(F.collect_list("id")).alias("ids"))
    ours = grouped.select(*names, "n", "ids", key_id(tuple(names)).alias("id"), F.spark_partition_id().alias("at"))
    theirs = df.groupBy(*names).agg(F.count("*").alias("n"), F.array_sort(F.collect_list("id")).alias("ids"))
    collected = ours.collect()
    assert sorted((tuple(row)[:-2] for row in collected), key=repr) == rows_of(theirs)
    assert shuffles(ours) == 1
    ids = np.array([row.id for row in collected], np.int64).view(np.uint64)
    assert learnt.assign_ids(ids).tolist() == [row.at for row in collected]
    assert any(row.key is None for row in collected)
