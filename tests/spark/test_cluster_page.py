"""What docs/cluster.md says about spark-submit, run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import evenly

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")


def block(kind):
    """The code of this kind in the section on spark-submit."""
    section = PAGE.partition("## A job for spark-submit")[2]
    return re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL).group(1)


def test_the_job_of_the_page_runs_under_spark_submit_as_the_page_says(tmp_path):
    (tmp_path / "job.py").write_text(block("python"), encoding="utf-8")
    told = ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in told}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment["PYTHONPATH"] = str(Path(evenly.__file__).parents[1])
    done = subprocess.run(
        ["sh", "-ec", block("sh")], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "100 users on 2 instances"
