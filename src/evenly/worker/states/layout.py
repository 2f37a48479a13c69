"""What a worker must know of a query with a state for each key: its columns, and how states are written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa

from evenly.worker.results import Shape

Timeout = Literal["processing", "event"]
"""Which clock deadlines are read on: the time at which batches begin, or the watermark."""

NEVER = 2**63 - 1
"""The deadline of a key that has none."""
_ID, _DEADLINE = pa.field("id", pa.int32()), pa.field("deadline", pa.int64())


def as_written(schema: pa.Schema) -> pa.Schema:
    """A schema with types that have one form on disk: whether a session has Spark use Arrow's large types does not count."""
    small = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return _with_leaves(schema, lambda kind: small.get(kind, kind))


def in_zone(schema: pa.Schema, zone: str) -> pa.Schema:
    """A schema whose moments are in a time zone, at whatever depth."""
    return _with_leaves(
        schema, lambda kind: pa.timestamp(kind.unit, zone) if pa.types.is_timestamp(kind) and kind.tz is not None else kind
    )


def _with_leaves(schema: pa.Schema, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.Schema:
    return pa.schema([field.with_type(_with_leaf(field.type, leaf)) for field in schema])


def _with_leaf(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_leaf(field.type, leaf)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_with_leaf(kind.value_type, leaf)))
    if pa.types.is_map(kind):
        return pa.map_(_with_leaf(kind.key_type, leaf), kind.item_field.with_type(_with_leaf(kind.item_type, leaf)))
    return leaf(kind)


@dataclass(frozen=True)
class StateLayout:
    """Rows come with the user's `columns` first, then what makes up the key as far as it is no column, and then the key's id.

    `sent` are all these as Spark knows them, `keys` are the places of the key's values among them, `key` their names and types,
    and `state` is what a key's state has. `mark` stands for key and state in what is written down: what another layout wrote is
    refused, and never read as if it were ours.
    """

    columns: pa.Schema
    sent: pa.Schema
    keys: tuple[int, ...]
    key: pa.Schema
    state: Shape
    results: Shape
    timeout: Timeout | None
    mark: bytes

    @property
    def packs(self) -> bool:
        """Whether rows come many in one value. Where Spark drops late ones it has to see each of them."""
        return self.timeout != "event"

    @cached_property
    def entry(self) -> pa.Schema:
        """The columns of states that are written down: id, deadline (where there are any), key and state."""
        key = [pa.field(f"key{at}", field.type) for at, field in enumerate(self.key)]
        state = [pa.field(f"state{at}", field.type) for at, field in enumerate(self.state.schema)]
        return pa.schema([*self.before_key, *key, *state])

    @property
    def before_key(self) -> list[pa.Field]:
        return [_ID] if self.timeout is None else [_ID, _DEADLINE]
