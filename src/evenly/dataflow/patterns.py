"""Paths of sources that are patterns, as Hadoop reads them: `/data/*.json`, `/data/{old,new}/part-?`."""

from __future__ import annotations

import re

_PARTS = re.compile(r"\\.|\[[^\]]+\]|.", re.DOTALL)
_MARKS = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")"}


def finds(pattern: str, at: str) -> bool:
    """Whether a pattern finds `at`, or a folder that it is in. Both end with a slash; a pattern that is none finds itself.

    >>> finds("/data/*.json/", "/data/out.json/"), finds("/data/in*/", "/data/out/")
    (True, False)
    """
    told, deep = "", 0
    for part in _PARTS.findall(pattern):
        deep += (part == "{") - (part == "}")
        if part in _MARKS:
            told += _MARKS[part]
        elif part == "," and deep:
            told += "|"
        else:
            told += part if part[0] == "[" else re.escape(part.removeprefix("\\"))
    try:
        return re.match(told, at) is not None
    except re.error:  # Spark says what is wrong with it
        return False
