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


def test_an_unknown_name_is_an_attribute_error_that_names_it_and_the_one_that_was_meant():
    with pytest.raises(AttributeError, match=r"module 'evenly' has no attribute 'by_kye': did you mean 'by_key'\?"):
        _ = evenly.by_kye
    with pytest.raises(AttributeError, match=r"module 'evenly' has no attribute 'xyz'$"):
        _ = evenly.xyz


def test_completion_shows_the_public_names_and_nothing_else():
    assert [name for name in dir(evenly) if not name.startswith("__")] == sorted(evenly.__all__)


def test_commands_are_loaded_when_they_are_called():
    """What takes seconds to load, for the version, the help and a mistake in a command's name."""
    for arguments in (["--version"], ["--help"], ["simulte"]):
        program = (
            f"import sys; sys.argv = ['evenly', *{arguments}]\nfrom evenly.cli.main import main\n"
            "try: main()\nexcept SystemExit: pass\n"
            "print(sorted({'numpy', 'numba', 'matplotlib', 'pyarrow', 'pyspark', 'jinja2'} & set(sys.modules)))"
        )
        done = run(program)
        assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_a_shell_completes_commands_and_their_options():
    for words, found in (("evenly di", "diagnose"), ("evenly diagnose lo", "log"), ("evenly demo --wa", "--wait-us")):
        asked = {"_EVENLY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        program = f"import os, sys; os.environ.update({asked}); sys.argv = ['evenly']\nfrom evenly.cli.main import main; main()"
        assert found in run(program).stdout.split()
