"""A Python function with a state for every key of a stream, for many keys: Spark sees a few groups, and a worker the keys."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from evenly.checks import checked_instances, checked_path, checked_whole
from evenly.errors import ColumnConflict, InvalidParameter, StreamingMismatch, UnsupportedSpark
from evenly.spark.arrow_schema import arrow_schema
from evenly.spark.features import Feature, require
from evenly.spark.frames import check_frame, empty_frame
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.state_stores import PROVIDER, ROCKSDB
from evenly.spark.keyed.keys import (
    Key,
    case_sensitive,
    check_distinct,
    key_columns,
    key_id,
    key_names,
    key_types,
    quoted,
    spelled,
    type_names,
)
from evenly.spark.keyed.results import Results
from evenly.spark.python_workers import check_python, on_workers, processor_on_workers
from evenly.spark.streaming.keyed_query import KeyedQuery
from evenly.spark.streaming.query_settings import Trigger
from evenly.spark.streaming.state_terms import StateTerms, TermsStore
from evenly.spark.streaming.stream_by_key import stream_by_key
from evenly.worker.results import Shape
from evenly.worker.states.kept import SCHEMA as CHUNK
from evenly.worker.states.layout import StateLayout, Timeout, as_written
from evenly.worker.states.packing import PACKED, packing, unpacked
from evenly.worker.states.processor import KeyStates

Write = Callable[[DataFrame], DataStreamWriter]
"""From the results to a writer that has not been started."""
OutputMode = Literal["append", "update"]

_BUCKETS_FOR_EACH, _MOST_BUCKETS = 16, 100_000
_SLOT, _ID = "__evenly_slot", "__evenly_id"
_TIME_MODES: dict[Timeout | None, str] = {None: "None", "processing": "ProcessingTime", "event": "EventTime"}
_WATERMARK = "spark.watermarkDelayMs"
"""Where Spark keeps, in a column's metadata, that there is a watermark on it."""


def stream_apply_by_key(
    rows: DataFrame,
    function: Callable[..., Any],
    schema: StructType | str,
    *,
    key: Key,
    state: StructType | str,
    instances: int,
    checkpoint: str | Path,
    write: Write,
    timeout: Timeout | None = None,
    output_mode: OutputMode = "append",
    buckets: int | None = None,
    trigger: Trigger | None = None,
    query_name: str | None = None,
    controller: bool = True,
    threshold_pct: float = 5.0,
    budget_pct: float = 5.0,
    look: bool | None = None,
) -> KeyedQuery:
    """Start a query that calls `function` for every key of each batch, with the key's rows and its state.

        def visits(key, rows, state):
            seen = (state.seen if state else 0) + len(rows)
            return [(*key, seen)], (seen,)

        query = evenly.stream_apply_by_key(
            rows, visits, "user string, seen long", key="user", state="seen long", instances=16, checkpoint="/data/visits",
            write=lambda results: results.writeStream.format("parquet").option("path", "/data/seen"),
        )

    What `applyInPandasWithState` and `transformWithState` offer for one key at a time, for many keys: Spark's price of a call
    is paid for a bucket of keys, and not for each of them. Results are those of `applyInPandasWithState` by the key
    (tests/spark/test_stream_apply_by_key.py); neither promises an order, of results or of rows of a key.

    `function(key, rows, state)` gets the key as a tuple, its rows of the batch as a list of `Row`, and its state, a `Row` with
    the fields of `state`, or None. It returns (results, new state). Results are dicts or tuples with the fields of `schema`. A
    new state of None removes the key's. What it raises ends the query as `FunctionFailed`, which names the key; the batch is
    not committed. Null is a key, and so is NaN.

    - `write` gets the results and returns a `DataStreamWriter` that is not started; it is called again when the mapping
      changes. The sink, and what it promises, are Spark's. `output_mode` is "append" or "update", for sinks that ask for it.
    - `timeout="processing"` or `"event"`: then `function(key, rows, state, times)` also gets the time of the batch,
      `times.now_ms` and `times.watermark_ms`, and returns (results, new state, deadline_ms): milliseconds since 1970, or None.
      When the clock, or the watermark of `rows`, has passed it, the function is called with no rows. Each call sets the
      deadline anew, as with Spark's `GroupState`. With "event" rows that are later than the watermark are dropped, as Spark
      drops them.
    - `buckets`: keys are put into so many by their hash, 16 for each instance unless told otherwise. A bucket's rows of a batch
      and its states are in a worker's memory at a time. A checkpoint keeps its number.
    - `checkpoint`, `trigger`, `query_name`, `controller`, `threshold_pct`, `budget_pct` and `look` are those of
      `stream_by_key`, for buckets instead of keys: they are spread evenly over `instances`, and their states move when the
      mapping changes.

    State is Spark's own, in RocksDB: what a batch changes is what is written. A restart goes on with it, on any number of
    cores and with another `function` or `schema`; another `key`, `state`, `timeout` or number of buckets or instances is
    refused. Classic sessions only.
    """
    check_frame(rows, "rows")
    if not rows.isStreaming:
        raise StreamingMismatch("stream_apply_by_key needs a streaming DataFrame: use apply_by_key for a batch")
    spark = rows.sparkSession
    require(spark, Feature.FOLDERS, by="stream_apply_by_key", remedy="Use a classic session")
    require(spark, Feature.TRANSFORM_WITH_STATE, by="stream_apply_by_key", remedy="Use applyInPandasWithState")
    check_distinct(rows)
    names = key_names(rows, key)
    _check_choices(rows, timeout, output_mode, write)
    _check_function(function, timeout)
    checked_instances(instances)
    results = Results.of(spark, schema)
    kept_fields = empty_frame(spark, state, name="state").schema
    if len(set(map(str.lower, kept_fields.names))) < len(kept_fields.names):
        raise ColumnConflict(f"state names a field twice ({', '.join(kept_fields.names)}): give each its own name")
    store = TermsStore(Folder(spark, checked_path(checkpoint, "checkpoint", "a folder that the query keeps")))
    kept = store.kept()
    terms = StateTerms(
        tuple(_folded(rows, names)),
        type_names(rows, names),
        _chosen_buckets(buckets, instances, kept),
        kept_fields.simpleString(),
        timeout,
    )
    if kept is not None:
        store.check(terms, kept)
    _check_store(spark, begun=kept is not None)
    check_python(spark)
    layout = _layout(rows, names, kept_fields, results, terms)
    processor = processor_on_workers(spark, KeyStates(function, layout), "chunks", CHUNK)
    packs, rows_of_results = (on_workers(spark, it) for it in (packing(layout.sent), unpacked(results.arrow)))

    def build(placed: DataFrame) -> DataStreamWriter:
        if layout.packs:
            fields = placed.select(terms.bucket, _SLOT).schema.fields
            told = StructType([*fields, StructField(PACKED, BinaryType())])
            placed = placed.select(terms.bucket, _SLOT, *layout.sent.names).mapInArrow(packs, told)
        packed = placed.groupBy(terms.bucket, _SLOT).transformWithState(
            processor, f"{PACKED} binary", output_mode.capitalize(), _TIME_MODES[timeout]
        )
        writer = write(packed.mapInArrow(rows_of_results, results.schema))
        if not isinstance(writer, DataStreamWriter):
            return writer
        if kept is None:
            store.keep(terms)  # not before: all else has been checked by now, and the mapping of this start is written
        return writer.outputMode(output_mode)

    return stream_by_key(
        _sent(rows, names, layout, terms),
        build,
        key=terms.bucket,
        instances=instances,
        checkpoint=checkpoint,
        trigger=trigger,
        query_name=query_name,
        slot=_SLOT,
        controller=controller,
        threshold_pct=threshold_pct,
        budget_pct=budget_pct,
        look=look,
    )


def _sent(rows: DataFrame, names: tuple[str, ...], layout: StateLayout, terms: StateTerms) -> DataFrame:
    """The rows under names that any of Spark's Python functions takes, with their key's id and bucket."""
    own = [F.col(quoted(name)) for name in rows.columns]
    fields = [column for column, place in zip(key_columns(names), layout.keys, strict=True) if place >= len(own)]
    number = key_id(names)
    # Buckets by some bits of the hash, ids by others.
    return rows.select(
        *(column.alias(sent) for column, sent in zip((*own, *fields), layout.sent.names, strict=False)),
        F.shiftright(number, 32).cast("int").alias(_ID),
        F.pmod(number, F.lit(terms.buckets)).cast("int").alias(terms.bucket),
    )


def _layout(
    rows: DataFrame, names: tuple[str, ...], kept_fields: StructType, results: Results, terms: StateTerms
) -> StateLayout:
    spark, bare = rows.sparkSession, _folded(rows, [spelled(name) for name in rows.columns])
    key = StructType([StructField(name, kind) for name, kind in zip(names, key_types(rows, names), strict=True)])
    places, sent = [], [StructField(f"c{at}", it.dataType) for at, it in enumerate(rows.schema.fields)]
    for name, field in zip(_folded(rows, names), key.fields, strict=True):
        if name in bare:
            places.append(bare.index(name))
        else:
            places.append(len(sent))
            sent.append(StructField(f"k{len(sent)}", field.dataType))
    state, made = (_shape(spark, fields) for fields in (kept_fields, results.schema))
    # What Spark's settings say of Arrow must not change what is on disk.
    state = replace(state, schema=as_written(state.schema))
    return StateLayout(
        columns=arrow_schema(spark, StructType([StructField(it.name, it.dataType) for it in rows.schema.fields])),
        sent=arrow_schema(spark, StructType([*sent, StructField(_ID, IntegerType())])),
        keys=tuple(places),
        key=as_written(arrow_schema(spark, key)),
        state=state,
        results=made,
        timeout=terms.timeout,
        mark=terms.mark,
    )


def _folded(rows: DataFrame, names: Sequence[str]) -> list[str]:
    """Names as they are, or in lower case where Spark takes both for one."""
    return list(names) if case_sensitive(rows) else [name.lower() for name in names]


def _shape(spark: SparkSession, fields: StructType) -> Shape:
    nullable = StructType([StructField(field.name, field.dataType, nullable=True) for field in fields.fields])
    strict = frozenset(field.name for field in fields.fields if not field.nullable)
    return Shape(arrow_schema(spark, nullable), strict, held=True)


def _chosen_buckets(given: int | None, instances: int, kept: dict[str, Any] | None) -> int:
    if given is not None:
        return checked_whole(given, "buckets", instances, _MOST_BUCKETS)
    if kept is not None and isinstance(kept.get("buckets"), int):
        return int(kept["buckets"])
    return min(_BUCKETS_FOR_EACH * instances, _MOST_BUCKETS)


def _check_choices(rows: DataFrame, timeout: object, output_mode: object, write: object) -> None:
    if timeout is not None and timeout not in get_args(Timeout):
        raise InvalidParameter(f"timeout must be 'processing', 'event' or None, got {timeout!r}")
    if output_mode not in get_args(OutputMode):
        raise InvalidParameter(f"output_mode must be 'append' or 'update', got {output_mode!r}")
    if not callable(write):
        raise InvalidParameter(f"write must be a function from the results to a DataStreamWriter, got {write!r}")
    if timeout == "event" and not any(_WATERMARK in (field.metadata or {}) for field in rows.schema.fields):
        raise InvalidParameter("timeout='event' needs a watermark, and rows have none: rows.withWatermark('ts', '10 minutes')")


def _check_function(function: Any, timeout: Timeout | None) -> None:
    arguments = ("key", "rows", "state", *(() if timeout is None else ("times",)))
    told = ", ".join(arguments)
    if not callable(function):
        raise InvalidParameter(f"function must be a function ({told}), got {function!r}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidParameter(
            f"function is a coroutine or a generator: give a function ({told}) that returns what it has made"
        )
    try:
        inspect.signature(function).bind(*arguments)
    except ValueError:
        return  # some built-in functions do not say what they take
    except TypeError as error:
        raise InvalidParameter(f"function must take ({told}), and {function!r} does not: {error}") from error


def _check_store(spark: SparkSession, *, begun: bool) -> None:
    """The state store that transformWithState needs: Spark keeps that of the first start, and asks the session for it then."""
    provider = str(spark.conf.get(PROVIDER))
    if provider != ROCKSDB and not begun:
        raise UnsupportedSpark(
            f"stream_apply_by_key needs Spark's state store in RocksDB, and this session has {provider}: before the start, "
            f"spark.conf.set('{PROVIDER}', '{ROCKSDB}')"
        )
