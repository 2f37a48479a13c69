"""Where recorded streams are that the package does not ship."""

from __future__ import annotations

import os
from pathlib import Path

DATA_VARIABLE = "EVENLY_DATA"
DATA_FOLDER = Path("../shared/data")


def find_recorded(file: str) -> Path | None:
    """A recorded stream, in the folder that EVENLY_DATA names or in ../shared/data."""
    named = os.environ.get(DATA_VARIABLE)
    folders = ([Path(named)] if named else []) + [DATA_FOLDER]
    return next((folder / file for folder in folders if (folder / file).is_file()), None)
