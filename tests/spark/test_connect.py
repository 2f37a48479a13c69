"""`by_key`, `learn_mapping` and `apply_by_key` on a Spark Connect session, against a server that PySpark starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="Spark Connect needs pip install 'evenly[connect]'")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    # A classic session of this process would have its own settings in the environment; the server is to start from none.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYTHONWARNINGS"] = "ignore"
    script = Path(__file__).with_name("connected.py")
    folder = tmp_path_factory.mktemp("connect")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=540, env=environment, cwd=folder)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_the_session_is_one_of_spark_connect(told):
    assert told["session"].startswith("pyspark.sql.connect")


def test_every_row_is_on_the_instance_of_its_key(told):
    assert told["rows by slot"] == told["rows by id"] == 5_000
    assert told["misplaced by slot"] == told["misplaced by id"] == 0


def test_a_mapping_is_learnt_from_the_rows(told):
    assert told["expected imbalance"] < 10.0


def test_groups_and_grouped_functions_give_sparks_results(told):
    assert told["grouped"]
    assert told["frames"]
    assert told["tables"]


def test_errors_are_those_of_a_classic_session(told):
    assert "'usr'" in told["error"]
    assert "user, amount" in told["error"]
