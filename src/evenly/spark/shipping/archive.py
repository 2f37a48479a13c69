"""The file that workers load Evenly from: a zip of the modules that they need, the same bytes for the same sources.

Python loads modules from it as it is (zipimport). Each is there as compiled code too, or every worker would compile them all
anew; a Python of another version takes the source.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import MAGIC_NUMBER, source_hash

import evenly
from evenly.errors import WrongPython
from evenly.spark.shipping.closure import closure

_PACKAGE = evenly.__name__
_INIT = "__init__.py"
_UNCHECKED = 1  # compiled code that is taken without a look at its source
_AS_IT_IS = 2  # later formats depend on what else the process refers to
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_VERSION = re.compile(rb'^__version__ = "(.*)"$', re.MULTILINE)


@dataclass(frozen=True)
class Archive:
    """A zip of modules. Its name has the version and a digest of the content: no other code ever has it."""

    name: str
    data: bytes


@cache
def worker_archive() -> Archive:
    """What workers need of the Evenly that runs here. It is made once in a process, in some tenths of a second."""
    sources = worker_sources()
    told = _VERSION.search(sources[_PACKAGE])
    there = told.group(1).decode() if told else "none"
    if there != evenly.__version__:
        raise WrongPython(
            f"this Python runs Evenly {evenly.__version__}, and {evenly.__file__} is Evenly {there} by now: start it anew"
        )
    return archive_of(sources, evenly.__version__)


def worker_sources() -> dict[str, bytes]:
    """The sources of all modules that workers import, whether they are in a folder or in a zip or wheel themselves."""
    roots = list(_modules(files(_PACKAGE) / "worker", f"{_PACKAGE}.worker"))
    if not roots:
        raise WrongPython(
            f"the sources of Evenly are not where it was loaded from ({evenly.__file__}), and Spark's workers need them: "
            "install it from its wheel"
        )
    return closure(roots, _source, package=_PACKAGE, without="numba")


def archive_of(sources: dict[str, bytes], version: str) -> Archive:
    """The zip of these modules."""
    packages = {name.rpartition(".")[0] for name in sources}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as into:
        for name, source in sources.items():
            path = f"{name.replace('.', '/')}{'/__init__' if name in packages else ''}.py"
            into.writestr(_entry(path), source)
            if (compiled := _compiled(source, path)) is not None:
                into.writestr(_entry(f"{path}c"), compiled)
    data = written.getvalue()
    return Archive(f"evenly-{version}-{hashlib.sha256(data).hexdigest()[:16]}.zip", data)


def _entry(path: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, _LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _compiled(source: bytes, path: str) -> bytes | None:
    code = compile(source, path, "exec", dont_inherit=True, optimize=0)
    try:
        told = marshal.dumps(code, _AS_IT_IS)
    except ValueError:  # a constant of a later Python
        return None
    return MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + source_hash(source) + told


def _modules(folder: Traversable, package: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry, f"{package}.{entry.name}")
        elif entry.name == _INIT:
            yield package
        elif entry.name.endswith(".py"):
            yield f"{package}.{entry.name.removesuffix('.py')}"


def _source(name: str) -> bytes | None:
    """It is not asked of the import system, which would load what is around it."""
    *folders, last = ["", *name.split(".")[1:]]
    at = files(_PACKAGE).joinpath(*filter(None, folders))
    for entry in (at.joinpath(last, _INIT) if last else at.joinpath(_INIT), at.joinpath(f"{last}.py")):
        if entry.is_file():
            return entry.read_bytes()
    return None
