"""Keys that take too long for an instance, cut into as many parts as they need and their rows allow."""

import numpy as np
import pytest

from evenly.costs.group_parts import in_parts
from evenly.costs.group_report import GroupMeter
from evenly.costs.group_times import GroupTimes
from evenly.keys.hot_keys import split_in_parts
from evenly.keys.mapping import Mapping

OTHERS_S = 50.0


def learnt(time_s, **keys):
    """Times of groups of all sizes, and of keys of their own: how many rows, and how many times as long."""
    meter = GroupMeter()
    for at, rows in enumerate([1, 10, 30, 100, 300, 1000] * 4):
        meter.add(100 + at, rows, time_s(rows))
    for key, (rows, times) in keys.items():
        meter.add(int(key[1:]), rows, times * time_s(rows))
    return GroupTimes().learn([meter.report(0)])


def cut(times, rows, instances=8):
    ids, rows = np.arange(1, len(rows) + 1), np.array(rows, np.float64)
    whole_s = times.estimates.seconds_of(ids, rows)[0]
    return whole_s, in_parts(times.estimates, ids, rows, whole_s, total_s=float(whole_s.sum()) + OTHERS_S, instances=instances)


@pytest.mark.parametrize(("power", "parts"), [(1, 6), (2, 4)])
def test_a_part_takes_what_a_group_of_its_rows_takes(power, parts):
    whole_s, found = cut(learnt(lambda rows: 100.0 * (rows / 1000) ** power), [1000, 10])
    assert whole_s[0] == pytest.approx(100.0, rel=0.1)
    assert found.fewest.tolist() == [parts, 1]
    assert found.seconds[0] == pytest.approx(whole_s[0] * parts / parts**power, rel=0.1)
    assert found.longest_s[0] == pytest.approx(found.seconds[0] / parts)
    share_s = (found.seconds.sum() + OTHERS_S) / 8
    assert found.longest_s.max() <= share_s
    assert found.seconds[1] == whole_s[1]


def test_a_key_has_no_more_parts_than_rows_and_one_of_a_single_row_stays_whole():
    times = learnt(lambda rows: rows / 1000, k1=(3, 1e5), k2=(1, 1e5))
    whole_s, found = cut(times, [3, 1])
    assert found.most.tolist() == [3, 1]
    assert found.fewest.tolist() == [3, 1]
    assert found.longest_s[1] == whole_s[1]


def test_before_times_are_known_rows_count():
    _, found = cut(GroupTimes(), [1000, 30])
    assert found.fewest.tolist() == [8, 1]


def test_split_keys_are_in_as_many_parts_as_they_need_and_instances_alike():
    rng = np.random.default_rng(3)
    mapping = Mapping(
        instances=8,
        buckets=np.arange(64, dtype=np.int32) % 8,
        a=3,
        b=5,
        heavy_keys=np.array([11, 22, 33], np.uint64),
        heavy_instances=np.zeros(3, np.int32),
        heavy_weights=np.array([300.0, 80.0, 20.0]),
        bucket_weights=rng.uniform(1.0, 2.0, 64),
    )
    split = split_in_parts(mapping, np.array([5, 2, 1]), np.array([8, 2, 1]))
    assert split.split_keys().tolist() == [11, 22]
    assert 5 <= len(split.shares(11)) <= 8
    assert len(split.shares(22)) == 2
    assert split.fitted_loads.sum() == pytest.approx(mapping.fitted_loads.sum())
    assert split.fitted_imbalance_pct < 10.0
    whole = split_in_parts(mapping, np.array([5, 2, 1]), np.ones(3, np.int64))
    assert not whole.needs_merge
    assert whole.light == mapping
