"""One hypothesis profile for all property tests, and the way to `naive.py`."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parents[1]))

settings.register_profile("evenly", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("evenly")
