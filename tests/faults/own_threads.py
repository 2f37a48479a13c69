"""Threads that Evenly runs in a process. Workers look too, and what was sent to them is all of Evenly that they have."""

from __future__ import annotations

import sys
import threading


def evenly_threads() -> list[str]:
    """Threads of this process, besides the calling one, that are inside the package."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    told = []
    for ident, frame in sys._current_frames().items():
        if ident == threading.get_ident():
            continue
        at = frame
        while at is not None:
            if str(at.f_globals.get("__name__")).startswith("evenly."):
                told.append(f"{names.get(ident)} in {at.f_code.co_qualname}")
                break
            at = at.f_back
    return told
