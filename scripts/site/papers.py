"""The papers: a page for each, cut out of the table of verdicts that `make papers` writes."""

from __future__ import annotations

import re

FOLDER = "papers"
_SECTION = re.compile(r"^## (?=.)", re.MULTILINE)
_COMMAND = re.compile(r"`evenly paper ([a-z-]+)")


def paper_pages(text: str) -> tuple[str, dict[str, str]]:
    """The page with the counts alone, and the page of each paper by its name; `text` is docs/papers.md."""
    counts, *sections = _SECTION.split(text)
    pages: dict[str, str] = {}
    for section in sections:
        found = _COMMAND.search(section)
        if found is None:
            raise ValueError(f"docs/papers.md: the section {section.splitlines()[0]!r} names no command")
        pages[f"{FOLDER}/{found[1]}"] = f"# {section}"
    for page in pages:
        name = page.removeprefix(f"{FOLDER}/")
        counts = re.sub(rf"^\| {name} \|", f"| [{name}]({page}.md) |", counts, flags=re.MULTILINE)
    return counts, pages
