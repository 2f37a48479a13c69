"""What is sent to a worker that cuts its instance into groups itself, and where each column of it is found.

Spark makes a pandas frame of a whole batch there, and two things would get lost on the way. A null among integers turns
them all into floats (and among booleans into objects), in every group of the batch: so such a column is sent without nulls,
beside a flag that says where they were. And two keys may look the same in pandas (two timestamps of the hour that
daylight saving time repeats; null and NaN), or be costly to compare there (structs): so these are sent once more in a
comparable form, or with a flag of their nulls.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

from evenly.spark.keyed.keys import quoted, spelled
from evenly.worker.groups.layout import Layout


def lay_out(
    schema: StructType, names: tuple[str, ...], kinds: tuple[DataType, ...], *, flagged: bool
) -> tuple[list[Column], Layout]:
    """The columns to send for rows of `schema` with the key `names` of types `kinds`, and their layout.

    `flagged` says whether nulls of integers and booleans travel as flags.
    """
    sent = [(F.col(quoted(field.name)), field.dataType, field.nullable) for field in schema]
    # Where case counts, two columns may differ in it alone: the key is the one that is spelled so.
    exact = {spelled(name): at for at, name in enumerate(schema.names)}
    folded = {name.lower(): at for name, at in exact.items()}
    keys = []
    for name, kind in zip(names, kinds, strict=True):
        if name in exact or name.lower() in folded:
            keys.append(exact.get(name, folded[name.lower()]))
        else:
            keys.append(len(sent))
            sent.append((F.col(name), kind, True))
    columns = [column for column, _, _ in sent]
    flag_of: dict[int, int] = {}
    for position, (column, kind, nullable) in enumerate(sent):
        if flagged and nullable and isinstance(kind, (IntegralType, BooleanType)):
            columns[position] = F.coalesce(column, F.lit(0).cast(kind))
            flag_of[position] = len(columns)
            columns.append(column.isNull())
    compared = []
    for position in keys:
        column, kind, _ = sent[position]
        if isinstance(kind, (TimestampType, ArrayType, StructType)):
            compared.append(len(columns))
            columns.append(F.to_json(F.struct(_texts(column, kind).alias("_"))))
            continue
        compared.append(position)
        if position in flag_of:
            compared.append(flag_of[position])
        elif flagged and isinstance(kind, (FloatType, DoubleType)):
            compared.append(len(columns))
            columns.append(column.isNull())
    carried = (*schema.names, *(f"key {position}" for position in range(len(schema.names), len(sent))))
    layout = Layout(len(schema.names), len(sent), tuple(flag_of.items()), tuple(keys), tuple(compared), carried)
    return [column.alias(f"c{position}") for position, column in enumerate(columns)], layout


def _texts(column: Column, kind: DataType) -> Column:
    """The value with a text in place of every leaf: as JSON it is the same exactly for values that Spark groups together.

    JSON itself would round timestamps, and tell -0.0 from 0.0.
    """
    if isinstance(kind, StructType):
        fields = [_texts(column.getField(field.name), field.dataType).alias(f"_{index}") for index, field in enumerate(kind)]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        inner = kind.elementType
        return F.transform(column, lambda element: _texts(element, inner))
    if isinstance(kind, TimestampType):
        return F.unix_micros(column).cast("string")
    if isinstance(kind, (StringType, BinaryType)):
        return F.hex(column)
    if isinstance(kind, (FloatType, DoubleType)):
        return (column + F.lit(0.0).cast(kind)).cast("string")
    return column.cast("string")
