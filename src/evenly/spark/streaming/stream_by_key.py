"""Every key of a streaming query on its instance, for as long as the query lives."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from evenly.errors import EvenlyError, InvalidParameter, StreamingMismatch, UnknownColumn
from evenly.instances import Auto, Instances, asked_instances, choose_instances
from evenly.keys.controller import DriftController
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.spark.features import Feature, require
from evenly.spark.frames import check_frame, check_new_column
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.java_errors import Py4JError
from evenly.spark.jvm.session_slots import session_slots
from evenly.spark.keyed.keys import Key, key_names, type_names
from evenly.spark.placing.canary import check_slots_lead
from evenly.spark.placing.mapping_check import check_is, check_same_types
from evenly.spark.streaming.changing import recover_move
from evenly.spark.streaming.first_look import can_look, first_look
from evenly.spark.streaming.kept_rows import kept_promises
from evenly.spark.streaming.keyed_query import KeyedQuery
from evenly.spark.streaming.mapping_store import MappingStore, Placement, begun_instances
from evenly.spark.streaming.query_settings import QuerySettings, Trigger
from evenly.spark.streaming.starting import Build, Pipeline
from evenly.spark.streaming.waiting import forgotten_end

_LOG = logging.getLogger(__name__)
_CHANGE_S, _MOVE_S = 2.0, 5.0
"""How long a change of the mapping is taken to last before one was timed: for new windows, and where state is moved."""
_STARTS: dict[str, threading.RLock] = {}
_STARTS_LOCK = threading.Lock()


def stream_by_key(
    rows: DataFrame | Sequence[DataFrame],
    build: Build,
    *,
    key: Key,
    instances: Instances,
    checkpoint: str | Path,
    trigger: Trigger | None = None,
    query_name: str | None = None,
    slot: str = "slot",
    window: str | None = None,
    mapping: Mapping | None = None,
    controller: bool = True,
    threshold_pct: float = 5.0,
    budget_pct: float = 5.0,
    look: bool | None = None,
) -> KeyedQuery:
    """Start a stateful streaming query whose keys are spread evenly over `instances`, and keep them so.

    `build` gets `rows` with the column `slot` and returns a `DataStreamWriter` that is not started. It groups by the
    key and the slot, in that order, and may be called again whenever the mapping changes:

        def visits(placed):
            return placed.groupBy("user", "slot").count().writeStream.format("console").outputMode("update")

        query = evenly.stream_by_key(rows, visits, key="user", instances=16, checkpoint="/data/visits")
        query.awaitTermination()

    A pipeline with state that does not group its placed rows by (window, key…, slot), in that order, is refused before it
    starts: its keys would be where Spark's hash puts them. See `evenly.keys.placed.judge_pipeline` for what is let pass.

    Results are those of grouping by the key alone. The state of a key is on one instance at any time, before and after
    every restart and every change of the mapping; no row is lost or counted twice, whenever the driver dies
    (tests/spark/test_streaming_kill.py).

    - `trigger` (what `writeStream.trigger` takes) and `query_name` are set on the writer at every start, over a trigger or name
      that `build` has set; without them, those of `build` stay. The checkpoint is always `checkpoint`.
    - `instances="auto"` takes as many as the session has slots at the first start (or as `mapping` has). The number is kept
      beside the checkpoint with the mapping, and every later start has it, on however many cores.
    - `window` names a column that `functions.window` made; then group by the window, the key and the slot. A new mapping
      serves windows that have not begun, and no state is moved. Without it a change moves the state of some keys.
    - `rows` may be several DataFrames with key columns of the same names and types, for a join of streams: `build` gets as
      many. Rename (`withColumnRenamed`) and cast key columns that differ.
    - `mapping` is the first mapping; without it one is learnt from the beginning of the stream (`look=False`: not; None: where
      its sources can be read twice). A checkpoint that exists has its own mapping, which is read back from its folder `evenly`.
    - `controller=False` keeps the first mapping and observes nothing. Otherwise every batch reports its rows per instance and
      by key. Mappings are made and watched beside the one in force; one that lowers λ in batches that it was not learnt from,
      and is expected to go on lowering it by `threshold_pct` points and to save more time than the change takes, comes into
      force; without windows it moves at most `budget_pct` percent of the load at a time.
    """
    frames = tuple(rows) if isinstance(rows, (list, tuple)) else (rows,)
    if not frames:
        raise InvalidParameter("rows has no DataFrame: give one, or several for a join")
    for df in frames:
        check_frame(df, "rows")
    if not callable(build):
        raise InvalidParameter(f"build must be a function from placed rows to a DataStreamWriter, got {build!r}")
    if mapping is not None:
        check_is(mapping, Mapping)
    spark = frames[0].sparkSession
    number = _number(frames, instances, mapping, checkpoint, trigger, query_name)
    placement = _checked_placement(frames, key, number, slot, window)
    require(spark, Feature.FOLDERS, by="stream_by_key", remedy="Use a classic session")
    if controller:
        require(spark, Feature.TOP_K, by="the controller of stream_by_key", remedy="Give controller=False")
    check_slots_lead(spark, by="stream_by_key")
    settings = QuerySettings.checked(frames[0], checkpoint, trigger, query_name)
    at = settings.checkpoint
    store = MappingStore(spark, at, placement)
    # Until a query has begun no state depends on a mapping: one that was written by a call that failed then binds nobody.
    first = None if store.begun() else _first_mapping(frames, placement, mapping, look=look)
    with _starting(spark, at):
        # Another call may have begun it while this one looked at the stream: then its mapping is the query's.
        if store.begun() and store.load():
            recover_move(spark, at, store)
            in_force, why = store.mapping(store.versions[-1].number), ""
        else:
            in_force, why = first or _first_mapping(frames, placement, mapping, look=look)

        def deciding(mapping: Mapping) -> DriftController | None:
            # A change for new windows moves nothing, so there is no budget for it.
            budget, move_s = (100.0, _CHANGE_S) if window else (budget_pct, _MOVE_S)
            if not controller:
                return None
            promises = kept_promises(spark, at)
            return DriftController(mapping, threshold_pct=threshold_pct, budget_pct=budget, move_s=move_s, promises=promises)

        watched, pipeline = deciding(in_force), Pipeline(frames, build, settings)
        if store.versions:
            return KeyedQuery(pipeline, store, watched)
        in_force = store.begin(in_force, why, given=mapping is not None)
        return _started_first(pipeline, store, deciding(in_force))


def _started_first(pipeline: Pipeline, store: MappingStore, controller: DriftController | None) -> KeyedQuery:
    """Start a query that has never been. One that cannot be leaves no mapping; and it goes on only if its mapping is still that
    of the checkpoint, where an application that began it at the same time may have put another one."""
    try:
        query = KeyedQuery(pipeline, store, controller)
    except BaseException:
        with suppress(EvenlyError, PySparkException, Py4JError):  # what kept it from its start is what counts
            store.take_back()
        raise
    try:
        store.check_unchanged()
    except BaseException:
        query.stop()
        raise
    return query


def _starting(spark: SparkSession, checkpoint: str) -> threading.RLock:
    """Held by one start of a checkpoint's query at a time: of two, the second is to find what the first has written."""
    with _STARTS_LOCK:
        return _STARTS.setdefault(Folder(spark, checkpoint).resolved("evenly"), threading.RLock())


def _number(
    frames: tuple[DataFrame, ...],
    instances: Instances,
    mapping: Mapping | None,
    checkpoint: str | Path,
    trigger: Trigger | None,
    query_name: str | None,
) -> int:
    """How many instances: as asked for, or those that the checkpoint was begun with, whatever slots there are now."""
    asked = asked_instances(instances)
    if not isinstance(asked, Auto):
        return asked
    spark = frames[0].sparkSession
    require(spark, Feature.FOLDERS, by="stream_by_key", remedy="Use a classic session")
    at = QuerySettings.checked(frames[0], checkpoint, trigger, query_name).checkpoint
    begun = begun_instances(spark, at)
    if begun is not None:
        _LOG.info("%d instances: checkpoint %s was begun with them", begun, at)
        return begun
    if mapping is not None:
        return mapping.instances
    found = choose_instances(session_slots(spark))
    _LOG.info("%s", found)
    return found.number


def _checked_placement(frames: tuple[DataFrame, ...], key: Key, instances: int, slot: str, window: str | None) -> Placement:
    names = [_names(df, key, which) for which, df in enumerate(frames, 1)]
    types = [type_names(df, found) for df, found in zip(frames, names, strict=True)]
    for which, other in enumerate(types[1:], 2):
        check_same_types(types[0], other, names[0], which=which)
    for df in frames:
        if not df.isStreaming:
            raise StreamingMismatch(
                "stream_by_key needs streaming DataFrames: use by_key for a batch, and for a static side of a join"
            )
        check_new_column(df, slot, "slot")
        if window is not None and window not in df.columns:
            raise UnknownColumn(
                f"there is no window column {window!r}: add it first, .withColumn({window!r}, functions.window(...)); "
                f"the columns are {', '.join(df.columns)}"
            )
    return Placement(names[0], instances, slot, window, types[0])


def _names(df: DataFrame, key: Key, which: int) -> tuple[str, ...]:
    try:
        return key_names(df, key)
    except UnknownColumn as error:
        if which == 1:
            raise
        raise UnknownColumn(
            f"{error} in DataFrame {which}. All must call their key columns alike: rename those of this one before, "
            ".withColumnRenamed('its name', 'the name in the first')"
        ) from error


def _first_mapping(
    frames: tuple[DataFrame, ...], placement: Placement, given: Mapping | None, *, look: bool | None
) -> tuple[Mapping, str]:
    """The mapping of a query that has not begun, and where it is from."""
    if given is not None:
        placement.check(given)
        return replace(given, version=1, columns=placement.key, types=placement.types), "given"
    if look or (look is None and can_look(frames[:1])):
        with forgotten_end(frames[0].sparkSession):
            learnt = first_look(frames[0], names=placement.key, instances=placement.instances)
        if learnt is not None:
            return replace(learnt, types=placement.types), "learnt from the beginning of the stream"
    unlearnt = DKG.automatic(placement.instances, ids="xxhash64").mapping(columns=placement.key)
    return replace(unlearnt, types=placement.types), "by hash: nothing was known yet"
