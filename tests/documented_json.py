"""Whether what a command prints with --json is what docs/json.md says, name and type."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "json.md"
KINDS = {
    "text": str,
    "number": (int, float),
    "whole number": int,
    "true or false": bool,
    "list": list,
    "null": type(None),
}


@cache
def documented():
    """The types of every field."""
    lines = re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \| [^|]+ \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    fields = {}
    for name, told in lines:
        assert name not in fields, f"{name} stands twice in {PAGE.name}"
        kinds = [told] if told in KINDS else re.split(r", | or ", told)
        fields[name] = [KINDS[kind] for kind in kinds]
    return fields


def fits(value, kinds):
    if isinstance(value, bool):
        return bool in kinds
    return any(isinstance(value, kind) for kind in kinds)


def check(printed):
    """`printed` is one object as text."""

    def refused(constant):
        raise AssertionError(f"{constant} is not JSON: {printed[:300]}")

    found = json.loads(printed, parse_constant=refused)
    assert set(found) == {"command", "version", "parameters", "results"}
    for result in found["results"]:
        if result.get("operator") == "spark":
            continue
        for name, value in result.items():
            kinds = documented().get(name)
            assert kinds is not None, f"{found['command']} prints {name!r}, which {PAGE.name} does not have"
            assert fits(value, kinds), f"{found['command']} prints {name} = {value!r}, and {PAGE.name} has another type"
    return found
