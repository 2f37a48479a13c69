"""Every public name is in the table of docs/names.md and has an example in its help; every dependency is explained."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import tomllib
from itertools import chain
from pathlib import Path

import pytest

import evenly

ROOT = Path(__file__).parents[2]


def examples(text: str) -> list[ast.Module]:
    """The code in a docstring: its indented lines, each block as a program, and what stands behind prompts."""
    prompted = "\n".join(line.strip()[4:] for line in text.splitlines() if line.strip().startswith((">>> ", "... ")))
    blocks = re.findall(r"(?:^ {4}.*\n?)+", re.sub(r"(?m)^- .*(?:\n {2}.*)*", "", text), re.MULTILINE)
    return [ast.parse(textwrap.dedent(block)) for block in (*blocks, prompted) if block.strip()]


def test_the_table_of_names_has_every_name_once():
    page = (ROOT / "docs" / "names.md").read_text(encoding="utf-8")
    names = [name for line in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", line)]
    assert sorted(names) == sorted(evenly.__all__)


def test_the_page_of_dependencies_has_every_one_of_them():
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    product = [*asked["project"]["dependencies"], *chain(*asked["project"]["optional-dependencies"].values())]
    table, _, development = (ROOT / "docs" / "dependencies.md").read_text("utf-8").partition("For development:")
    for part, wanted in ((table, product), (development, asked["dependency-groups"]["dev"])):
        told = set(re.findall(r"[a-z][\w-]+", part.lower()))
        assert {name for name in (re.match(r"[\w-]+", one)[0] for one in wanted) if name not in told} == set()


@pytest.mark.parametrize("name", evenly.__all__)
def test_help_has_an_example_that_is_python(name):
    pytest.importorskip("pyspark")
    found = examples(inspect.getdoc(getattr(evenly, name)) or "")
    assert found, f"help(evenly.{name}) has no example"
    called = {ast.unparse(node) for tree in found for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Name))}
    assert any(it.startswith("evenly.") or it == name for it in called)
