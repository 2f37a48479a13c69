"""Where a page of the site stands: sections in order, and in each its pages by name, without their ending.

A page that nothing names here stands in the section "More", so a page that is added is never lost, and a page that is named
before it is written is left out until it is there.
"""

from __future__ import annotations

from collections.abc import Iterable

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("tutorial", "which", "gallery"),
    "How to": (
        "howto/unequal-keys",
        "howto/hot-keys",
        "howto/unequal-rows",
        "howto/streaming-state",
        "howto/sending",
        "howto/sizing",
    ),
    "Guides": (
        "diagnose",
        "keys",
        "streaming",
        "costs",
        "emission",
        "dataflows",
        "planning",
        "cluster",
        "operating",
        "watch",
        "facts",
        "simulation",
        "python",
    ),
    "Evidence": ("measured", "compared", "shuffle", "papers"),
    "How it works": ("architecture", "how/*"),
    "Reference": ("names", "json", "dependencies", "changelog", "contributing"),
}
MORE = "More"
START = "index"


def sections(pages: Iterable[str], within: Iterable[str]) -> dict[str, list[str]]:
    """The pages of each section; pages below one of the folders `within` belong to a page that lists them itself."""
    folders = tuple(f"{folder}/" for folder in within)
    left = {page for page in pages if page != START and not page.startswith(folders)}
    found: dict[str, list[str]] = {}
    for title, names in SECTIONS.items():
        for name in names:
            matching = sorted(page for page in left if page == name or (name.endswith("/*") and page.startswith(name[:-1])))
            found.setdefault(title, []).extend(matching)
            left -= set(matching)
    if left:
        found[MORE] = sorted(left)
    return {title: of_title for title, of_title in found.items() if of_title}


def toctree(pages: Iterable[str], *, caption: str | None = None, hidden: bool = True) -> str:
    """A toctree in MyST's words."""
    options = [":hidden:"] if hidden else []
    options += [f":caption: {caption}"] if caption else []
    return "\n".join(["```{toctree}", *options, "", *(f"/{page}" for page in pages), "```", ""])
