"""What the site is made of: links, navigation, pages of papers and of names."""

from __future__ import annotations

import importlib
import sys

import pytest

from documents import ROOT

MODULES = ("links", "navigation", "papers", "examples", "reference")


@pytest.fixture(scope="module")
def site():
    """The modules of scripts/site."""
    folder = str(ROOT / "scripts" / "site")
    sys.path.insert(0, folder)
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(folder)
        for name in MODULES:
            del sys.modules[name]


def test_links_between_files_become_links_between_pages(site):
    pages = {"docs/how/keys.md": "how/keys.md", "examples/README.md": "gallery.md"}
    text = "[a](how/keys.md#slots) [b](../examples/README.md) [c](https://x.org/y.md) [d](#here)\n"
    text += "```\n[e](gone.md)\n```\n[f](how/keys.md)"
    moved = site["links"].moved_links(text, source="docs/names.md", page="reference/names.md", pages=pages)
    assert "[a](../how/keys.md#slots) [b](../gallery.md) [c](https://x.org/y.md) [d](#here)" in moved
    assert "[e](gone.md)" in moved  # code stays as it is
    assert moved.endswith("[f](../how/keys.md)")


def test_a_link_to_no_page_is_an_error_that_names_both(site):
    with pytest.raises(site["links"].BrokenLink, match=r"docs/a\.md.*gone\.md"):
        site["links"].moved_links("[e](gone.md)", source="docs/a.md", page="a.md", pages={})


def test_a_page_that_nothing_names_is_in_the_navigation_and_one_that_is_not_there_is_not(site):
    found = site["navigation"].sections(["index", "keys", "how/keys", "new-page", "papers", "papers/dkg"], ["papers"])
    assert found == {"Guides": ["keys"], "Evidence": ["papers"], "How it works": ["how/keys"], "More": ["new-page"]}


def test_every_paper_has_a_page_with_its_counts_and_its_verdicts(site):
    text = (ROOT / "docs" / "papers.md").read_text("utf-8")
    counts, pages = site["papers"].paper_pages(text)
    assert list(pages) == [f"papers/{name}" for name in ("dkg", "posg", "osg", "hone", "model-driven")]
    assert "108 statements, of which 105 are independent" in pages["papers/dkg"]
    assert "[dkg](papers/dkg.md)" in counts
    assert "theorem 4.2, case 1" in pages["papers/dkg"]
    assert "theorem 4.2, case 1" not in counts
    assert sum(page.count("\n| ") for page in pages.values()) > 300


def test_a_section_without_a_command_is_refused(site):
    with pytest.raises(ValueError, match="names no command"):
        site["papers"].paper_pages("# Verdicts\n\n## A paper\n\nnothing\n")


def test_a_name_is_told_by_its_signature_its_words_and_its_members(site):
    pytest.importorskip("pyspark")
    pages = site["reference"].reference_pages()
    by_key = pages["reference/by_key"]
    assert "slot: str | None = 'slot'," in by_key
    assert "    *,\n    key: Key," in by_key
    assert "[`learn_mapping`](learn_mapping.md)" in by_key
    assert "```python\nplaced = df.transform(evenly.by_key" in by_key
    mapping = pages["reference/Mapping"]
    assert "### `save()`" in mapping
    assert "### `fitted_imbalance_pct`" in mapping
    assert "[`Mapping`](Mapping.md)" not in mapping


def test_a_script_is_told_by_what_it_says_of_itself(site):
    page = site["examples"].script_page("a/b.py", '"""One thing.\n\nMore of it.\n"""\n\nimport evenly\n')
    assert page == "# One thing\n\nMore of it.\n\n`a/b.py`:\n\n```python\nimport evenly\n```\n"
