"""Texts of plans, which are one call of the JVM where a walk would be many, and what they may be missing."""

from __future__ import annotations

import re
from typing import Any

_BETWEEN = "\x1f\x1e"
_CUT = re.compile(r"\ATruncated plan of \d+|\.\.\. \d+ more characters\Z")


def is_cut(text: str) -> bool:
    """Whether the text of a plan ends before the plan does, as a setting may say (`spark.sql.maxPlanStringLength`)."""
    return _CUT.search(text) is not None


def texts_of(expressions: Any) -> list[str]:
    """The texts of many expressions, by one call where they can be told apart."""
    texts = str(expressions.mkString(_BETWEEN)).split(_BETWEEN)
    return texts if len(texts) == int(expressions.size()) else [str(expressions.apply(at)) for at in range(expressions.size())]
