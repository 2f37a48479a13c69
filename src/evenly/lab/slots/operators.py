"""An operator's Python function, named `module:function`, and how it is made in the process of a slot."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from evenly.errors import InvalidParameter

Function = Callable[[int], object]


@dataclass(frozen=True)
class OperatorSpec:
    """`target` is `module:name`: a function of one tuple number, or a class whose objects are called with it.

    An object is made once for each slot, with `options`. A class may have `serve()`, a context manager that is entered
    once outside the slots (to start a service, say) and gives the options.
    """

    target: str
    options: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Any:
        """What the name stands for."""
        module, colon, name = self.target.partition(":")
        if not colon or not module or not name:
            raise InvalidParameter(
                f"an operator is given as MODULE:FUNCTION, such as evenly.planning.examples:Pi, got {self.target!r}"
            )
        try:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise InvalidParameter(f"{self.target} cannot be loaded: {error}") from error
        if not callable(found):
            raise InvalidParameter(f"{self.target} is no function and no class: {found!r}")
        if isinstance(found, type) and not any("__call__" in base.__dict__ for base in found.__mro__):
            raise InvalidParameter(
                f"the class {self.target} has no method __call__(self, number), which is called for every tuple"
            )
        return found

    def make(self) -> Function:
        """The function to call for every tuple."""
        found = self.load()
        made: Function = found(**self.options) if isinstance(found, type) else found
        return made

    def service(self) -> AbstractContextManager[dict[str, Any]]:
        """What must run beside the slots; it gives the options for `make`."""
        found = self.load()
        serve = getattr(found, "serve", None)
        service: AbstractContextManager[dict[str, Any]] = nullcontext(self.options) if serve is None else serve(**self.options)
        return service
