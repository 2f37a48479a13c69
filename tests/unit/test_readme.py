"""The README is short, and can be read on a package index."""

from __future__ import annotations

import re

from readme_renderer import markdown

from documents import ROOT

TEXT = (ROOT / "README.md").read_text("utf-8")


def test_it_has_at_most_150_lines():
    assert len(TEXT.splitlines()) <= 150


def test_a_package_index_shows_all_of_it():
    shown = markdown.render(TEXT)
    assert shown is not None
    assert shown.count("<table") == len(re.findall(r"^\| ?-{3}", TEXT, re.MULTILINE))
    assert "<h2" in shown
    assert "&lt;img" not in shown
    assert 'alt="Rows of 8 instances' in shown  # where the picture cannot be had, its words can


def test_what_it_links_to_is_there():
    found = re.findall(r'\]\(([^)#:]+)(?:#[^)]*)?\)|src="([^"]+)"', TEXT)
    assert found
    assert [path for pair in found for path in pair if path and not (ROOT / path).exists()] == []


def test_where_it_links_to_a_part_of_a_page_there_is_that_part():
    """Of the other pages the site says so, in which the README is not."""
    found = re.findall(r"\]\(([^)#:]+\.md)#([^)]+)\)", TEXT)
    assert found
    headings = {path: re.findall(r"^#+ (.*)$", (ROOT / path).read_text("utf-8"), re.MULTILINE) for path, _ in found}
    parts = {path: {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in ones} for path, ones in headings.items()}
    assert [f"{path}#{part}" for path, part in found if part not in parts[path]] == []
