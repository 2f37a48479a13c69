"""The reference: a page for every public name, from its signature and its docstring, which is Markdown as it stands."""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from textwrap import dedent
from typing import Any

import evenly

FOLDER = "reference"
_BLOCK = re.compile(r"(^(?: {4}.*\n?|[ \t]*\n)+)", re.MULTILINE)
_NAME = re.compile(r"(?<!\[)`(?:evenly\.)?(\w+)`")


def reference_pages() -> dict[str, str]:
    """The text of each page by its name."""
    return {f"{FOLDER}/{name}": _page(name) for name in evenly.__all__}


def linked_names(text: str, folder: str = "") -> str:
    """Public names in back-quotes, as links to their pages."""

    def linked(found: re.Match[str]) -> str:
        name = found[1]
        return f"[{found[0]}]({folder}{name}.md)" if name in evenly.__all__ else found[0]

    return _NAME.sub(linked, text)


def _page(name: str) -> str:
    thing = getattr(evenly, name)
    parts = [
        f"# `{name}`",
        "```python\n" + _signature(thing, name if inspect.isclass(thing) else f"evenly.{name}") + "\n```",
        _prose(thing, name),
    ]
    if inspect.isclass(thing) and not issubclass(thing, BaseException):
        parts += _members(thing)
    return "\n\n".join(parts) + "\n"


def _signature(thing: Any, name: str) -> str:
    word = "class " if inspect.isclass(thing) else ""
    try:
        signature = inspect.signature(thing)
    except ValueError:  # an exception of which Python does not know how it is made
        return f"{word}{name}(*details)"
    given = _parameters(signature)
    made = signature.return_annotation
    result = "" if made in (inspect.Signature.empty, "None", None) else f" -> {_annotation(made)}"
    one_line = f"{word}{name}({', '.join(given)}){result}"
    if len(one_line) <= 88:
        return one_line
    return f"{word}{name}(\n" + "".join(f"    {one},\n" for one in given) + f"){result}"


def _parameters(signature: inspect.Signature) -> list[str]:
    """Parameters as they are written, with the star before those that have to be named."""
    shown: list[str] = []
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not any(before.startswith("*") for before in shown):
            shown.append("*")
        star = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        typed = "" if one.annotation is one.empty else f": {_annotation(one.annotation)}"
        default = "" if one.default is one.empty else f"{' = ' if typed else '='}{_default(one.default)}"
        shown.append(f"{star}{one.name}{typed}{default}")
    return [one for one in shown if one != "self"]


def _annotation(annotation: Any) -> str:
    return annotation.strip("'") if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: object) -> str:
    shown = repr(value)
    return "..." if shown.startswith("<") else shown  # a factory of a data class


def _prose(thing: Any, name: str) -> str:
    parts = _BLOCK.split(inspect.getdoc(thing) or "")
    told = "".join(_fenced(part) if at % 2 else linked_names(part) for at, part in enumerate(parts))
    return told.replace(f"[`{name}`]({name}.md)", f"`{name}`")


def _fenced(block: str) -> str:
    code = dedent(block).strip("\n")
    return f"\n```python\n{code}\n```\n\n" if code.strip() else block


def _members(thing: type) -> list[str]:
    shown: list[str] = []
    for name in sorted(name for name in dir(thing) if not name.startswith("_")):
        owner = next(base for base in thing.__mro__ if name in vars(base))
        if not owner.__module__.startswith("evenly."):
            continue
        member, text = vars(owner)[name], _prose(getattr(thing, name), name)
        if isinstance(member, (property, cached_property)):
            shown.append(f"### `{name}`\n\n{text}")
        elif inspect.isfunction(member) or isinstance(member, (classmethod, staticmethod)):
            shown.append(f"### `{name}()`\n\n```python\n{_signature(getattr(thing, name), name)}\n```\n\n{text}")
    return ["## Properties and methods", *shown] if shown else []
