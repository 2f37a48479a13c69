"""Copies of what a caller gave, so that a run can be repeated."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

from evenly.errors import InvalidParameter

Given = TypeVar("Given")


def fresh(given: Given, what: str) -> Given:
    """A copy of what a caller gave, which a run may change."""
    try:
        return deepcopy(given)
    except Exception as error:
        raise InvalidParameter(
            f"{what} {type(given).__name__} cannot be copied ({error}), and a run changes its own copy: "
            "let it hold plain values, or give it __deepcopy__"
        ) from error
