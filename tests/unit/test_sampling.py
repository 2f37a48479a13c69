"""How many rows to learn from."""

import math

import pytest

from evenly.keys.sampling import Sampling, rows_wanted


def test_a_finer_tolerance_or_more_instances_need_a_larger_sample():
    assert rows_wanted(64, 1.0) > rows_wanted(64, 2.0) > rows_wanted(16, 2.0)


@pytest.mark.parametrize("instances", [1, 8, 64, 10_000])
@pytest.mark.parametrize("tolerance_pct", [0.5, 2.0, 20.0])
def test_a_sample_of_known_rows_keeps_the_tolerance(instances, tolerance_pct):
    wanted = rows_wanted(instances, tolerance_pct)
    for rows in (wanted + 1, 3 * wanted - 1, 1_000 * wanted):
        stands = Sampling(wanted, rows, exactly=True).stands
        by_chance = 100.0 * math.sqrt(2.0 * math.log(max(instances, 2)) * instances * stands / rows)
        assert by_chance <= tolerance_pct


def test_all_are_taken_where_there_are_few_or_all_are_asked_for():
    assert Sampling(1_000, 1_000).stands == 1
    assert Sampling(1_000, 1_999, exactly=True).stands == 1
    assert Sampling(None, 10**9, exactly=True).stands == 1


def test_a_sample_much_smaller_than_asked_for_shows_that_the_number_of_rows_was_wrong():
    counted = Sampling(1_000, 10**9, exactly=True)
    assert counted.least == 500
    assert counted.uncounted() == Sampling(1_000)
    assert [
        it.least for it in (Sampling(None), Sampling(1_000), Sampling(1_000, 10**9), Sampling(1_000, 900, exactly=True))
    ] == [0] * 4


@pytest.mark.parametrize("sampling", [Sampling(1_000), Sampling(1_000, 5_000)])
def test_rows_that_are_not_counted_stand_for_what_their_places_say(sampling):
    assert sampling.stands is None


def test_tasks_follow_the_rows_and_large_samples_are_summed_where_they_are_read():
    assert Sampling(250_000, 1_000).tasks == 1
    assert Sampling(250_000).tasks == 4
    assert Sampling(250_000, 10**9, exactly=True).tasks == 4
    assert Sampling(rows_wanted(10_000, 2.0)).tasks is None
    assert Sampling(None, 10).tasks is None


def test_only_a_sample_that_is_known_to_be_small_is_read_row_by_row():
    assert Sampling(250_000, 10**9, exactly=True).is_small
    assert Sampling(250_000, 499_999, exactly=True).is_small
    assert Sampling(250_000, 200_000).is_small
    assert Sampling(None, 500_000).is_small
    for other in (Sampling(None), Sampling(250_000), Sampling(250_000, 10**9), Sampling(10**6, 10**9, exactly=True)):
        assert not other.is_small
