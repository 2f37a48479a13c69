"""Which instance a report of groups is of, whatever the number of the task that gave it."""

import numpy as np
import pytest

from evenly.costs.group_report import GroupMeter
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping
from evenly.spark.keyed.placed_reports import PlacedReports

FOUR = Mapping(instances=4, buckets=np.arange(4, dtype=np.int32), a=0, b=0, ids="xxhash64")
"""Key n is on instance n mod 4."""


def report(task, *keys, took_s=1.0):
    meter = GroupMeter()
    for key in keys:
        meter.add(key, 10, took_s)
    return meter.report(task)


def found(reports, mapping=FOUR, instances=4):
    placed = PlacedReports(instances, mapping)
    told = placed.of(reports)
    return [(it.instance, it.ids.tolist()) for it in told], placed.busy_s(told).tolist()


def test_tasks_of_a_union_and_of_a_coalesce_are_told_apart_also_without_groups():
    of_union = [report(13, 7), report(10, 4), report(11), report(12)]
    assert found(of_union) == ([(0, [4]), (1, []), (2, []), (3, [7])], [1.0, 0.0, 0.0, 1.0])
    of_one_task = [report(0), report(0, 5), report(0, 6, 2), report(0, 3)]
    assert found(of_one_task) == ([(0, []), (1, [5]), (2, [6, 2]), (3, [3])], [0.0, 1.0, 2.0, 1.0])


def test_what_ran_again_is_there_once():
    told = [report(0, 4, 8), report(1, 1), report(0, 8, 4, took_s=3.0), report(2), report(3), report(2)]
    assert found(told)[1] == [6.0, 1.0, 0.0, 0.0]
    assert len(found(told)[0]) == 4


def test_parts_of_keys_are_under_the_numbers_of_their_tasks():
    split = SplitMapping(
        FOUR, np.array([7], np.uint64), np.array([0, 2]), np.array([1, 3], np.int32), part_loads=np.array([1.0, 1.0])
    )
    told = [report(1, 7), report(3, 7), report(0), report(2, 2, 6)]
    assert found(told, split) == ([(0, []), (1, [7]), (2, [2, 6]), (3, [7])], [0.0, 1.0, 2.0, 1.0])
    assert found([*told, report(3, 7, took_s=5.0)], split)[1] == [0.0, 1.0, 2.0, 5.0]


def test_pieces_are_joined_and_without_a_mapping_tasks_are_counted_from_the_first():
    assert found([report(3, 3), report(0, 4, took_s=5.0), report(1), report(2, 2)], instances=2)[1] == [5.0, 2.0]
    assert found([report(11, 4), report(10, 5)], None, 2) == ([(11, [4]), (10, [5])], [1.0, 1.0])


@pytest.mark.parametrize("mapping", [FOUR, None])
def test_nothing_is_told_of_nothing(mapping):
    assert found([], mapping) == ([], [0.0] * 4)
