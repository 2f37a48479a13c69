"""What is sent to a worker that cuts its instance into groups itself, and where each column of it is found.

Spark makes a pandas frame of a whole batch there, and two things would get lost on the way. A null among integers turns
them all into floats (and among booleans into objects), in every group of the batch: so such a column is sent without nulls,
beside a flag that says where they were. And two keys may look the same in pandas (two timestamps of the hour that
daylight saving time repeats; null and NaN), or be costly to compare there (structs): so these are sent once more in a
comparable form, or with a flag of their nulls.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
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

from evenly.spark.keyed.keys import name_parts, quoted
from evenly.worker.groups.layout import Layout


@dataclass(frozen=True)
class Sent:
    """What is sent: the columns in SQL, over columns that are called `c0`, `c1`, … by their place; and where each is found."""

    columns: tuple[str, ...]
    layout: Layout

    def of(self, rows: DataFrame) -> DataFrame:
        """What is sent of `rows`. No name of a user's is in the text, so none can mean something else there."""
        plain = rows.toDF(*map(_at, range(self.layout.width))) if self.layout.width else rows
        if self.columns == tuple(map(_at, range(self.layout.width))):
            return plain
        return plain.selectExpr(*(f"{column} as {_at(position)}" for position, column in enumerate(self.columns)))


def lay_out(
    schema: StructType, names: tuple[str, ...], kinds: tuple[DataType, ...], *, flagged: bool, with_id: bool = False
) -> Sent:
    """What to send of rows of `schema` with the key `names` of types `kinds`.

    `flagged` says whether nulls of integers and booleans travel as flags, `with_id` whether the key's id comes last.
    """
    sent = [(_at(at), field.dataType, field.nullable) for at, field in enumerate(schema)]
    # Where case counts, two columns may differ in it alone: the key is the one that is spelled so.
    exact = {name: at for at, name in enumerate(schema.names)}
    folded = {name.lower(): at for name, at in exact.items()}
    keys = []
    for name, kind in zip(names, kinds, strict=True):
        column, *fields = name_parts(name)
        at = exact.get(column, folded[column.lower()])
        if fields:
            keys.append(len(sent))
            sent.append((".".join([_at(at), *map(quoted, fields)]), kind, True))
        else:
            keys.append(at)
    columns = [column for column, _, _ in sent]
    flag_of: dict[int, int] = {}
    for position, (column, kind, nullable) in enumerate(sent):
        if flagged and nullable and isinstance(kind, (IntegralType, BooleanType)):
            columns[position] = f"coalesce({column}, cast(0 as {kind.simpleString()}))"
            flag_of[position] = len(columns)
            columns.append(f"{column} is null")
    compared = []
    for position in keys:
        column, kind, _ = sent[position]
        if isinstance(kind, (TimestampType, ArrayType, StructType)):
            compared.append(len(columns))
            columns.append(f"to_json(named_struct('_', {_texts(column, kind)}))")
            continue
        compared.append(position)
        if position in flag_of:
            compared.append(flag_of[position])
        elif flagged and isinstance(kind, (FloatType, DoubleType)):
            compared.append(len(columns))
            columns.append(f"{column} is null")
    carried = (*schema.names, *(f"key {position}" for position in range(len(schema.names), len(sent))))
    at_id = -1
    if with_id:
        at_id = len(columns)
        columns.append(f"xxhash64({', '.join(sent[position][0] for position in keys)})")
    layout = Layout(len(schema.names), len(sent), tuple(flag_of.items()), tuple(keys), tuple(compared), carried, at_id)
    return Sent(tuple(columns), layout)


def _at(position: int) -> str:
    return f"c{position}"


def _texts(value: str, kind: DataType, depth: int = 0) -> str:
    """The value with a text in place of every leaf: as JSON it is the same exactly for values that Spark groups together.

    JSON itself would round timestamps, and tell -0.0 from 0.0.
    """
    if isinstance(kind, StructType):
        fields = [f"'_{at}', {_texts(f'{value}.{quoted(field.name)}', field.dataType, depth)}" for at, field in enumerate(kind)]
        return f"if({value} is not null, named_struct({', '.join(fields)}), null)"
    if isinstance(kind, ArrayType):
        return f"transform({value}, e{depth} -> {_texts(f'e{depth}', kind.elementType, depth + 1)})"
    if isinstance(kind, TimestampType):
        return f"cast(unix_micros({value}) as string)"
    if isinstance(kind, (StringType, BinaryType)):
        return f"hex({value})"
    if isinstance(kind, (FloatType, DoubleType)):
        return f"cast({value} + cast(0 as {kind.simpleString()}) as string)"
    return f"cast({value} as string)"
