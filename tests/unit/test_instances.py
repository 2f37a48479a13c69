"""How many instances are chosen where nobody says it, and why."""

import pytest

from evenly.errors import InvalidParameter
from evenly.instances import AUTO, MOST_ROWS, Auto, MeasuredTimes, Slots, asked_instances, choose_instances

SIXTEEN = Slots(16, "16 tasks can run at once")


def slots(running=None, **settings):
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return Slots.of(names.get, running)


DYNAMIC = {"spark_dynamicAllocation_enabled": "true", "spark_executor_cores": "4", "spark_sql_shuffle_partitions": "200"}


@pytest.mark.parametrize(
    ("found", "number", "told"),
    [
        (slots(3, spark_master="local[3]"), 3, "the master is local[3]"),
        (slots(None, spark_master="local[6]"), 6, "local[6]"),
        (slots(None, spark_master="local[6, 2]", spark_task_cpus="2"), 3, "local[6, 2]"),
        (slots(None, spark_master="local"), 1, "local"),
        (slots(4, spark_master="local[4]", **DYNAMIC), 4, "local[4]"),
        (slots(12, spark_master="spark://host:7077"), 12, "12 tasks can run at once"),
        (slots(4, spark_master="yarn", spark_executor_instances="8", spark_executor_cores="4"), 32, "8 executors of 4 tasks"),
        (slots(40, spark_master="yarn", spark_executor_instances="8", spark_executor_cores="4"), 40, "40 tasks"),
        (
            slots(0, spark_master="yarn", spark_executor_instances="8", spark_executor_cores="4", spark_task_cpus="2"),
            16,
            "8 executors of 2 tasks",
        ),
        (slots(8, spark_dynamicAllocation_maxExecutors="20", **DYNAMIC), 80, "up to 80 tasks"),
        (slots(8, spark_dynamicAllocation_maxExecutors="1000", **DYNAMIC), 200, "spark.sql.shuffle.partitions is 200"),
        (slots(8, spark_dynamicAllocation_maxExecutors="2147483647", **DYNAMIC), 200, "without a limit"),
        (slots(8, **DYNAMIC), 200, "without a limit"),
        (slots(400, **DYNAMIC), 400, "400 tasks can run now"),
        (slots(0, spark_master="spark://host:7077", spark_cores_max="24"), 24, "spark.cores.max is 24"),
    ],
)
def test_slots_are_what_runs_or_what_was_asked_for(found, number, told):
    assert found.number == number
    assert told in found.told


def test_where_nothing_is_said_slots_are_not_known():
    assert slots(None) is None
    assert slots(0, spark_master="local[*]") is None
    assert slots(0, spark_executor_instances="many", spark_dynamicAllocation_enabled="false") is None


def test_there_are_as_many_instances_as_slots():
    found = choose_instances(SIXTEEN)
    assert str(found) == "16 instances: as many as slots (16 tasks can run at once)"
    assert choose_instances(SIXTEEN, keys=1_000, rows=1e6, heaviest=0.05).number == 16


def test_fewer_keys_than_slots_are_as_many_instances():
    found = choose_instances(SIXTEEN, keys=5)
    assert found.number == 5
    assert "as many as keys" in found.why
    assert choose_instances(SIXTEEN, keys=0).number == 16


def test_a_heavy_key_is_told_and_does_not_lower_the_number_because_its_rows_may_be_cheap():
    found = choose_instances(SIXTEEN, heaviest=0.25)
    assert found.number == 16
    assert "One key has 25.0% of the rows, 4.0 times an instance's share: no number of instances helps that" in found.why
    assert "and is split" in choose_instances(SIXTEEN, heaviest=0.25, may_split=True).why


@pytest.mark.parametrize(("rows", "rounds"), [(16 * MOST_ROWS, 1), (16 * MOST_ROWS + 1, 2), (1e12, 4)])
def test_many_rows_take_a_multiple_of_the_slots(rows, rounds):
    assert choose_instances(SIXTEEN, rows=rows).number == 16 * rounds


def test_a_long_group_needs_only_what_ends_with_it():
    found = choose_instances(SIXTEEN, times=MeasuredTimes(100.0, 20.0))
    assert found.number == 6
    assert found.why == "the longest takes 20 s of 100 s, and all others end with it"
    assert choose_instances(SIXTEEN, times=MeasuredTimes(100.0, 5.0)).number == 16
    assert choose_instances(SIXTEEN, times=MeasuredTimes(100.0, 100.0)).number == 1
    assert choose_instances(SIXTEEN, times=MeasuredTimes(0.0)).number == 16


@pytest.mark.parametrize("slots_there", [1, 2, 7, 64, 1_000])
@pytest.mark.parametrize("longest", [0.001, 0.1, 0.4, 0.9])
def test_fewer_instances_are_never_slower_by_the_times_that_were_measured(slots_there, longest):
    found = choose_instances(Slots(slots_there, ""), times=MeasuredTimes(1e4, 1e4 * longest))
    if found.number < slots_there:
        assert (1.0 - longest) / (found.number - 1) <= longest / 1.2
    else:
        assert found.number == slots_there


def test_work_of_a_moment_is_not_cut_into_a_thousand_tasks():
    assert choose_instances(Slots(1_000, ""), times=MeasuredTimes(1.0)).number == 32
    assert choose_instances(Slots(1_000, ""), times=MeasuredTimes(1e6)).number == 1_000


def test_the_number_has_a_limit():
    assert choose_instances(Slots(40_000, ""), rows=1e15).number == 10_000
    assert choose_instances(SIXTEEN, rows=1e15, most=40).number == 32
    assert "not more can be placed evenly" in choose_instances(SIXTEEN, most=8).why


def test_what_is_asked_for_is_checked():
    assert asked_instances(AUTO) == Auto()
    assert asked_instances(AUTO, same_rows=True).few_keys_count
    assert not asked_instances(AUTO, same_rows=True, may_split=True).few_keys_count
    assert not asked_instances(AUTO).few_keys_count
    assert asked_instances(7) == 7
    for wrong in ("8", "AUTO", "", 0, 2.5, None, True):
        with pytest.raises(InvalidParameter, match="whole number from 1 to 10000"):
            asked_instances(wrong)
