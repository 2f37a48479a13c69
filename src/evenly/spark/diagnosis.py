"""What a diagnosis needs Spark for: counting keys, and reading the state of a checkpoint."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from evenly.checks import checked_instances, checked_path, checked_whole
from evenly.diagnosis.calls import quoted as quoted_text
from evenly.diagnosis.keys import HeavyKey, KeysAt, KeysDiagnosis, shown_key
from evenly.diagnosis.source import check_columns, data_kind, is_array
from evenly.diagnosis.state import CheckpointDiagnosis, StateDiagnosis, checkpoint_diagnosis
from evenly.errors import DamagedData, EmptyStream, EvenlyError, InvalidParameter, StreamingMismatch
from evenly.keys.carried import CARRIED, Carried
from evenly.keys.mapping import Mapping
from evenly.spark.frames import check_frame, check_session
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.java_errors import Py4JError
from evenly.spark.keyed.keys import Key, key_columns, key_names
from evenly.spark.keyed.learning import Weight, learn_mapping, row_loads
from evenly.spark.placing.placement import AT, with_instance
from evenly.spark.state.reading import rows_per_partition
from evenly.spark.sums import summed

_LOG = logging.getLogger(__name__)
_ROWS = "rows"
_HEAVIEST = 10
_OPTIONS = {
    "csv": {"header": "true", "inferSchema": "true", "multiLine": "true", "escape": '"'},
    "json": {"mode": "FAILFAST"},
}
_PATTERN = re.compile(r"([][{}*?\\])")
"""What Spark takes for a pattern of names in a path, of which this is one."""
_MAPPING = re.compile(r"^mapping-(\d+)\.json$")


def diagnose_keys(
    df: DataFrame,
    *,
    key: Key,
    instances: int | Sequence[int],
    weight: Weight | None = None,
    heaviest: int = _HEAVIEST,
    progress: Callable[[str], None] | None = None,
) -> KeysDiagnosis:
    """How uneven the keys of `df` are on each number of instances, by Spark's hash and by Evenly, and what to do about it.

        evenly.diagnose_keys(df, key="user", instances=[8, 64])

    Rows and keys are counted exactly, with one `groupBy(key).count()` whose result is kept while the diagnosis runs (in memory,
    and on disk where that does not do). The rows of an instance by hash are those whose `pmod(hash(key), instances)` it is,
    which is where Spark puts them; Evenly's are those of a mapping learnt as `by_key` learns it. Null is a key like any other.
    With `weight`, as `learn_mapping` takes it, all that is called rows is the sum of that.

    `heaviest` is how many of the heaviest keys are named (0 to 1000). `progress` is called with a description before each step:
    once, and twice for each number of instances.
    """
    check_frame(df)
    counts = list(instances) if isinstance(instances, Iterable) and not isinstance(instances, str) else [instances]
    if not counts:
        raise InvalidParameter("instances names no number: give one, or a list of them")
    heaviest = checked_whole(heaviest, "heaviest", 0, 1000)
    counts = list(dict.fromkeys(checked_instances(count) for count in counts))
    if df.isStreaming:
        raise StreamingMismatch("a streaming DataFrame cannot be counted: diagnose a batch of earlier rows, or its checkpoint")
    names = key_names(df, key)
    say = progress or (lambda _: None)
    say("counting keys")
    columns = tuple(f"key_{place}" for place in range(len(names)))
    own = [column.alias(name) for column, name in zip(key_columns(names), columns, strict=True)]
    if weight is None:
        by_key = summed(df.select(*own), columns, [F.count(F.lit(1)).alias(_ROWS)])
    else:
        loads, whole = row_loads(df, own, weight)
        load = F.sum("load").cast("decimal(38,0)" if whole else "double")
        by_key = summed(loads, columns, [load.alias(_ROWS)])
    counted = by_key.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows, distinct, most = _totals(counted)
        if rows == 0:
            weightless = "" if weight is None else ", or none that weighs anything"
            raise EmptyStream(f"there are no rows{weightless}: there is nothing to diagnose")
        named = [
            HeavyKey(shown_key(row[:-1]), _number(row[_ROWS]), _number(row[_ROWS]) / rows)
            for row in counted.orderBy(F.desc(_ROWS), *columns).limit(heaviest).collect()
        ]
        at = []
        for count in counts:
            say(f"placing by hash on {count}")
            by_hash = _loads(counted, F.pmod(F.hash(*columns), F.lit(count)), count)
            say(f"placing by Evenly on {count}")
            mapping = learn_mapping(df, key=names, instances=count, weight=weight)
            placed = _loads(with_instance(counted, mapping, columns, AT), F.col(AT), count)
            at.append(KeysAt(names, count, by_hash, placed, most / rows, mapping.expectation, _shown(weight)))
    finally:
        counted.unpersist()
    return KeysDiagnosis(names, rows, distinct, tuple(named), tuple(at), "rows" if weight is None else "weight")


def _shown(weight: Weight | None) -> str | None:
    """A weight as Python writes it; nothing for an expression, of which Spark does not tell how it was written."""
    return None if weight is None else quoted_text(weight) if isinstance(weight, str) else ""


def _number(value: Any) -> float:
    """A sum of rows or of whole weights as a whole number, any other as it is."""
    return float(value) if isinstance(value, float) else int(value or 0)


def _totals(counted: DataFrame) -> tuple[float, int, float]:
    total: Row = counted.agg(F.sum(_ROWS), F.count(F.lit(1)), F.max(_ROWS)).collect()[0]
    return _number(total[0]), int(total[1]), _number(total[2])


def _loads(counted: DataFrame, instance: Column, instances: int) -> tuple[float, ...]:
    loads: list[float] = [0] * instances
    placed = counted.select(instance.alias("instance"), _ROWS)
    for row in summed(placed, ["instance"], [F.sum(_ROWS).alias("rows")]).collect():
        loads[int(row["instance"])] = _number(row["rows"])
    return tuple(loads)


def diagnose_source(
    spark: SparkSession, source: str, *, key: Key, instances: Sequence[int], heaviest: int, progress: Callable[[str], None]
) -> KeysDiagnosis:
    """The keys of what `read_source` reads. Spark looks at most of it only while it counts."""
    try:
        df = read_source(spark, source)
        return diagnose_keys(df, key=key, instances=instances, heaviest=heaviest, progress=progress)
    except (PySparkException, Py4JError) as error:
        raise DamagedData(f"{source} cannot be read: {_said(error)}") from error


def _said(error: Exception) -> str:
    """What Spark says in its first sentence: where Java failed, the innermost reason."""
    lines = [line.strip() for line in str(error).splitlines()]
    reasons = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (reasons or [line for line in lines if line.startswith(":")] or lines or [""])[-1 if reasons else 0].lstrip(": ")[
        :400
    ]


def read_source(spark: SparkSession, source: str, *, keys: Sequence[str] = ()) -> DataFrame:
    """The rows of a file or folder (Parquet, CSV with a line of headings, JSON or ORC by its name), or of a table.

    CSV columns get the types that Spark infers for them: a key that is a number hashes otherwise than as text. Quotes and
    line breaks within quotes are read as spreadsheets write them; a line of JSON that cannot be read is an error, not a null.
    """
    path = Path(source)
    if path.exists():
        check_columns(path, keys)
        kind = data_kind(path)
        options = dict(_OPTIONS.get(kind, {}))
        if kind == "json" and is_array(path):
            options["multiLine"] = "true"
        try:
            return spark.read.options(**options).format(kind).load(_PATTERN.sub(r"\\\1", os.fspath(path.resolve())))
        except (PySparkException, Py4JError) as error:
            raise DamagedData(f"{source} cannot be read as {kind}: {_said(error)}") from error
    try:
        return spark.read.table(source)
    except (PySparkException, Py4JError) as error:
        raise DamagedData(
            f"{source} is neither a file or folder on this machine nor a table that Spark knows: give the path of Parquet or "
            "CSV data, or use evenly.diagnose_keys(spark.table(...), ...) in a session that knows the table"
        ) from error


def diagnose_checkpoint(spark: SparkSession, checkpoint: str | os.PathLike[str]) -> CheckpointDiagnosis:
    """How uneven the state of a streaming query is, store by store, and whether a mapping of Evenly beside it still fits.

        evenly.diagnose_checkpoint(spark, "/data/visits")

    Reads the state after the last finished batch; the query may be running. Whether a mapping fits is asked of the rows that
    the last batches carried, which a query of `stream_by_key` keeps there once a minute and at its end.
    """
    path = checked_path(checkpoint, "checkpoint", "a folder that a streaming query keeps")
    check_session(spark)
    stores = [StateDiagnosis(one.operator, one.name, one.store, one.batch, one.rows) for one in rows_per_partition(spark, path)]
    beside = Folder(spark, path).child("evenly")
    names = beside.names()
    mappings = {int(match.group(1)): match.group() for match in map(_MAPPING.match, names) if match}
    expected_pct = _expected_pct(beside, mappings[max(mappings)]) if mappings else 0.0
    return checkpoint_diagnosis(path, stores, list(mappings), _carried(beside, names), expected_pct)


def _expected_pct(beside: Folder, name: str) -> float:
    """The λ of the rows that a mapping was made for, if it can be read: the state is told without it too."""
    try:
        return Mapping.from_json(beside.read(name), source=f"{beside.path}/{name}").fitted_imbalance_pct
    except EvenlyError as error:
        _LOG.warning("what the mapping was made for is not told: %s", error)
        return 0.0


def _carried(beside: Folder, names: Sequence[str]) -> Carried | None:
    """What the last batches carried, if that is kept and can be read: the state is told without it too."""
    if CARRIED not in names:
        return None
    try:
        return Carried.from_json(beside.read(CARRIED), source=f"{beside.path}/{CARRIED}")
    except EvenlyError as error:
        _LOG.warning("what the last batches carried is not told: %s", error)
        return None
