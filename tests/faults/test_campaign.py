"""Schedules of the campaign whose seeds together have every operation and every fault; `make test-faults` runs 300."""

import json

import pytest

pytest.importorskip("pyspark", reason="the campaign needs PySpark")
pytest.importorskip("psutil", reason="processes of a cluster are found with psutil")

import quick_python
from faults.cluster import DAEMON, NoCluster
from faults.runner import Runner
from faults.schedule import covering, draw

SEEDS = [schedule.seed for schedule in covering(map(draw, range(300)))]
"""Of the 300: every operation, every fault and every input that differs."""


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    with pytest.MonkeyPatch.context() as inherited:
        quick_python.find_daemon(inherited)
        inherited.setenv(DAEMON, quick_python.DAEMON)
        try:
            running = Runner(tmp_path_factory.mktemp("campaign"))
        except NoCluster as error:
            pytest.skip(str(error))
        with running:
            yield running


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_plain_spark_and_nothing_is_left(runner, seed):
    schedule = draw(seed)
    outcome = runner.run(schedule)
    if outcome["verdict"] == "skipped":
        pytest.skip(outcome["why"])
    told = json.dumps(outcome, indent=1).replace("\\n", "\n")
    assert outcome["verdict"] in {"right", "refused"}, f"{schedule.told()}\n{told}\nagain: python -m faults --seed {seed}"
