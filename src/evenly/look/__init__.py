"""How all pages look: one palette and one style sheet."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from evenly.look.palette import declared


@cache
def style_sheet() -> str:
    """The style of every page, light and dark, on screens and on paper."""
    told = files(__name__).joinpath("style.css").read_text("utf-8")
    return told.replace("LIGHT", declared("light")).replace("DARK", declared("dark"))
