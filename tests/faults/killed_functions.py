"""Functions of the dataflows of test_killed_flows.py. In them a fault happens at a call, once; nothing happens without one."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.compute as pc

FAULT, FOLDER = "EVENLY_FAULT", "EVENLY_FAULT_FOLDER"
AT = 70


def _called():
    from faults.moments import Moments

    fault = os.environ.get(FAULT, "none")
    if fault != "none":
        Moments(Path(os.environ[FOLDER]), [(0, fault, "work", AT)]).call("work")


def parsed(row):
    """A message as a row."""
    _called()
    return {"id": int(row.value.decode()), "partition": row.partition, "offset": row.offset}


def doubled(row):
    """Twice the number; nothing of every tenth, and every seventh two times."""
    return [(row.id, 2 * row.id)] * (0 if row.id % 10 == 0 else 2 if row.id % 7 == 0 else 1)


def worked(row):
    _called()
    return row


def added(batch):
    return batch.set_column(1, "v", pc.add(batch["v"], 1))
