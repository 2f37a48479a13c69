"""The colours of all pages, each for a light and for a dark ground.

Text has a contrast of at least 4.5 to the ground and to panels, lines of charts one of at least 3. The first six of a chart's
colours can be told apart by people who do not see red, green or blue; the others have markers and dashes of their own besides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Colour(NamedTuple):
    """One colour, as it is on light and on dark ground."""

    light: str
    dark: str


PALETTE: Mapping[str, Colour] = {
    "ground": Colour("#ffffff", "#14191e"),
    "panel": Colour("#f2f4f7", "#20282f"),
    "line": Colour("#d8dee5", "#3a4650"),
    "axis": Colour("#9aa5b1", "#6a7885"),
    "grid": Colour("#e6eaee", "#2a333b"),
    "ink": Colour("#22303c", "#dfe6ec"),
    "soft": Colour("#556370", "#a3b2bf"),
    "even": Colour("#187866", "#4fc4aa"),
    "uneven": Colour("#b34a0e", "#f2935c"),
    "navy": Colour("#0b3f66", "#cfe0f7"),
    "blue": Colour("#3f86e8", "#5c92f7"),
    "purple": Colour("#7a3f9d", "#cf7fdc"),
    "amber": Colour("#a8840a", "#f0d45a"),
    "grey": Colour("#76818d", "#93a0ad"),
    "rose": Colour("#d1477f", "#ff8fb3"),
    "brown": Colour("#5d4428", "#b08d66"),
    "lilac": Colour("#a97fd0", "#e3c8f5"),
}
TEXT = ("ink", "soft", "even", "uneven")
"""What words are written in."""
SERIES = ("even", "uneven", "navy", "blue", "purple", "amber", "grey", "rose", "brown", "lilac")
"""What charts are drawn in."""
INK, EVEN, UNEVEN, GROUND, AXIS, GRID = (PALETTE[name].light for name in ("ink", "even", "uneven", "ground", "axis", "grid"))

_NAMES = {colour.light: name for name, colour in PALETTE.items()}


def declared(scheme: str) -> str:
    """The colours as properties of a style sheet, for the scheme `light` or `dark`."""
    return " ".join(f"--{name}: {getattr(colour, scheme)};" for name, colour in PALETTE.items())


def themed(drawn: str) -> str:
    """A drawing in colours for light ground, in those of the page that holds it. Other colours stay as they are."""
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: f"var(--{_NAMES[found[0]]})" if found[0] in _NAMES else found[0], drawn)
