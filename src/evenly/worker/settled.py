"""A worker of Spark's after its first task: what is loaded by then stays, and nobody need look through it again."""

from __future__ import annotations

import gc

_settled = False


def settle() -> None:
    """Leave what is loaded out of what is looked through for garbage.

    Spark has a worker collect garbage after every task, and of the modules of PySpark, pandas and Arrow there is none: to look
    took longer than a small task.
    """
    global _settled  # noqa: PLW0603 - of this process
    if not _settled:
        gc.collect()
        gc.freeze()
        _settled = True
