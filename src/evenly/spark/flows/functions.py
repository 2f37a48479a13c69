"""The functions of a dataflow, made to reach Spark's workers."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from evenly.dataflow.functions import load
from evenly.dataflow.graph import Operator

_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def loaded(one: Operator) -> Callable[..., Any]:
    """The function of an operator. One of a module that is not installed, such as a file beside the dataflow, goes to workers
    by its code, for they cannot import it; what else that module imports has to be there."""
    found = load(one.function) if isinstance(one.function, str) else one.function
    module = sys.modules.get(getattr(found, "__module__", None) or "")
    if module is not None and module.__name__ != "__main__" and _beside(module):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return found


def _beside(module: Any) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or module.__name__.partition(".")[0] == "evenly":
        return False
    return not any(Path(file).is_relative_to(folder) for folder in _INSTALLED)
