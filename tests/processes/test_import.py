"""Importing evenly is light: no Spark, no Java."""

from __future__ import annotations

import subprocess
import sys

import pytest

import evenly


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=900)


def test_import_does_not_load_pyspark():
    done = run("import evenly, sys; assert 'pyspark' not in sys.modules; print(evenly.__version__)")
    assert (done.returncode, done.stdout.strip()) == (0, evenly.__version__), done.stderr


def test_learning_and_routing_do_not_load_pyspark():
    program = (
        "import sys; from evenly.lab.rivals.keys import DKG; from evenly import Mapping;"
        "m = DKG(2).fit(['a', 'b', 'a']).mapping(); assert Mapping.from_json(m.to_json()) == m;"
        "import evenly.testing; assert 'pyspark' not in sys.modules"
    )
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_everything_works_where_pyspark_is_not_installed():
    done = run("import sys; sys.modules['pyspark'] = None; import evenly.testing, evenly.lab.rivals.keys, evenly.streams")
    assert done.returncode == 0, done.stderr


def test_by_key_without_pyspark_says_what_to_install():
    done = run("import sys; sys.modules['pyspark'] = None; import evenly; evenly.by_key")
    assert "MissingDependency" in done.stderr


@pytest.mark.parametrize("name", ["by_key", "learn_mapping"])
def test_names_that_work_on_dataframes_load_pyspark_when_first_used(name):
    pytest.importorskip("pyspark")
    done = run(f"import evenly, sys; assert callable(evenly.{name}); assert 'pyspark' in sys.modules")
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="module 'evenly' has no attribute 'by_kye'"):
        _ = evenly.by_kye
