"""One hypothesis profile for all property tests, and the way to `naive.py`."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("evenly", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("evenly")
