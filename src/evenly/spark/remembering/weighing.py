"""What the rows of a run weigh to each instance, as native aggregates on their way."""

from __future__ import annotations

import base64
import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.errors import UnknownColumn
from evenly.kernels.types import F64
from evenly.keys.expectation import Weighed
from evenly.sketches.tuple_sums import tuple_sums
from evenly.spark.features import Feature, require
from evenly.spark.keyed.keys import column_name, key_columns
from evenly.spark.keyed.learning import LARGEST, Weight, row_loads
from evenly.spark.placing.own_columns import own_name

LOAD, WEIGHED_AT = own_name("load"), own_name("weighed_at")
_WRONG = 2.0**-400
"""What a row counts for whose weight is none, among its like alone: its square is nothing beside those of the others."""
_LEAST_PLACES, _MOST_PLACES = 4, 26
_SMALLEST_UNIT = 1e-307
"""What a double can be divided by without loss."""
_LARGEST_SUM = 1e200
_SHOWN = re.compile(r"Column<'(.*)'>", re.DOTALL)
_BOUND = re.compile(r"(?:\(([^()]*)\)|(\b\w+)) ->")
_NUMBER = re.compile(r"_\d+$")
_CALLED_AT = re.compile(r",Origin\((?:\w+(?:\([^()]*\))?,){8}(?:None|Some\(\(.*?:\d+\)\)),\w+\)", re.DOTALL)
_JAVA_OBJECT = re.compile(r"\[L[\w.]+;@[0-9a-f]+")


@dataclass(frozen=True)
class Sums:
    """What was weighed: each instance's sum, and how many rows have a weight that is none. They count for nothing."""

    weighed: Weighed
    wrong: int


@dataclass(frozen=True)
class Weighing:
    """A weight that was checked against the rows: how to weigh them by it, and what it is called in a file."""

    given: Column
    text: str

    @classmethod
    def of(cls, df: DataFrame, names: tuple[str, ...], weight: Weight, *, by: str) -> Weighing:
        """What is no number of each row of `df` is refused, also where nothing has to be learnt."""
        require(
            df.sparkSession,
            Feature.SUMS_BY_KEY,
            by=f"remember= with weight= of {by}",
            remedy="Learn once, learn_mapping(..., weight=...).save(path), and give mapping=Mapping.load(path)",
        )
        try:
            row_loads(df, key_columns(names), weight)  # a sum is no error where nothing is beside it
        except UnknownColumn as error:
            raise UnknownColumn(
                f"{error}. With remember= every run weighs df itself, also where fit_on= is learnt from"
            ) from error
        if isinstance(weight, str):
            name = column_name(df, weight)
            return cls(F.col(name), name)
        return cls(weight, text_of(weight))

    def given_to(self, df: DataFrame) -> DataFrame:
        """`df` with the column `LOAD`, what a row weighs as it was given. It has to be added before any other of ours, for an
        expression may be of all columns there are (`F.struct("*")`)."""
        return df.withColumn(LOAD, F.coalesce(self.given).cast("double"))

    def loaded(self, rows: DataFrame, instance: Column | str, size: int, unit: float) -> DataFrame:
        """`rows` of `given_to` with the columns `LOAD`, what a row weighs in `unit`s, and `WEIGHED_AT`: its instance, or `size`
        more if its weight is none, as learning has it. `sums` adds these up. They are columns, for an aggregate of observed
        rows is no generated code: each step that it takes by itself takes ten times as long."""
        right = F.expr(f"nvl({LOAD} >= 0D and {LOAD} <= {LARGEST!r}D, false)")
        at = F.expr(instance) if isinstance(instance, str) else instance
        return rows.withColumns(
            {
                WEIGHED_AT: F.call_function("if", right, at, at + F.lit(size)),
                LOAD: F.call_function("if", right, F.expr(f"{LOAD} / {unit!r}D"), F.lit(_WRONG)),
            }
        )


def text_of(weight: Column) -> str:
    """An expression as Spark writes it, the same in every session.

    Spark numbers the variables of functions within an expression through a session, and of what a function of Python's takes
    it shows where that is in Java, and by which line of which file it was made: a notebook's files have other names each time.
    """
    shown = _SHOWN.fullmatch(str(weight))
    text = _CALLED_AT.sub("", _JAVA_OBJECT.sub("", str(weight) if shown is None else shown.group(1)))
    bound = [name.strip() for several, one in _BOUND.findall(text) for name in (several or one).split(",")]
    for at, name in enumerate(dict.fromkeys(bound)):
        text = re.sub(rf"\b{re.escape(name)}\b", f"{_NUMBER.sub('', name)}_{at}", text)
    return text


def unit_of(promised: F64) -> float:
    """What to weigh in: about all that was promised, so that squares of weights are numbers, however large or small they are;
    as a power of two, so that a sum of whole weights stays whole."""
    total = float(promised.sum())
    return math.ldexp(1.0, math.frexp(total)[1]) if total >= _SMALLEST_UNIT else 1.0


def sums(size: int) -> tuple[Column, Column]:
    """Native aggregates of rows that have `LOAD`: its sum for each instance, wrong ones apart, and that of squares. All rows
    are added up, and exactly: there is a place for every instance."""
    places = min(max(_LEAST_PLACES, (2 * size - 1).bit_length()), _MOST_PLACES)
    by_instance = f"base64(tuple_sketch_agg_double({WEIGHED_AT}, {LOAD}, {places})) as by_instance"
    return F.expr(by_instance), F.expr(f"sum({LOAD} * {LOAD}) as squares")


def read_sums(row: Any, size: int, unit: float) -> Sums | None:
    """What `sums` gave, in a Row of Java or of Python; None where no rows were computed."""
    by_instance, squares = (row[at] if isinstance(row, tuple) else row.get(at) for at in range(2))
    found, there = tuple_sums(base64.b64decode(by_instance or ""), 2 * size)
    if not there.any():
        return None
    loads = np.minimum(found[:size], _LARGEST_SUM)
    rows = max(_least_rows(loads), _rows(float(loads.sum()), 0.0 if squares is None else float(squares)))
    return Sums(Weighed(loads * unit, rows), int(found[size:].sum() / _WRONG))


def _rows(total: float, squares: float) -> float:
    """How many rows of one weight say as much as these; 0 where the squares are no numbers any more."""
    return total / squares * total if 0.0 < squares < math.inf else 0.0


def _least_rows(loads: F64) -> float:
    """As many they are at the least, however unequal they may be: as many as if an instance had one row."""
    most = float(loads.max(initial=0.0))
    if most == 0.0:
        return 0.0
    shares = loads / most
    return float(shares.sum() ** 2 / np.square(shares).sum())
