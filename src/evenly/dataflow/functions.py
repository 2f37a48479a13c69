"""An operator's Python code: named `module:name` in a file, or itself in Python."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

from evenly.dataflow.graph import Dataflow, Operator
from evenly.errors import InvalidDataflow

_GETS = {
    "row": ("a row",),
    "batch": ("an Arrow batch",),
    "frame": ("a DataFrame",),
    "state": ("a DataFrame",),
    "source": ("the session",),
    "sink": ("a DataFrame", "the batch's number"),
}
_MADE_FOR_EACH_TASK = ("row", "batch")


def check_functions(flow: Dataflow) -> None:
    """Refuse a function that is not there, or that could not be called as its operator calls it."""
    for one in flow.operators:
        if not one.function:
            continue
        try:
            found = load(one.function) if isinstance(one.function, str) else one.function
        except InvalidDataflow as error:
            raise flow.error(f"the function of {one.name!r}: {error}", one) from error
        if wrong := _unfit(one, found):
            raise flow.error(f"the function of {one.name!r} ({_told(one.function)}) {wrong}", one)


def _unfit(one: Operator, found: Any) -> str:
    """What is wrong with a function, "" if nothing is."""
    if not callable(found):
        return f"is a {type(found).__name__} and not a function: give one"
    gets = _GETS[one.kind]
    if isinstance(found, type):
        return _unfit_class(one, found) or _unrun(one, _call_of(found))
    if not _takes(found, len(gets)):
        return f"is called with {' and '.join(gets)}, and takes other arguments: change what it takes"
    return _unrun(one, found if inspect.isroutine(found) else _call_of(type(found)))


def _unfit_class(one: Operator, found: type) -> str:
    gets = _GETS[one.kind]
    if one.kind not in _MADE_FOR_EACH_TASK:
        return f"is a class, which only row and batch operators make: give a function of {' and '.join(gets)}"
    called = _call_of(found)
    if called is None or not _takes(called, 2):
        return f"is a class whose objects are called with {gets[0]}, and they do not take it: give it such a __call__"
    if inspect.iscoroutinefunction(getattr(found, "close", None)):
        return "is a class with an async `close`, which nobody would run: make it a plain one"
    return "" if _takes(found, 0) else "is a class that is made without arguments, and needs some: give them defaults"


def _unrun(one: Operator, called: Any) -> str:
    """Of a function that would only begin to run when it is called, where nobody goes on with it."""
    if inspect.isasyncgenfunction(called):
        return "is an async generator: let it return a list"
    if one.kind == "batch" and inspect.isgeneratorfunction(called):
        return "is a generator: let it return one batch or table"
    if one.kind not in _MADE_FOR_EACH_TASK and (inspect.iscoroutinefunction(called) or inspect.isgeneratorfunction(called)):
        return "is an async function or a generator, which nobody would run here: make it a plain one"
    return ""


def _call_of(kind: type) -> Any:
    """What is called when an object of a class is."""
    return next((vars(it)["__call__"] for it in kind.__mro__ if "__call__" in vars(it)), None)


def _takes(function: Any, count: int) -> bool:
    """Whether a function can be called with so many arguments; what does not tell is believed."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _told(function: Any) -> str:
    return function if isinstance(function, str) else str(getattr(function, "__qualname__", repr(function)))


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
        raise InvalidDataflow(
            f"{target} cannot be loaded: {error}. Write it as module:name, and run where it is found"
        ) from error
    except Exception as error:
        raise InvalidDataflow(f"{target} cannot be loaded: its module raised {type(error).__name__}: {error}") from error
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
