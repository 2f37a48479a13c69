"""What can be said of the text of any page."""

from __future__ import annotations

NUMBERS = '<script type="application/json" id="numbers">'


def runs_nothing(page):
    """Whether the only script of a page is its numbers, which no browser runs."""
    return page.count("<script") == page.count(NUMBERS) == 1
