"""Every public name is in the README's table and has an example in its help."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path

import pytest

import evenly

README = Path(__file__).parents[2] / "README.md"


def examples(text: str) -> list[ast.Module]:
    """The code in a docstring: its indented lines, each block as a program, and what stands behind prompts."""
    prompted = "\n".join(line.strip()[4:] for line in text.splitlines() if line.strip().startswith((">>> ", "... ")))
    blocks = re.findall(r"(?:^ {4}.*\n?)+", re.sub(r"(?m)^- .*(?:\n {2}.*)*", "", text), re.MULTILINE)
    return [ast.parse(textwrap.dedent(block)) for block in (*blocks, prompted) if block.strip()]


def test_the_table_in_the_readme_has_every_name_once():
    section = README.read_text(encoding="utf-8").partition("### All names")[2].partition("\n#")[0]
    names = [name for line in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", line)]
    assert sorted(names) == sorted(evenly.__all__)


@pytest.mark.parametrize("name", evenly.__all__)
def test_help_has_an_example_that_is_python(name):
    pytest.importorskip("pyspark")
    found = examples(inspect.getdoc(getattr(evenly, name)) or "")
    assert found, f"help(evenly.{name}) has no example"
    called = {ast.unparse(node) for tree in found for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Name))}
    assert any(it.startswith("evenly.") or it == name for it in called)
