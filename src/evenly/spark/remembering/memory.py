"""A mapping that is learnt once: read if it is there, else learnt and written; and what its rows carried, told afterwards."""

from __future__ import annotations

import json
import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.instances import Auto
from evenly.kernels.types import F64
from evenly.keys.expectation import Weighed
from evenly.keys.keeping import Keeping, keeping
from evenly.keys.mapping import Mapping
from evenly.remembered import PastRun, Subject, Use
from evenly.spark.jvm.outcomes import await_outcome
from evenly.spark.keyed.choosing import over_slots
from evenly.spark.keyed.keys import last_part, type_names
from evenly.spark.keyed.learning import Weight
from evenly.spark.placing.mapping_check import check_fit
from evenly.spark.placing.own_columns import own_name
from evenly.spark.placing.placement import AT
from evenly.spark.remembering.store import Begun, Learnt, Store, Where, now
from evenly.spark.remembering.weighing import LOAD, WEIGHED_AT, Weighing, read_sums, sums, unit_of

_LOG = logging.getLogger(__name__)
_MOST_TOLD = 4_096
"""Instances of which the rows are told; where there are more, it is the fullest ones."""
_FIRST_ROWS, _LATER_EVERY = 1 << 15, 16
_ROW_IN_PARTITION = (1 << 33) - 1
_TOLD = own_name("told")
_LEAST_TRACKED = 64
_handed_out: dict[tuple[str, str], tuple[Mapping, str | None]] = {}
"""By application and folder the mapping of its slots, and the weight that this balances."""
_handing_out: defaultdict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)
_told_of: set[tuple[str, str, str]] = set()


class Memory:
    """What a call remembers: here nothing. It learns, and observes no rows."""

    def mapping(self, learn: Callable[[], Mapping]) -> Mapping:
        """The mapping to place by; `learn` makes one."""
        return learn()

    def slot_mapping(self, learn: Callable[[], Mapping], _names: tuple[str, ...], _types: tuple[str, ...]) -> Mapping:
        """The same, for rows that get a slot."""
        return learn()

    def doubted(self, _why: str) -> bool:
        """Have what earlier runs have left learnt anew; False if this run has learnt it."""
        return False

    def of(self, df: DataFrame) -> DataFrame:
        """`df` with what is to be known of its rows before any column of ours is added to them: what `observed` and `placed`
        take."""
        return df

    def observed(self, rows: DataFrame, _promised: F64, _instance: Column | None = None) -> DataFrame:
        """`rows`, whose instance is the column `AT` or another one, with what tells how many each instance got."""
        return rows

    def placed(self, rows: DataFrame, promised: F64) -> DataFrame:
        """`rows` on the instances in their column `AT`, which is left behind, told of likewise."""
        return rows.repartitionById(promised.size, AT).drop(AT)


class KeyMemory(Memory):
    """What is remembered of the rows of a key, in a folder.

    From the second call on nothing is read of the input but for its own work: the mapping comes from the folder. The first
    action on the placed rows counts them by instance, or weighs them, natively and on their way, and `keys.keeping` judges by
    that whether the next call learns anew. A mapping decides where rows go, never what comes out.
    """

    def __init__(
        self, spark: Any, remember: Where, subject: Subject, *, by: str, asked: int | Auto, weighing: Weighing | None = None
    ) -> None:
        self._spark, self._subject, self._asked, self._by, self._weighing = spark, subject, asked, by, weighing
        self._store = Store(spark, remember, subject, by=by)
        self._begun: Begun | None = None
        self._learnt_on: float | None = None

    def mapping(self, learn: Callable[[], Mapping]) -> Mapping:
        made: list[Mapping] = []

        def fresh(_before: str | None) -> Learnt:
            made.append(learn())
            return Learnt(made[-1].to_json())

        def usable(content: str) -> None:
            found = Mapping.from_json(content, source=f"what is remembered in {self._store.path}")
            check_fit(found, self._subject.columns, self._subject.types, self._asked)
            made.append(over_slots(self._spark, self._asked, found) if isinstance(self._asked, Auto) else found)

        self._begun = self._store.begun(fresh, usable)
        # How many rows say what is known of weights, their sum does not tell. Those that were held back are fewer than all.
        self._learnt_on = None if made[-1].expectation is None else made[-1].expectation.rows
        return made[-1]

    def slot_mapping(self, learn: Callable[[], Mapping], names: tuple[str, ...], types: tuple[str, ...]) -> Mapping:
        """As `mapping`, and the same one for all slots of an application that are of this folder.

        Two sides of a join by key and slot meet only under one mapping. So whatever is learnt meanwhile, by this
        application or another, is for the next application; and another key may not have slots of the same folder.
        """
        place = (str(self._spark.sparkContext.applicationId), self._store.whole_path)
        with _handing_out[place]:
            handed_out = _handed_out.get(place)
            if handed_out is None:
                mapping = self.mapping(learn)
                _handed_out[place] = mapping, self._subject.weight
                return mapping
        mapping, weight = handed_out
        try:
            check_fit(mapping, names, types, self._asked)
        except InvalidParameter as error:
            raise InvalidParameter(
                f"{self._store.path} gave slots to rows of this application already, and two sides of a join need those of one "
                f"mapping. {error}. For rows that are never joined with those, remember= another folder"
            ) from error
        self._tell_of_others(place, (mapping.columns, weight), (names, self._subject.weight))
        return mapping

    def _tell_of_others(self, place: tuple[str, str], *balanced: tuple[tuple[str, ...], str | None]) -> None:
        """Once, that rows go where those by another key, or what these weigh, are even: nobody knows whether they are to be
        joined."""
        theirs, ours = (
            ", ".join(map(last_part, names)) + ("" if weight is None else f" with weight {weight}")
            for names, weight in balanced
        )
        if ours.lower() != theirs.lower() and (*place, ours) not in _told_of:
            _told_of.add((*place, ours))
            _LOG.warning(
                "by_key: rows by %s get the slots that %s gave to rows by %s in this application, which balance those: right "
                "for two sides of a join by key and slot. Where they are never joined, remember= another folder",
                ours,
                self._store.path,
                theirs,
            )

    def doubted(self, why: str) -> bool:
        if self._begun is None or self._begun.did == "learnt":
            return False
        self._store.save(replace(self._begun.remembered, anew=why))
        return True

    def of(self, df: DataFrame) -> DataFrame:
        return df if self._begun is None or self._weighing is None else self._weighing.given_to(df)

    def observed(self, rows: DataFrame, promised: F64, instance: Column | None = None) -> DataFrame:
        if self._begun is None:
            return rows
        if self._weighing is not None:
            return self._weighed(self._begun, self._weighing, rows, promised, instance).drop(LOAD, WEIGHED_AT)
        return self._told(self._begun, rows, promised, instance).drop(_TOLD)

    def placed(self, rows: DataFrame, promised: F64) -> DataFrame:
        if self._begun is None:
            return super().placed(rows, promised)
        if self._weighing is not None:
            weighed = self._weighed(self._begun, self._weighing, rows, promised, None, left_out=(AT,))
            return weighed.repartitionById(promised.size, WEIGHED_AT).drop(LOAD, WEIGHED_AT)  # as below
        told = self._told(self._begun, rows, promised, None)
        # What is told is the instance, or `size` more, and Spark takes either modulo `size`. Because rows are shuffled by it,
        # the column stays with them until then: to leave it out before would be to copy every row once more. (Where `AT` stays,
        # rows are to be shuffled by it alone: Spark then knows that those which are alike in it are together.)
        by = F.expr(f"nvl({_TOLD}, {AT})")
        return told.repartitionById(promised.size, by).drop(_TOLD, AT)

    def _told(self, begun: Begun, rows: DataFrame, promised: F64, instance: Column | None) -> DataFrame:
        """`rows` with the column that is counted."""
        size, name = promised.size, _observation()

        def take(row: Any) -> bool:
            carried = read_counts(row.getString(0), size)
            if carried.empty:
                return False  # these rows were not computed
            self._judged(begun, keeping(promised, carried.loads, told=carried.rows))
            return True

        await_outcome(self._spark, name, take)
        told = with_told(rows, AT if instance is None else instance, size)
        return told.observe(name, counts(size))

    def _weighed(
        self,
        begun: Begun,
        weighing: Weighing,
        rows: DataFrame,
        promised: F64,
        instance: Column | None,
        left_out: tuple[str, ...] = (),
    ) -> DataFrame:
        """`rows` with the columns that are added up."""
        size, unit, name = promised.size, unit_of(promised), _observation()

        def take(row: Any) -> bool:
            found = read_sums(row, size, unit)
            if found is None:
                return False
            if found.wrong:
                _LOG.warning(
                    "%s: %d rows had a weight (%s) that is null, negative, NaN or infinite: they counted for nothing, and a "
                    "run that learns refuses them. Give 0 or what is usual there",
                    self._by,
                    found.wrong,
                    weighing.text,
                )
            carried = found.weighed
            learnt_on = carried.rows if self._learnt_on is None else self._learnt_on
            self._judged(begun, keeping(promised, carried.loads, told=carried.rows, learnt_on=learnt_on))
            return True

        await_outcome(self._spark, name, take)
        loaded = weighing.loaded(rows, AT if instance is None else instance, size, unit)
        return (loaded.drop(*left_out) if left_out else loaded).observe(name, *sums(size))

    def _judged(self, begun: Begun, found: Keeping) -> None:
        run = PastRun(
            now(), begun.did, begun.why, found.rows, found.promised_pct, found.carried_pct, anew=found.anew, judged=found.why
        )
        self._store.ended(begun, run)


def _observation() -> str:
    return f"evenly_carried_{uuid4().hex}"


def memory(
    df: DataFrame,
    remember: Where | None,
    names: tuple[str, ...],
    instances: int | Auto,
    *,
    mapping: object,
    by: str,
    weight: Weight | None = None,
    use: Use = "rows",
) -> Memory:
    """What a call remembers of the rows of `df` by the key columns `names`."""
    if remember is None:
        return Memory()
    types = type_names(df, names)
    return key_memory(df, remember, names, types, instances, mapping=mapping, by=by, weight=weight, use=use)


def key_memory(
    df: DataFrame,
    remember: Where,
    names: tuple[str, ...],
    types: tuple[str, ...],
    instances: int | Auto,
    *,
    mapping: object,
    by: str,
    weight: Weight | None = None,
    use: Use = "rows",
) -> KeyMemory:
    """The same, for key columns that are hashed in these types."""
    if mapping is not None:
        raise InvalidParameter("give mapping= or remember=, not both: what is given needs not be remembered")
    if df.isStreaming:
        raise StreamingMismatch(
            f"{by} remembers nothing of a stream, whose keys must have the same slots whenever its query starts: use "
            "stream_by_key, which keeps the mapping beside the checkpoint"
        )
    number = 0 if isinstance(instances, Auto) else instances
    weighing = None if weight is None else Weighing.of(df, names, weight, by=by)
    subject = Subject(use, names, types, number, None if weighing is None else weighing.text)
    return KeyMemory(df.sparkSession, remember, subject, by=by, asked=instances, weighing=weighing)


def with_told(rows: DataFrame, instance: Column | str, size: int) -> DataFrame:
    """`rows` with the column that `counts` counts: the instance of a row, if the row is one of those that are told of.

    These are the first 32,768 of each partition, and of those that follow one in 16, by a hash of their place; their instance
    is then told as `size` more than it is. To count every row of a large job would be felt.
    """
    place = f"(monotonically_increasing_id() & {_ROW_IN_PARTITION}L)"
    later = f"(hash({place}) & {_LATER_EVERY - 1}) = 0"
    # In SQL as far as can be, for every method and function of a column is several calls of the JVM.
    more = f"case when {place} < {_FIRST_ROWS} then 0 when {later} then {size} end"
    told = F.expr(f"{instance} + {more}") if isinstance(instance, str) else instance + F.expr(more)
    return rows.withColumn(_TOLD, told)


def counts(size: int) -> Column:
    """A native aggregate of rows that have what `with_told` adds: how often each of its values is there, as a text."""
    told = 2 * min(size, _MOST_TOLD) + 1  # null, of rows that are not told of, is a value too
    tracked = max(_LEAST_TRACKED, 2 ** (2 * told - 1).bit_length())
    return F.expr(f"to_json(approx_top_k({_TOLD}, {told}, {tracked})) as by_instance")


def read_counts(text: str | None, size: int) -> Weighed:
    """The rows of each instance, of what `counts` gave, and how many rows that says as much as."""
    first, later = np.zeros(size), np.zeros(size)
    for entry in json.loads(text or "[]"):
        item = entry.get("item")
        if item is not None:
            (first if item < size else later)[int(item) % size] = float(entry["count"])
    return Weighed.of(first + _LATER_EVERY * later, float(first.sum() + _LATER_EVERY**2 * later.sum()))
