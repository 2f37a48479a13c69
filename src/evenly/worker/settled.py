"""A worker of Spark's after its first tasks: what is loaded by then stays, and nobody need look through it again."""

from __future__ import annotations

import gc
import sys

from evenly.worker.engine import running_task

_MOST_TIMES = 16
_settled: list[int] = []
"""How many modules had been loaded, each time."""


def settle() -> None:
    """Leave what is loaded out of what is looked through for garbage; to be called when a task begins.

    Spark has a worker collect garbage after every task, and of the modules of PySpark, pandas and Arrow there is none: to look
    took longer than a small task. A later task may load as much as the first did: a worker serves whatever function comes next,
    and what keeps states loads more than what packs rows. So it is done again where modules have come, a bounded number of
    times, because what a task holds at that moment stays as well.
    """
    if running_task() is None:
        return
    loaded = len(sys.modules)
    if len(_settled) < _MOST_TIMES and (not _settled or loaded > _settled[-1]):
        gc.collect()
        gc.freeze()
        _settled.append(loaded)
