"""Where recorded streams are that the package does not ship."""

from __future__ import annotations

import os
from pathlib import Path

DATA_VARIABLE = "EVENLY_DATA"


def find_recorded(file: str) -> Path | None:
    """A recorded stream in the folder that EVENLY_DATA names; None if it names none, or has no such file."""
    named = os.environ.get(DATA_VARIABLE)
    found = Path(named) / file if named else None
    return found if found is not None and found.is_file() else None
