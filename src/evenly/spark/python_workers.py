"""Whether Spark starts its Python workers with a Python that can run us, asked once of an application, before its first job.

Spark starts them with `PYSPARK_PYTHON`, or with whatever `python3` is on the PATH: where an environment is not activated (a
kernel of Jupyter, an IDE, cron) that is another Python, and every task would fail with a traceback of that one. It is looked
at where workers run on this machine; on a cluster the machines that run them know.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any
from weakref import WeakSet

from evenly.errors import WrongPython
from evenly.spark.features import Found

_REMEDY = (
    "Before the session is started, set os.environ['PYSPARK_PYTHON'] = sys.executable, or activate the environment "
    "(evenly.local_session does that for you); a session that runs already must be stopped first"
)
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
_AND_US = f"{_VERSION}; import evenly.worker, pyarrow"
_PATIENCE_S = 120

_right: WeakSet[Any] = WeakSet()


def check_python(spark: Any) -> None:
    """Refuse a session of this machine whose workers would run a Python without Evenly, or of another version."""
    if Found.of(spark).connect or spark.sparkContext in _right:
        return
    context = spark.sparkContext
    if context.master.startswith("local"):
        # Files that were added to the application may bring Evenly along.
        _check(context.pythonExec, _VERSION if context.listFiles else _AND_US)
    _right.add(context)


def _check(named: str, question: str) -> None:
    python = shutil.which(named)
    if python is None:
        raise WrongPython(f"Spark's Python workers would run {named!r}, which is not there. {_REMEDY}")
    if os.path.abspath(python) == os.path.abspath(sys.executable):  # noqa: PTH100 - a link to the same file may be another environment
        return
    try:
        asked = subprocess.run(  # noqa: S603 - the program that Spark is about to run
            [python, "-c", question], capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise WrongPython(f"Spark's Python workers would run {python}, which does not run: {error}. {_REMEDY}") from error
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    version = asked.stdout.strip().rsplit("\n", 1)[-1]  # what an environment greets with comes before it
    if version and version != here:
        raise WrongPython(f"Spark's Python workers would run {python}, Python {version}, and this is Python {here}. {_REMEDY}")
    if asked.returncode:
        why = asked.stderr.strip().rsplit("\n", 1)[-1]
        raise WrongPython(
            f"Spark's Python workers would run {python}, not {sys.executable}, and it lacks what is needed ({why}). {_REMEDY}"
        )
