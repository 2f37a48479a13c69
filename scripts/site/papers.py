"""The papers: a page for each, cut out of the table of verdicts that `make papers` writes."""

from __future__ import annotations

import re

FOLDER = "papers"
_SECTION = re.compile(r"^## (?=.)", re.MULTILINE)
_COMMAND = re.compile(r"`evenly paper ([a-z-]+)")
_BECAME = ("reproduced", "not reproduced", "undecided", "not rerun")


def paper_pages(text: str) -> tuple[str, dict[str, str]]:
    """The page with the counts alone, and the page of each paper by its name; `text` is docs/papers.md."""
    counts, *sections = _SECTION.split(text)
    pages: dict[str, str] = {}
    for section in sections:
        title, _, body = section.partition("\n")
        found = _COMMAND.search(body)
        if found is None:
            raise ValueError(f"docs/papers.md: the section {title!r} names no command")
        pages[f"{FOLDER}/{found[1]}"] = f"# {title}\n\n{_summary(counts, found[1])}\n{body}"
    for page in pages:
        name = page.removeprefix(f"{FOLDER}/")
        counts = re.sub(rf"^\| {name} \|", f"| [{name}]({page}.md) |", counts, flags=re.MULTILINE)
    return counts, pages


def _summary(counts: str, name: str) -> str:
    """What became of a paper's statements, from its line in the table of counts."""
    found = re.search(rf"^\| {name} \|(.*)\|$", counts, re.MULTILINE)
    if found is None:
        raise ValueError(f"docs/papers.md: no counts of {name!r}")
    stated, independent, *became = (int(cell) for cell in found[1].split("|"))
    of_these = ", ".join(f"{count} {word}" for count, word in zip(became, _BECAME, strict=True))
    told = f"{stated} statements, of which {independent} are independent of what was put in: {of_these}."
    return f"{told} [What these words mean](../papers.md)."
