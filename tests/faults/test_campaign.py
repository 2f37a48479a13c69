"""Schedules of the campaign whose seeds together have every operation and every fault; `make test-faults` runs 300."""

import json

import pytest

pytest.importorskip("pyspark", reason="the campaign needs PySpark")
pytest.importorskip("psutil", reason="processes of a cluster are found with psutil")

from faults.cluster import NoCluster
from faults.runner import Runner
from faults.schedule import KINDS, OPERATIONS, draw

SEEDS = (30, 32, 37, 76, 97, 112, 122, 130, 132, 158, 159, 167, 168, 170, 186, 192, 214, 234, 266, 287, 288, 296, 255, 269, 278)
"""Of the 300, one for each operation, with every fault, several lost executors and every input that differs; and one setting
of speculation, so that one driver serves all but the last three, which end it or start others."""


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    try:
        running = Runner(tmp_path_factory.mktemp("campaign"))
    except NoCluster as error:
        pytest.skip(str(error))
    with running:
        yield running


def test_the_seeds_have_every_operation_and_every_fault():
    schedules = [draw(seed) for seed in SEEDS]
    assert {schedule.operation for schedule in schedules} == set(OPERATIONS)
    assert {fault.kind for schedule in schedules for fault in schedule.faults} == set(KINDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_plain_spark_and_nothing_is_left(runner, seed):
    schedule = draw(seed)
    outcome = runner.run(schedule)
    if outcome["verdict"] == "skipped":
        pytest.skip(outcome["why"])
    told = json.dumps(outcome, indent=1).replace("\\n", "\n")
    assert outcome["verdict"] in {"right", "refused"}, f"{schedule.told()}\n{told}\nagain: python -m faults --seed {seed}"
