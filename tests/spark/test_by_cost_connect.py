"""`by_cost` on a Spark Connect session, against a server that PySpark starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="Spark Connect needs pip install 'evenly[connect]'")


def test_by_cost_works_on_connect(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYTHONWARNINGS"] = "ignore"
    script = Path(__file__).with_name("connected_costs.py")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=540, env=environment, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-4000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["session"].startswith("pyspark.sql.connect")
    assert told["learnt"]
    assert told["reused"]
    assert told["dealt"]
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
