"""Every operation of the campaign: how it is run, and what plain Spark says."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from faults import costed, flowed, keyed, sent, streamed
from faults.work import Rows, Work


class Operation(NamedTuple):
    """`expected` is plain Spark without faults; `only` makes its rows those that `run` gives."""

    run: Callable[[Work], Rows]
    expected: Callable[[Work], Rows]
    only: Callable[[Rows], Rows] = list


OPERATIONS = {
    "group_pandas": Operation(keyed.group_pandas, keyed.groups, keyed.only_groups),
    "group_native": Operation(keyed.group_native, keyed.groups, keyed.only_groups),
    "window": Operation(keyed.window, keyed.ranks),
    "join": Operation(keyed.join, keyed.pairs),
    "hot_join": Operation(keyed.hot_join, keyed.hot_pairs),
    "write": Operation(keyed.write, keyed.written_rows),
    "cogroup": Operation(keyed.cogroup, keyed.matches),
    "place": Operation(keyed.place, keyed.groups, keyed.only_groups),
    "saved_mapping": Operation(keyed.saved_mapping, keyed.groups, keyed.only_groups),
    "remembered": Operation(keyed.remembered, keyed.groups, keyed.only_groups),
    "split": Operation(keyed.split, keyed.groups, keyed.only_groups),
    "aggregate": Operation(keyed.aggregate, keyed.groups, keyed.only_groups),
    "apply_pandas": Operation(keyed.apply_pandas, keyed.groups, keyed.only_groups),
    "apply_arrow": Operation(keyed.apply_arrow, keyed.groups, keyed.only_groups),
    "timed": Operation(keyed.timed, keyed.groups, keyed.only_groups),
    "cost": Operation(costed.cost, costed.every_row),
    "send": Operation(sent.send, sent.bodies),
    "flow": Operation(flowed.batch, flowed.every_sink),
    "diagnose": Operation(keyed.diagnose, keyed.counts),
    "stream_count": Operation(streamed.count, keyed.groups, keyed.only_groups),
    "stream_dedup": Operation(streamed.dedup, streamed.distinct),
    "stream_window": Operation(streamed.window, streamed.windows),
    "stream_join": Operation(streamed.join, streamed.meetings),
    "stream_move": Operation(streamed.count, keyed.groups, keyed.only_groups),
    "stream_apply": Operation(streamed.apply, keyed.groups, keyed.only_groups),
    "stream_cost": Operation(streamed.cost, costed.every_row),
    "stream_send": Operation(streamed.send, sent.bodies),
    "stream_flow": Operation(streamed.flow, flowed.every_sink),
}
