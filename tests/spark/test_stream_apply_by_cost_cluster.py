"""`stream_apply_by_cost` on a cluster of three workers: one is killed, a task fails twice, one is copied, one executor slow."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("psutil", reason="processes of a cluster are found with psutil")
pytestmark = pytest.mark.long

ROWS, BATCHES = 240, 4


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYTHONWARNINGS"] = "ignore"
    folder = tmp_path_factory.mktemp("cluster")
    command = [sys.executable, Path(__file__).with_name("clustered_costs.py"), folder]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, cwd=folder)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_all_of_it_happened(told):
    assert told["marks"] == ["copied 0", "copied 1", "failed 0", "failed 1", "killed"]
    assert told["even"] == [True, False, False, False]


def test_results_are_complete_and_nothing_is_there_twice(told):
    assert {int(number): ids for number, ids in told["written"].items()} == {
        number: list(range(number * ROWS, (number + 1) * ROWS)) for number in range(BATCHES)
    }


def test_costs_are_counted_as_if_nothing_had_happened(told):
    """An undisturbed run counts every row of a batch once: ten kinds of as many rows each."""
    assert told["rows"] == [ROWS] * BATCHES
    assert told["counts"] == [[ROWS / 10] * 10] * BATCHES


def test_a_slow_executor_gets_less_within_two_batches(told):
    assert told["partitions"][0] == 2
    assert max(told["partitions"][2:]) > 2
    assert max(told["slow share"][2:]) < 0.4


def test_what_a_function_prints_is_in_the_executors_log(told):
    assert told["printed"] >= ROWS
