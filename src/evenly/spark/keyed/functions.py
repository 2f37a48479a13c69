"""What a user's grouped function must look like, seen at the call: one result for one group."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from evenly.errors import InvalidParameter

_ITERATED = re.compile(r"(^|\.)(Async)?(Iterator|Iterable|Generator)\b")


def check_function(function: Any) -> None:
    """Refuse what cannot be called, or whose arguments nobody can tell."""
    if not callable(function):
        raise InvalidParameter(f"function must be a function of a group, or of its key and the group, got {function!r}")
    try:
        inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(
            f"{function!r} does not say what arguments it takes ({error}): give a function around it, lambda group: ..."
        ) from error


def check_no_iterator(function: Callable[..., Any], what: str) -> None:
    """Refuse a generator, a coroutine, and a function that says that it takes or returns an iterator, as Spark's may."""
    bare = function
    while isinstance(bare, functools.partial):
        bare = bare.func
    called = bare if inspect.isroutine(bare) or inspect.isclass(bare) else getattr(bare, "__call__", bare)  # noqa: B004 - the method, not whether there is one
    kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    if any(kind(called) for kind in kinds) or any(_iterates(hint) for hint in _hints(called)):
        raise InvalidParameter(
            f"{what} takes or yields an iterator ({getattr(bare, '__name__', bare)!s}): it must take a whole group and return "
            "one result; put several together, as in pandas.concat(...)"
        )


def _hints(called: Callable[..., Any]) -> list[Any]:
    try:
        return list(typing.get_type_hints(called).values())
    except (NameError, TypeError, AttributeError):  # a hint that cannot be resolved here is looked at as it is written
        return list(getattr(called, "__annotations__", {}).values())


def _iterates(hint: Any) -> bool:
    if isinstance(hint, str):
        return _ITERATED.search(hint.split("[", 1)[0]) is not None
    origin = typing.get_origin(hint) or hint
    return isinstance(origin, type) and origin.__module__ == "collections.abc" and issubclass(origin, _abstract())


def _abstract() -> tuple[type, ...]:
    return (Iterator, Iterable, AsyncIterator)
