"""Checks of values that several rooms take."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from evenly.errors import InvalidKeys, InvalidParameter
from evenly.kernels.types import F64

if TYPE_CHECKING:
    from evenly.sketches.hashing import Keys  # it loads kernels, and workers check numbers too

MAX_INSTANCES = 10_000


def checked_whole(value: int, name: str, least: int, most: int) -> int:
    """`value` if it is a whole number from `least` to `most`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise InvalidParameter(f"{name} must be a whole number from {least} to {most}, got {value!r}")
    return int(value)


def is_number(value: object) -> bool:
    """Whether it is a number, and not a truth value, which Python counts as one."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def checked_instances(instances: int) -> int:
    """`instances` if it is a whole number from 1 to 10,000."""
    return checked_whole(instances, "instances", 1, MAX_INSTANCES)


def checked_path(path: str | os.PathLike[str], name: str, what: str) -> str:
    """`path` as a text if it is one of the two; `name` is the parameter, and `what` it is the path of."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str) or not os.fspath(path):
        raise InvalidParameter(f"{name} must be the path of {what}, got {path!r}")
    return os.fspath(path)


def checked_queues(values: ArrayLike, instances: int, name: str) -> F64:
    """A copy of `values`, one number for each instance, finite and not negative."""
    return checked_numbers(values, name, instances, each=f"of {instances} instances")


def checked_numbers(values: ArrayLike, name: str, count: int | None, *, each: str) -> F64:
    """A copy of `values`, `count` numbers in one row (None: however many), finite and not negative."""
    try:
        numbers: F64 = np.array(values, np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidParameter(f"{name} must be numbers, got {values!r}") from error
    if numbers.ndim != 1 or count not in (None, numbers.size):
        raise InvalidParameter(f"{name} must have one number for each {each}, got shape {numbers.shape}")
    bad = ~(np.isfinite(numbers) & (numbers >= 0.0))
    if bad.any():
        at = int(np.argmax(bad))
        raise InvalidParameter(f"{name}[{at}] is {numbers[at]}: it must be finite and at least 0")
    return numbers


def tuple_count(keys: Keys) -> int:
    """How many tuples there are, for a grouping that does not look at their keys."""
    try:
        return len(keys)
    except TypeError as error:
        raise InvalidKeys(f"keys must be one sequence, got {keys!r}") from error


def only_begins(function: Callable[..., Any]) -> bool:
    """Whether a call of it does nothing but to make a coroutine or a generator, as far as can be seen before the call."""
    while isinstance(function, functools.partial):
        function = function.func
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    called = (function, getattr(function, "__call__", None))  # noqa: B004 - of an object
    return any(kind(one) for kind in kinds for one in called)


def has_only_begun(gave: object) -> bool:
    """Whether this is a coroutine, a generator or the like: what a function gave that has done nothing yet."""
    if inspect.iscoroutine(gave):
        gave.close()  # or Python warns that nobody awaited it
        return True
    return inspect.isawaitable(gave) or inspect.isgenerator(gave) or inspect.isasyncgen(gave)
