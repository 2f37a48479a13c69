"""How functions get to Spark's Python workers, so that nothing of Evenly has to be installed there.

At first use in an application (with Spark Connect in a session) three things happen, before its first job:

- Spark starts workers with `PYSPARK_PYTHON`, or with whatever `python3` is on the PATH: where an environment is not activated
  (a kernel of Jupyter, an IDE, cron) that is another Python. On this machine it is asked for its version and libraries.
- What workers need of Evenly is given to Spark as one file (`shipping/archive`), which every executor fetches before its next
  task, however late it comes. On this machine there is no need where workers find the very package that runs here.
- On a cluster one task says what its worker runs, so that a Python that does not fit is told in a sentence.

Each function then carries the name of that file, and a worker loads it with no other Evenly (`shipping/opening`).
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkFiles, cloudpickle

import evenly
from evenly.errors import WrongPython
from evenly.spark.features import Found
from evenly.spark.shipping import opening, processing
from evenly.spark.shipping.archive import worker_archive
from evenly.spark.shipping.installed import found_by_new_pythons
from evenly.spark.shipping.processing import LoadedProcessor
from evenly.spark.worker_errors import worker_errors
from evenly.worker.looking import LOOKED, looked

_LOG = logging.getLogger(__name__)

_REMEDY = (
    "Before the session is started, set os.environ['PYSPARK_PYTHON'] = sys.executable, or activate the environment "
    "(evenly.local_session does that for you); a session that runs already must be stopped first"
)
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
_QUESTION = f"{_VERSION}; import numpy, pyarrow; from importlib.util import find_spec; print(find_spec('pandas') is not None)"
_PATIENCE_S = 120

for by_value in (opening, processing):
    cloudpickle.register_pickle_by_value(by_value)  # type: ignore[no-untyped-call]


@dataclass
class _Workers:
    """The workers of an application: where their Evenly comes from, and whether they have pandas."""

    archive: str | None = None
    pandas: bool = True
    served: Path | None = None
    """The file that executors fetch, where it has to stay as long as the session."""


_asking = threading.Lock()
_known: WeakKeyDictionary[Any, _Workers] = WeakKeyDictionary()


def check_python(spark: Any, *, pandas: bool = False) -> None:
    """Refuse a session whose workers cannot run our functions, with `pandas` those over frames; send them what they need."""
    _workers(spark, pandas=pandas)


def on_workers(spark: Any, function: Callable[..., Any], *, pandas: bool = False) -> Callable[..., Any]:
    """`function` for one of Spark's Python functions: workers load it with the code of this Evenly or not at all."""
    return _OnWorkers(function, _workers(spark, pandas=pandas).archive)


def processor_on_workers(spark: Any, processor: object, states: str, schema: str) -> LoadedProcessor:
    """`processor` for `transformWithState`, with one list of states of this name and schema."""
    archive = _workers(spark, pandas=False).archive
    return LoadedProcessor(states, schema, _OnWorkers(processor, archive).loading())  # type: ignore[arg-type] # sent alike


class _OnWorkers:
    """A function that is pickled as a call of `opened`. To Spark it looks like the function itself."""

    def __init__(self, function: Callable[..., Any], archive: str | None) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self._function, self._archive = function, archive

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return opening.opened, self.loading()

    def loading(self) -> tuple[str, str | None, str, bytes]:
        """What `opened` is called with."""
        payload = cloudpickle.dumps(self._function)  # type: ignore[no-untyped-call]
        return evenly.__version__, self._archive, str(evenly.__file__), payload


def _workers(spark: Any, *, pandas: bool) -> _Workers:
    application = spark if Found.of(spark).connect else spark.sparkContext
    with _asking:
        found = _known.get(application)
        if found is None:
            found = _Workers()
            _prepare(spark, found)
            _known[application] = found
        if found.served is not None and not found.served.exists():
            _write(found.served)  # temporary files are cleared away on some machines; executors may still come
    if pandas and not found.pandas:
        raise WrongPython(
            "the Python of Spark's workers has no pandas, which a function over pandas frames needs there: install it in that "
            "Python, or give a function over Arrow tables where there is a choice (arrow=True)"
        )
    return found


def _prepare(spark: Any, workers: _Workers) -> None:
    if Found.of(spark).connect:
        workers.archive = worker_archive().name
        with tempfile.TemporaryDirectory(prefix="evenly-") as folder:
            spark.addArtifacts(str(_write(Path(folder) / workers.archive)), pyfile=True)
        _ask(spark, workers)
        return
    context = spark.sparkContext
    # Also called local are clusters of processes on this machine, which fetch files as any cluster does.
    here = context.master.startswith("local") and not context.master.startswith("local-cluster")
    if here:
        own, workers.pandas = _check(context.pythonExec)
        if own and found_by_new_pythons(Path(str(evenly.__file__))):
            return
    workers.archive = worker_archive().name
    workers.served = _serve(context, workers.archive)
    if here:
        _LOG.info("Spark's workers, %s, load Evenly %s from %s", context.pythonExec, evenly.__version__, workers.archive)
    else:
        _ask(spark, workers)


def _serve(context: Any, name: str) -> Path:
    # Executors fetch this very file, each when it comes. Spark clears away the folder when the application ends.
    folder = Path(tempfile.mkdtemp(prefix="evenly-", dir=Path(SparkFiles.getRootDirectory()).parent))
    served = _write(folder / name)
    context.addPyFile(str(served))
    # Spark puts it on the path of this process too, where other processes that are started from it would find a part of us.
    sys.path[:] = [path for path in sys.path if Path(path).name != name]
    return served


def _write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(worker_archive().data)
    return path


def _ask(spark: Any, workers: _Workers) -> None:
    """What a worker of a cluster runs, by a job of one task."""
    with worker_errors():
        told = spark.range(0, 1, 1, 1).mapInArrow(_OnWorkers(looked, workers.archive), LOOKED).collect()[0]
    workers.pandas = told.pandas
    _LOG.info(
        "Spark's workers, %s (Python %s), load Evenly %s from %s", told.executable, told.python, evenly.__version__, told.code
    )


def _check(named: str) -> tuple[bool, bool]:
    """Whether a Python of this machine is the one that runs here, and whether it has pandas; refused if it cannot run us."""
    python = shutil.which(named)
    if python is None:
        raise WrongPython(f"Spark's Python workers would run {named!r}, which is not there. {_REMEDY}")
    if os.path.abspath(python) == os.path.abspath(sys.executable):  # noqa: PTH100 - a link to the same file may be another environment
        return True, True
    try:
        asked = subprocess.run(  # noqa: S603 - the program that Spark is about to run
            [python, "-c", _QUESTION], capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise WrongPython(f"Spark's Python workers would run {python}, which does not run: {error}. {_REMEDY}") from error
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    said = asked.stdout.split()  # what an environment greets with comes before it
    version, pandas = (said[-2], said[-1]) if len(said) > 1 and not asked.returncode else ("".join(said[-1:]), "")
    if version and version != here:
        raise WrongPython(f"Spark's Python workers would run {python}, Python {version}, and this is Python {here}. {_REMEDY}")
    if asked.returncode:
        why = asked.stderr.strip().rsplit("\n", 1)[-1]
        raise WrongPython(
            f"Spark's Python workers would run {python}, not {sys.executable}, and it lacks what is needed ({why}). {_REMEDY}"
        )
    return False, pandas == "True"
