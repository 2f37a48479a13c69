"""Waiting for what other processes and threads must do."""

from __future__ import annotations

import time

PATIENT_S = 120.0
"""How long a test waits for what must happen, on a machine however busy."""


def until(condition, what, *, within_s=PATIENT_S):
    """What `condition` gives once it is true."""
    limit = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < limit, f"never happened: {what}"
        time.sleep(0.002)
    return found
