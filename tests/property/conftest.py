"""One hypothesis profile for all property tests; where `CI` is set they draw the same examples in each run."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("evenly", deadline=None, max_examples=60, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("evenly")
