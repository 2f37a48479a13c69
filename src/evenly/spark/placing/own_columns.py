"""Names of columns that Evenly adds to a user's rows for a while.

Each has a random part that is drawn once in a driver's process, so no column of a user has such a name, whatever it begins
with. A worker draws another one: names that a worker needs are handed to it.
"""

from __future__ import annotations

import uuid

OWN = "__evenly_"
"""How all of them begin, and those that workers know by name."""
_DRAWN = uuid.uuid4().hex


def own_name(what: str) -> str:
    """The name of a column of Evenly's own, the same for the same word in one process."""
    return f"{OWN}{what}_{_DRAWN}"
