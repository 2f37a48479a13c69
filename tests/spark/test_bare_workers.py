"""Everything that needs Python on the executors, where their Python has neither Evenly nor numba: a cluster of two workers."""

import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytest.importorskip("psutil", reason="the executor to be killed is found with psutil")
from faults.cluster import Cluster, environment

NEEDED = ("pyarrow", "pandas", "numpy")
GIVEN = {"apply_by_key": True, "aggregate_by_key": True, "apply_by_cost": True, "send": 1_800, "before": 2}


def bare(folder, *libraries, python=sys.executable):
    """A Python of its own that sees these libraries and what they need of those that are installed here, and nothing else."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    sites = next(folder.glob("lib/python3.*/site-packages"))
    for name in needed(libraries):
        found = distribution(name)
        for top in {file.parts[0] for file in found.files if file.parts[0] != ".." and "__pycache__" not in file.parts}:
            sites.joinpath(top).symlink_to(found.locate_file(top))
    return folder / "bin" / "python"


def needed(libraries):
    """These distributions and all that they cannot do without."""
    waiting, found = list(libraries), set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            asked = (Requirement(each) for each in distribution(name).requires or ())
            waiting.extend(each.name for each in asked if each.marker is None or each.marker.evaluate({"extra": ""}))
    return found


def ran(folder, master, python, *arguments, **more):
    told = environment(folder) | {"PYSPARK_PYTHON": str(python)} | more
    del told["PYTHONPATH"]
    script = Path(__file__).with_name("bare_workers.py")
    command = [sys.executable, script, master, folder, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=told, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    started = Cluster(tmp_path_factory.mktemp("cluster"), ("127.0.0.2", "127.0.0.3"))
    yield started
    started.close()


def test_nothing_of_evenly_is_installed_on_the_executors(cluster, tmp_path):
    python = bare(tmp_path / "bare", *NEEDED)
    assert subprocess.run([python, "-c", "import evenly"], capture_output=True, check=False).returncode
    told = ran(tmp_path, cluster.address, python)
    assert GIVEN.items() <= told.items()
    assert told["newSession"]
    assert told["path of the driver"] == []


@pytest.mark.long
def test_an_executor_is_killed_in_mid_stage(cluster, tmp_path):
    told = ran(tmp_path, cluster.address, bare(tmp_path / "bare", *NEEDED, "psutil"), "kill")
    assert GIVEN.items() <= told.items()
    assert told["killed"]
    assert told["timed"]
    assert told["remembered"]


@pytest.mark.long
def test_a_python_without_pyarrow_is_told_in_a_sentence(cluster, tmp_path):
    told = ran(tmp_path, cluster.address, bare(tmp_path / "bare"), "first")
    assert re.match(r"WrongPython: the Python of a Spark worker \(.*\): it has no (numpy|pyarrow)", told["error"])


@pytest.mark.long
def test_a_python_of_another_version_is_told_in_a_sentence(cluster, tmp_path):
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    others = filter(None, (shutil.which(f"python3.{minor}") for minor in (14, 13, 12, 11, 10) if f"3.{minor}" != here))
    # A name may be there, and whatever it stands for not.
    other = next((it for it in others if not subprocess.run([it, "--version"], check=False).returncode), None)
    if other is None:
        pytest.skip("there is no Python of another version")
    told = ran(tmp_path, cluster.address, bare(tmp_path / "bare", python=other), "first")
    assert told["error"].startswith("WrongPython: Spark's Python workers run Python 3.")


@pytest.mark.long
@pytest.mark.parametrize("master", ["connect", "local[2]"])
def test_on_this_machine_too(master, tmp_path):
    """A server of Spark Connect, and a kernel whose environment is not activated; temporary files in a path with spaces."""
    if master == "connect":
        pytest.importorskip("grpc", reason="Spark Connect needs pip install 'evenly[connect]'")
    spaced = tmp_path / "a b"
    spaced.mkdir()
    told = ran(tmp_path, master, bare(tmp_path / "bare", *NEEDED), TMPDIR=str(spaced), SPARK_LOCAL_DIRS=str(spaced))
    assert GIVEN.items() <= told.items()
