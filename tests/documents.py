"""What the repository says to its readers: pages, and what stands in their fences."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples" / "README.md"]

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>.+?) -->\n)?^```(?P<kind>\w*)\n(?P<code>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL
)


def blocks(page, *kinds):
    """The fenced blocks of these kinds (`""`: without one) that are to be run; one that is not says why in front of it."""
    return [found["code"] for found in _BLOCK.finditer(page.read_text("utf-8")) if found["kind"] in kinds and not found["why"]]


def called(page):
    """How a page is named in a report."""
    return page.relative_to(ROOT).as_posix()
