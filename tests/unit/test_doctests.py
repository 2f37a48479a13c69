"""What stands behind prompts in docstrings gives what is written under it."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import evenly

PACKAGE = Path(evenly.__file__).parent
PROMPTED = sorted(path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text("utf-8"))


@pytest.mark.parametrize("path", PROMPTED, ids=str)
def test_examples_give_what_they_say(path):
    if "spark" in path.parts:
        pytest.importorskip("pyspark")
    module = import_module(".".join(path.with_suffix("").parts))
    outcome = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.attempted > 0
    assert outcome.failed == 0
