"""What a performance model was measured of, so that it is not taken for another operator of the same name."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from hashlib import blake2s
from typing import Any

from evenly.dataflow.functions import load
from evenly.dataflow.graph import Dataflow, Operator
from evenly.errors import InvalidDataflow

_DIGEST_BYTES = 8


@dataclass(frozen=True)
class Subject:
    """An operator as it is described: its `kind`, its `function` as module:name, a digest of the `code` of that function ("":
    its source is not to be had), the `schema` of what leaves it and of what it `takes`, as far as a description has it.

    The code is that of the function or class itself, not of what it calls.
    """

    kind: str
    function: str = ""
    code: str = ""
    schema: str = ""
    takes: str = ""

    def another(self, now: Subject) -> str:
        """Why what was measured is another operator than the one that is described now; "" if it is the same."""
        if self.kind != now.kind:
            return f"of kind {self.kind}, and it is of kind {now.kind}"
        if self.function != now.function:
            return f"of the function {self.function}, and it has {now.function}"
        if _unnamed(self.function) and self.code != now.code:
            return f"of another {self.function}"
        return ""

    def changed(self, now: Subject) -> str:
        """What of the same operator is otherwise than when it was measured; "" if nothing is."""
        if self.code and now.code and self.code != now.code:
            return f"the code of {self.function} has changed"
        if self.code and not now.code:
            return f"the code of {self.function} is not to be had here, so nobody knows whether it is the same"
        for what, before, after in (("gives", self.schema, now.schema), ("takes", self.takes, now.takes)):
            if before and after and before != after:
                return f"it {what} {after!r} in place of {before!r}"
        return ""


def subject_of(flow: Dataflow, one: Operator) -> Subject:
    """What a model of an operator is of. A function that cannot be loaded has no code."""
    takes = {_plain(flow.by_name[edge.start].schema) for edge in flow.into[one.name]}
    return Subject(
        one.kind, _name(one.function), _code(one.function), _plain(one.schema), takes.pop() if len(takes) == 1 else ""
    )


def _name(function: Any) -> str:
    if isinstance(function, str):
        return function
    kind = function if hasattr(function, "__qualname__") else type(function)  # an object that can be called
    return f"{kind.__module__}:{kind.__qualname__}"


def _unnamed(function: str) -> bool:
    """Whether several functions may have this name: what a script or a notebook defines, and what is defined in a function."""
    return function.startswith("__main__:") or "<" in function


def _code(function: Any) -> str:
    try:
        found = load(function) if isinstance(function, str) else function
        found = inspect.unwrap(found)
        source = inspect.cleandoc(inspect.getsource(found if hasattr(found, "__qualname__") else type(found))).encode()
    except (InvalidDataflow, OSError, TypeError, ValueError):
        return ""
    if getattr(found, "__name__", "") == "<lambda>":  # its source is whole lines, which may have several
        source += found.__code__.co_code + repr(found.__code__.co_names).encode()
    return blake2s(source, digest_size=_DIGEST_BYTES).hexdigest()


def _plain(schema: str) -> str:
    return " ".join(schema.split())
