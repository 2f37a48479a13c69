"""How a kernel is compiled: one decorator, so that every kernel is built in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` with numba on its first call, without Python objects and without the GIL.

    The machine code is kept on disk where the package folder or the user's cache folder can be
    written. Where neither can (a package inside a zip file on an executor, a read-only image) it is
    compiled again in each process instead of failing.
    """
    try:
        return cast(Callable[P, R], numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:
        return cast(Callable[P, R], numba.njit(nogil=True, error_model="numpy")(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a small step that other kernels call: LLVM puts its body into each of its callers."""
    return cast(Callable[P, R], numba.njit(nogil=True, error_model="numpy")(function))
