"""Texts of plans, which are one call of the JVM where a walk would be many, and what they may be missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_BETWEEN = "\x1f\x1e"
_ID = re.compile(r"#(\d+)")
_COLUMN = re.compile(r"(.*)#(\d+)[A-Za-z]*(?:-T\d+ms)?", re.DOTALL)
_CUT = re.compile(r"\ATruncated plan of \d+|\.\.\. \d+ more characters\Z")


def is_cut(text: str) -> bool:
    """Whether the text of a plan ends before the plan does, as a setting may say (`spark.sql.maxPlanStringLength`)."""
    return _CUT.search(text) is not None


def texts_of(expressions: Any) -> list[str]:
    """The texts of many expressions, by one call where they can be told apart."""
    texts = str(expressions.mkString(_BETWEEN)).split(_BETWEEN)
    return texts if len(texts) == int(expressions.size()) else [str(expressions.apply(at)) for at in range(expressions.size())]


def ids_in(text: str) -> Iterator[int]:
    """The ids of the columns in the text of an expression."""
    return map(int, _ID.findall(text))


def name_and_id(text: str) -> tuple[str, int] | None:
    """The name and the id of a column, by its text; None for that of another expression."""
    told = _COLUMN.fullmatch(text)
    return (told[1], int(told[2])) if told else None


def names_and_ids(columns: Any) -> list[tuple[str, int]]:
    """The names and the ids of many columns, by one call where their texts tell them."""
    found = [name_and_id(text) for text in texts_of(columns)]
    told = [it for it in found if it is not None]
    if len(told) == len(found):
        return told
    each = (columns.apply(at) for at in range(len(found)))
    return [(str(it.name()), int(it.exprId().id())) for it in each]
