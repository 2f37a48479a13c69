"""An operator's Python code: named `module:name` in a file, or itself in Python."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from evenly.errors import InvalidDataflow


def load(target: str) -> Callable[..., Any]:
    """What `module:name` stands for. A module beside the caller's folder is found, as `python` itself would find it."""
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise InvalidDataflow(f"a function is given as module:name, got {target!r}")
    here = "" not in sys.path
    if here:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidDataflow(f"{target} cannot be loaded: {error}") from error
    finally:
        if here:
            sys.path.remove("")
    if not callable(found):
        raise InvalidDataflow(f"{target} is no function and no class: {found!r}")
    return found  # type: ignore[no-any-return] # it is callable


def target_of(function: str | Callable[..., Any]) -> str:
    """The name of a function by which it is loaded again; what has none is refused."""
    if isinstance(function, str):
        return function
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    target = f"{module}:{name}"
    if not module or module == "__main__" or "<" in name:
        raise InvalidDataflow(f"{name or function!r} has no name to write down: move it to a module of its own")
    if load(target) is not function:
        raise InvalidDataflow(f"{target} is another function now: move this one to a module of its own")
    return target
