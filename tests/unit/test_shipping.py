"""What is sent to Spark's workers: closed, without compiled code of ours, and the same bytes for the same sources."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import evenly
from evenly.spark.shipping.archive import archive_of, worker_archive, worker_sources
from evenly.spark.shipping.closure import closure, imports_of
from evenly.spark.shipping.installed import found_by_new_pythons
from evenly.spark.shipping.opening import opened

ALONE = """
import importlib, sys
sys.modules["numba"] = None
sys.path = [path for path in sys.path if not path.endswith("src")]
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
    assert sys.modules[name].__file__.startswith(sys.argv[1]), name
print(sum(name.split(".")[0] == "evenly" for name in sys.modules))
"""


@pytest.fixture
def sent(tmp_path):
    archive = worker_archive()
    path = tmp_path / "a folder" / archive.name
    path.parent.mkdir()
    path.write_bytes(archive.data)
    return path


def test_every_module_that_is_sent_loads_from_the_file_alone(sent):
    names = list(worker_sources())
    done = subprocess.run([sys.executable, "-c", ALONE, sent, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(names)  # nothing that was not sent is loaded with them


def test_all_of_the_workers_side_is_sent_and_no_more_than_it_needs():
    names = set(worker_sources())
    folder = Path(evenly.__file__).parent
    side = {".".join(path.relative_to(folder.parent).with_suffix("").parts) for path in folder.glob("worker/**/*.py")}
    assert {name.removesuffix(".__init__") for name in side} <= names
    assert not any(name.startswith(("evenly.spark", "evenly.cli", "evenly.lab", "evenly.report")) for name in names)


def test_the_same_sources_are_the_same_bytes_in_any_process():
    program = "from evenly.spark.shipping.archive import worker_archive; print(worker_archive().name)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == worker_archive().name


def test_another_source_or_version_has_another_name():
    one = archive_of({"evenly": b"a = 1\n"}, "1.0")
    assert archive_of({"evenly": b"a = 2\n"}, "1.0").name != one.name
    assert archive_of({"evenly": b"a = 1\n"}, "1.1").name != one.name


def test_imports_are_found_wherever_they_are():
    source = b"""
from typing import TYPE_CHECKING
import p.a
if TYPE_CHECKING:
    import p.typed
try:
    from p import b
except ImportError:
    import p.c
def function():
    if True:
        from p.d import name
class Class:
    def method(self):
        import p.e
"""
    loaded, called = imports_of(source)
    assert {"p.a", "p.b", "p.c"} <= loaded
    assert {"p.d", "p.d.name", "p.e"} <= called
    assert "p.typed" not in loaded | called


def test_what_needs_compiled_code_stays_behind():
    sources = {
        "p": b"",
        "p.root": b"import p.plain\ndef f():\n    import p.fast\n",
        "p.plain": b"",
        "p.fast": b"import p.kernel\nimport p.only_for_it\n",
        "p.kernel": b"import numba\n",
        "p.only_for_it": b"",
    }
    assert list(closure(["p.root"], sources.get, package="p", without="numba")) == ["p", "p.plain", "p.root"]


def test_an_installed_package_is_found_and_one_in_a_zip_or_elsewhere_is_not(tmp_path):
    assert found_by_new_pythons(Path(evenly.__file__))
    assert not found_by_new_pythons(tmp_path / "some.zip" / "evenly" / "__init__.py")
    (tmp_path / "evenly").mkdir()
    (tmp_path / "evenly" / "__init__.py").touch()
    assert not found_by_new_pythons(tmp_path / "evenly" / "__init__.py")


OTHER = """
import pickle, sys
sys.path.insert(0, sys.argv[3])
import evenly
assert evenly.__version__ == "0.0.other"
sys.path.insert(1, sys.argv[1])
opened = pickle.loads(bytes.fromhex(sys.stdin.read()))
import evenly
print(evenly.__version__, evenly.__file__.startswith(sys.argv[1]), opened.__module__)
"""


def test_a_worker_that_has_loaded_another_evenly_uses_the_one_that_was_sent(sent, tmp_path):
    from pyspark import cloudpickle

    from evenly.spark.python_workers import _OnWorkers
    from evenly.worker.looking import looked

    (tmp_path / "evenly").mkdir()
    (tmp_path / "evenly" / "__init__.py").write_text("__version__ = '0.0.other'\n")
    pickled = cloudpickle.dumps(_OnWorkers(looked, sent.name)).hex()
    command = [sys.executable, "-c", OTHER, sent, sent.name, tmp_path]
    done = subprocess.run(command, input=pickled, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [evenly.__version__, "True", "evenly.worker.looking"]


def test_a_worker_without_the_file_or_with_another_installed_evenly_says_so():
    with pytest.raises(RuntimeError, match=r"evenly-9\.zip is not on its path") as error:
        opened("9", "evenly-9.zip", "nowhere", pickle.dumps(1))
    assert f"{type(error.value).__module__}.{type(error.value).__name__}" == "evenly.errors.WrongPython"
    with pytest.raises(RuntimeError, match="and the driver Evenly 9 from"):
        opened("9", None, str(evenly.__file__), pickle.dumps(1))
    assert opened(evenly.__version__, None, str(evenly.__file__), pickle.dumps(1)) == 1
