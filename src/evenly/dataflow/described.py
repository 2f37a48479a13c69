"""YAML files read so that every complaint names the file and the line.

Only plain data is read (safe loading: no tags, no objects). Anchors and aliases are refused, because a short file could
stand for an endless one, and so is a key that occurs twice.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from evenly.errors import EvenlyError

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 12
_POWER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
_PLAIN = {"str", "int", "float", "bool", "null"}
Text = TypeVar("Text", bound=str)


@dataclass(frozen=True, eq=False)
class Described:
    """A value in a file: `value` is a dict or list of `Described`, or a string, number, boolean or None, and `written` is how
    such a plain one stands there."""

    value: Any
    file: str
    line: int
    complaint: type[EvenlyError]
    written: str = ""

    def error(self, message: str) -> EvenlyError:
        """The error to raise about this value."""
        return self.complaint(f"{self.file}, line {self.line}: {message}")

    def fields(self, what: str, *, needs: tuple[str, ...] = (), may_have: tuple[str, ...] = ()) -> dict[str, Described]:
        """The values by name, where all that `needs` names is there and nothing unknown."""
        found = self.mapping(what)
        for name in found.keys() - set(needs) - set(may_have):
            raise found[name].error(f"{what} has no {name!r}: it may have {', '.join((*needs, *may_have))}")
        for name in needs:
            if name not in found:
                raise self.error(f"{what} needs {name!r}")
        return found

    def mapping(self, what: str) -> dict[str, Described]:
        """The values by name, whatever the names."""
        if not isinstance(self.value, dict):
            raise self.error(f"{what} must be names with values, got {self._shown()}")
        found: dict[str, Described] = self.value
        return found

    def items(self, what: str) -> list[Described]:
        """The values of a list."""
        if not isinstance(self.value, list):
            raise self.error(f"{what} must be a list, got {self._shown()}")
        found: list[Described] = self.value
        return found

    def text(self, what: str, *, one_of: tuple[Text, ...] = (), blank: bool = False) -> str:
        """A string, one of those given if any are, and with something in it unless it may be blank."""
        if not isinstance(self.value, str) or not (blank or self.value.strip()):
            raise self.error(f"{what} must be text, got {self._shown()}{self._quoted()}")
        if one_of and self.value not in one_of:
            raise self.error(f"{what} must be one of {', '.join(one_of)}, got {self.value!r}")
        return self.value

    def number(self, what: str, *, least: float = -math.inf, most: float = math.inf, above: float = -math.inf) -> float:
        """A finite number in the range. `1e-3` is one, though YAML takes only `1.0e-3` for it."""
        number = float(self.written) if isinstance(self.value, str) and _POWER.fullmatch(self.written) else self.value
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise self.error(f"{what} must be a number, got {self._shown()}")
        if not (least <= number <= most and number > above):
            limits = [f"at least {least:g}"] * (least > -math.inf) + [f"above {above:g}"] * (above > -math.inf)
            limits += [f"at most {most:g}"] * (most < math.inf)
            raise self.error(f"{what} must be {' and '.join(limits)}, got {number:g}")
        return float(number)

    def whole(self, what: str, *, least: int = 0, most: int = 10**9) -> int:
        """A whole number in the range."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not least <= self.value <= most:
            raise self.error(f"{what} must be a whole number from {least} to {most}, got {self._shown()}")
        return self.value

    def truth(self, what: str) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.error(f"{what} must be true or false, got {self._shown()}")
        return self.value

    def _quoted(self) -> str:
        """What to do with a plain value that is no text to YAML: 1, yes, on, no, null."""
        if not self.written or isinstance(self.value, (str, dict, list)):
            return ""
        return f': write "{self.written}" in quotes, if that is meant'

    def _shown(self) -> str:
        if isinstance(self.value, dict):
            return f"names with values ({', '.join(list(self.value)[:3])})"
        if isinstance(self.value, list):
            return f"a list of {len(self.value)}"
        return "nothing" if self.value is None else repr(self.value)


def read_described(path: str | os.PathLike[str], complaint: type[EvenlyError]) -> Described:
    """The content of a YAML file; every error is a `complaint`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise complaint(f"{path} is not a file: give the path of a YAML file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise complaint(f"{path} cannot be read as a text file: {error}") from error
    return described(text, str(path), complaint)


def described(text: str, file: str, complaint: type[EvenlyError]) -> Described:
    """The content of YAML text that came from `file`."""
    try:
        root = yaml.compose(text, _LOADER)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise complaint(f"{file}, line {line}: this is not YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise complaint(f"{file}: this is not YAML: {' '.join(str(error).split())}") from error
    if root is None:
        raise complaint(f"{file} is empty: it must describe something")
    return _Reader(file, complaint).read(root, 0)


class _Reader:
    def __init__(self, file: str, complaint: type[EvenlyError]) -> None:
        self.file = file
        self.complaint = complaint
        self.seen: set[int] = set()
        self.construct: Any = yaml.SafeLoader("")

    def read(self, node: Any, depth: int) -> Described:
        here = Described(None, self.file, node.start_mark.line + 1, self.complaint)
        if id(node) in self.seen:
            raise here.error("a value is used twice by anchor and alias: write it out instead")
        self.seen.add(id(node))
        if depth > _DEEPEST:
            raise here.error(f"values are nested more than {_DEEPEST} deep")
        written = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
        return Described(self._value(node, depth, here), self.file, here.line, self.complaint, written)

    def _value(self, node: Any, depth: int, here: Described) -> Any:
        if not node.tag.startswith("tag:yaml.org,2002:") or "python" in node.tag:
            return self._refuse(node, here)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, depth + 1) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            found: dict[str, Described] = {}
            for name, value in node.value:
                key = Described(None, self.file, name.start_mark.line + 1, self.complaint)
                if not isinstance(name, yaml.ScalarNode):
                    raise key.error("a name must be text")
                if name.value in found:
                    raise key.error(f"{name.value!r} is given twice: first in line {found[name.value].line}")
                found[name.value] = self.read(value, depth + 1)
            return found
        kind = node.tag.rpartition(":")[2]
        if kind not in _PLAIN:
            return str(node.value) if kind == "timestamp" else self._refuse(node, here)
        return self.construct.construct_object(node, deep=True)

    @staticmethod
    def _refuse(node: Any, here: Described) -> Any:
        raise here.error(f"only plain text and numbers are read, not {node.tag!r}")
