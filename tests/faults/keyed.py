"""Keyed operations in batch. A group is told by its least row, its number of rows and the sum of its values."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

import evenly
from faults.inputs import key_names, quoted
from faults.moments import Moments
from faults.work import Rows, Work, listed

GROUP = "first long, n long, total long"


def groups(work: Work) -> Rows:
    """What plain Spark finds: the groups of the key."""
    return listed(work.plain().groupBy(*work.cols).agg(F.min("row"), F.count("*"), F.sum("v")))


def told(moments: Moments) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def group(rows: pd.DataFrame) -> pd.DataFrame:
        moments.call("work")
        return pd.DataFrame({"first": [rows["row"].min()], "n": [len(rows)], "total": [rows["v"].sum()]})

    return group


def _placed(work: Work, rows: DataFrame | None = None, **options: object) -> DataFrame:
    return evenly.by_key(work.rows() if rows is None else rows, key=work.key, instances=work.instances, **options)


def _summed(work: Work, placed: DataFrame) -> Rows:
    found = placed.groupBy(*work.cols, "slot").agg(
        F.min("row").alias("first"), F.count("*").alias("n"), F.sum("v").alias("total")
    )
    return listed(work.counting(found.select("first", "n", "total"), "work"))


def only_groups(rows: Rows) -> Rows:
    """The three figures of a group, which stand last."""
    return [tuple(row[-3:]) for row in rows]


def group_pandas(work: Work) -> Rows:
    return listed(_placed(work).groupBy(*work.cols, "slot").applyInPandas(told(work.moments), GROUP))


def group_native(work: Work) -> Rows:
    return _summed(work, _placed(work))


def saved_mapping(work: Work) -> Rows:
    rows, path = work.rows(), work.folder / "mapping.json"
    evenly.learn_mapping(rows, key=work.key, instances=work.instances).save(path)
    return _summed(work, _placed(work, rows, mapping=evenly.Mapping.load(path)))


def remembered(work: Work) -> Rows:
    """The first call learns and writes its mapping down, the second is placed by what it finds."""
    folder = str(work.folder / "memory")
    _placed(work, work.plain(), remember=folder).write.format("noop").mode("overwrite").save()
    return _summed(work, _placed(work, remember=folder))


def ranks(work: Work) -> Rows:
    over = Window.partitionBy(*work.cols).orderBy("row")
    return listed(work.plain().select("row", F.row_number().over(over)))


def window(work: Work) -> Rows:
    over = Window.partitionBy(*work.cols, "slot").orderBy("row")
    ranked = _placed(work).select("row", F.row_number().over(over).alias("rank"))
    return listed(work.counting(ranked, "work"))


def _others(work: Work) -> DataFrame:
    """The right side of a join: a row for each key whose number is even, and as many of keys that the left does not have."""
    names = [F.col(quoted(name)) for name in key_names(work.schedule.shape)]
    return work.plain().where("g % 2 = 0").groupBy(*names).agg(F.max("row").alias("other"))


def _joined(work: Work, left: DataFrame, right: DataFrame, names: list[str]) -> DataFrame:
    on = functools.reduce(operator.and_, (left[quoted(name)] == right[quoted(name)] for name in names))
    return left.join(right, on, "left" if work.schedule.options.left else "inner").select("row", "other")


def pairs(work: Work) -> Rows:
    return listed(_joined(work, work.plain(), _others(work), list(key_names(work.schedule.shape))))


def join(work: Work) -> Rows:
    rows = work.rows()
    mapping = evenly.learn_mapping(rows, key=work.key, instances=work.instances)
    left, right = _placed(work, rows, mapping=mapping), _placed(work, _others(work), mapping=mapping)
    return listed(work.counting(_joined(work, left, right, [*key_names(work.schedule.shape), "slot"]), "work"))


def _several(work: Work) -> DataFrame:
    """The right side of a join with hot keys: two rows for each key of an even number, and some of keys without rows."""
    copies = F.explode(F.array(F.lit(0), F.lit(1)))
    return _others(work).withColumn("copy", copies).select("*", (F.col("other") * 2 + F.col("copy")).alias("both")).drop("copy")


_ONLY_LEFT = ("semi", "anti")


def _of_join(work: Work, joined: DataFrame) -> DataFrame:
    return joined.select("row") if work.schedule.options.how in _ONLY_LEFT else joined.select("row", "both")


def hot_pairs(work: Work) -> Rows:
    joined = work.plain().join(_several(work), list(key_names(work.schedule.shape)), work.schedule.options.how)
    return listed(_of_join(work, joined))


def hot_join(work: Work) -> Rows:
    """Never broadcast, or there would be nothing to place."""
    how, spark = work.schedule.options.how, work.spark
    spread_on = {"right": ["both"], "full": None}.get(how, ["row"]) if work.schedule.options.spread_on_row else None
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        joined = evenly.join_by_key(
            work.rows(),
            _several(work),
            on=work.key,
            how=how,
            instances=work.instances,
            split="left" if how == "inner" else None,
            spread_on=spread_on,
        )
        return listed(work.counting(_of_join(work, joined), "work"))
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)


def written_rows(work: Work) -> Rows:
    return listed(work.plain().select("row", "g", "v"))


def write(work: Work) -> Rows:
    """Into a folder for each key, read back. A driver that is started anew writes over what was there."""
    rows, path = work.rows(), str(work.folder / "written")
    mapping = evenly.learn_mapping(work.plain(), key=work.key, instances=work.instances)
    spread_on = ["row"] if work.schedule.options.spread_on_row else None
    writer = evenly.write_by_key(
        rows, key=work.key, instances=work.instances, rows_per_file=40, mapping=mapping, spread_on=spread_on
    )
    writer.mode("overwrite").parquet(path)
    return listed(work.spark.read.schema("row long, g int, v long").parquet(path).select("row", "g", "v"))


def matches(work: Work) -> Rows:
    with_other = {row[-1] for row in listed(work.plain().where("g % 2 = 0").select("g").distinct())}
    found = work.plain().groupBy(*work.cols).agg(F.max("g").alias("g"), F.min("row").alias("first"), F.count("*").alias("n"))
    return [(first, n, int(g in with_other)) for g, first, n in listed(found.select("g", "first", "n"))]


def cogroup(work: Work) -> Rows:
    rows, moments = work.rows(), work.moments
    mapping = evenly.learn_mapping(rows, key=work.key, instances=work.instances)
    left, right = _placed(work, rows, mapping=mapping), _placed(work, _others(work), mapping=mapping)

    def match(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
        moments.call("work")
        return pd.DataFrame({"first": [ours["row"].min()], "n": [len(ours)], "other": [len(theirs)]})

    both = left.groupBy(*work.cols, "slot").cogroup(right.groupBy(*work.cols, "slot"))
    return listed(both.applyInPandas(match, "first long, n long, other long"))


def place(work: Work) -> Rows:
    """A key that is on two instances gives two rows."""
    moments = work.moments

    def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = []
        for batch in batches:
            moments.call("work")
            kept.append(batch.select(["g", "row", "v"]))
        if kept:
            found = pa.Table.from_batches(kept).group_by("g").aggregate([("row", "min"), ("row", "count"), ("v", "sum")])
            columns = [found["row_min"], found["row_count"], found["v_sum"]]
            yield from pa.table([each.cast(pa.int64()) for each in columns], ["first", "n", "total"]).to_batches()

    return listed(_placed(work, slot=None).mapInArrow(summed, GROUP))


def split(work: Work) -> Rows:
    """Parts of a key are merged here."""
    spread_on = ["row"] if work.schedule.options.spread_on_row else None
    placed = evenly.split_by_key(work.rows(), key=work.key, instances=work.instances, spread_on=spread_on)
    moments = work.moments

    def part(rows: pd.DataFrame) -> pd.DataFrame:
        moments.call("work")
        least, n, total = rows["row"].min(), len(rows), rows["v"].sum()
        return pd.DataFrame({"g": [rows["g"].iloc[0]], "first": [least], "n": [n], "total": [total]})

    merged: dict[int, tuple[int, int, int]] = {}
    for g, first, n, total in listed(placed.groupBy(*work.cols, "part").applyInPandas(part, f"g int, {GROUP}")):
        other = merged.get(g, (first, 0, 0))
        merged[g] = (min(first, other[0]), n + other[1], total + other[2])
    return list(merged.values())


def aggregate(work: Work) -> Rows:
    moments = work.moments

    def partial(rows: pd.DataFrame) -> tuple[int, int, int]:
        moments.call("work")
        return int(rows["row"].min()), len(rows), int(rows["v"].sum())

    def merge(partials: list[tuple[int, int, int]]) -> pd.DataFrame:
        firsts, counts, totals = zip(*partials, strict=True)
        return pd.DataFrame({"first": [min(firsts)], "n": [sum(counts)], "total": [sum(totals)]})

    spread_on = ["row"] if work.schedule.options.spread_on_row else None
    merging = evenly.Merging(partial, merge, GROUP)
    found = evenly.aggregate_by_key(work.rows(), merging, key=work.key, instances=work.instances, spread_on=spread_on)
    return listed(found.select("first", "n", "total"))


def apply_pandas(work: Work) -> Rows:
    alone = told(work.moments)

    def with_key(key: tuple[object, ...], rows: pd.DataFrame) -> pd.DataFrame:
        assert len(key) >= 1
        return alone(rows)

    function = with_key if work.schedule.options.with_key else alone
    return listed(evenly.apply_by_key(work.rows(), function, GROUP, key=work.key, instances=work.instances))


def apply_arrow(work: Work) -> Rows:
    moments = work.moments

    def alone(rows: pa.Table) -> pa.Table:
        moments.call("work")
        total = pc.sum(rows["v"]).as_py()
        return pa.table({"first": [pc.min(rows["row"]).as_py()], "n": [rows.num_rows], "total": [total]})

    def with_key(key: tuple[object, ...], rows: pa.Table) -> pa.Table:
        assert len(key) >= 1
        return alone(rows)

    function = with_key if work.schedule.options.with_key else alone
    return listed(evenly.apply_by_key(work.rows(), function, GROUP, key=work.key, instances=work.instances, arrow=True))


def timed(work: Work) -> Rows:
    """Groups are timed in the first run, and placed by these times in the second, which is measured too."""
    saved, function = work.folder / "times.json", told(work.moments)

    def run(rows: DataFrame, **known: object) -> tuple[Rows, evenly.TimeWatch]:
        watch = evenly.TimeWatch()
        more = {"key": work.key, "instances": work.instances, "balance": "time", "watch": watch}
        return listed(evenly.apply_by_key(rows, function, GROUP, **more, **known)), watch

    if not saved.exists():
        run(work.plain())[1].times.save(saved)
    found, watch = run(work.rows(), times=str(saved))
    assert watch.times is not None
    return found


def counts(work: Work) -> Rows:
    found = work.plain().groupBy(*work.cols).count()
    total = found.agg(F.sum("count"), F.count("*"), F.max("count")).first()
    return [tuple(total)] if total is not None and total[0] else []


def diagnose(work: Work) -> Rows:
    try:
        found = evenly.diagnose_keys(work.rows(), key=work.key, instances=[work.instances, 5])
    except evenly.EvenlyError as error:
        if type(error).__name__ == "EmptyStream":
            return []
        raise
    return [(found.rows, found.distinct_keys, found.heaviest[0].rows)]
