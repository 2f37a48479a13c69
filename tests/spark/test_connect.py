"""`by_key`, `learn_mapping`, `apply_by_key` and `apply_by_cost` on Spark Connect, against a server that PySpark starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="Spark Connect needs pip install 'evenly[connect]'")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What a script says on a Connect session, of operations by key and by cost: one server is started for them all."""
    # A classic session of this process would have its own settings in the environment; the server is to start from none.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYTHONWARNINGS"] = "ignore"
    command, folder = [sys.executable, Path(__file__).with_name("connected.py")], tmp_path_factory.mktemp("connect")
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def told(both):
    return both["by key"]


def test_the_session_is_one_of_spark_connect(told):
    assert told["session"].startswith("pyspark.sql.connect")


def test_every_row_is_on_the_instance_of_its_key(told):
    assert told["rows by slot"] == told["rows by id"] == 5_000
    assert told["misplaced by slot"] == told["misplaced by id"] == 0


def test_a_mapping_is_learnt_from_the_rows(told):
    assert told["expected imbalance"] < 10.0


def test_a_number_of_instances_is_chosen_from_settings_or_from_the_default_parallelism(told):
    number, why, asked = told["chosen"]
    assert number == asked == 2
    assert "local[2]" in why


def test_groups_and_grouped_functions_give_sparks_results(told):
    assert told["grouped"]
    assert told["frames"]
    assert told["tables"]
    assert told["by time"]


def test_what_needs_a_folder_is_refused_with_what_to_do_instead(told):
    assert told["remember"].startswith("UnsupportedSpark: remember= of by_key needs folders")
    assert "mapping=Mapping.load(path)" in told["remember"]
    assert told["remember groups"].startswith("remember= of apply_by_key needs folders")
    assert "give times= the path" in told["remember times"]  # a mapping is refused beside balance="time"


def test_errors_are_those_of_a_classic_session(told):
    assert "'usr'" in told["error"]
    assert "user, amount" in told["error"]


def test_the_server_is_asked_how_it_hashes(told):
    assert told["slots lead"] is True


def test_what_needs_a_classic_session_says_so(told):
    assert told["classic only"].startswith("UnsupportedSpark: check_placement needs plans in the driver's Java")
    assert "through Spark Connect" in told["classic only"]


def test_apply_by_cost_works_on_connect(both):
    told = both["by cost"]
    assert told["session"].startswith("pyspark.sql.connect")
    assert told["learnt"]
    assert told["reused"]
    assert told["dealt"]
    assert told["in pieces"]
    assert told["decision"].startswith("by cost")
    assert max(told["estimated"]) < 1.05 * min(told["estimated"])
    assert not told["ready before"]
    assert told["reported"] == 600
    assert told["keys"] == 5
    assert "'kinds'" in told["error"]
    assert "id, kind" in told["error"]
    assert told["died"] == ["WorkerDied"]
    assert told["survived"] == 599
    assert "KeyError" in told["failed"]


def test_a_query_of_ones_own_is_told_on_connect_and_a_job_when_its_watch_is_asked(both):
    told = both["facts"]
    assert told["own"] == [
        ["query", "start", "own", True, None],
        ["query", "batch", "own", True, 30],
        ["query", "end", "own", True, None],
    ]
    assert told["job"] == [["batch", "start", None], ["batch", "batch", 24], ["batch", "end", None]]
    assert told["reported"] == 24
