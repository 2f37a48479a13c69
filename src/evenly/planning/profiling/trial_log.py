"""Trials that were made, kept in a file until a profile is whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from evenly.errors import DamagedData
from evenly.planning.profiling.search import SlotTrial


class TrialLog:
    """Trials kept in a file as they are made, so that a search that was stopped goes on where it was.

    The search asks for the same trials in the same order, and those in the file are not run again.
    """

    def __init__(self, path: str | os.PathLike[str], key: str) -> None:
        self.path = Path(path)
        self.key = key
        self._known: dict[tuple[int, float], SlotTrial] = {}
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        try:
            lines = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines() if line]
            if lines and lines[0].get("key") == self.key:
                self._known = {(one["threads"], one["rate"]): SlotTrial(**one) for one in lines[1:]}
        except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
            raise DamagedData(f"{self.path} is not a log of trials: remove it to begin anew ({error})") from error
        if not self._known:
            self.path.unlink()

    @property
    def known(self) -> int:
        """Trials in the file."""
        return len(self._known)

    def wrap(self, run: Callable[[int, float], SlotTrial]) -> Callable[[int, float], SlotTrial]:
        """The trials of the file where there are, else new ones, which are added to it."""

        def remembered(threads: int, rate: float) -> SlotTrial:
            if (threads, rate) not in self._known:
                trial = run(threads, rate)
                fresh = not self.path.exists()
                with self.path.open("a", encoding="utf-8") as file:
                    if fresh:
                        file.write(json.dumps({"key": self.key}) + "\n")
                    file.write(json.dumps(asdict(trial)) + "\n")
                self._known[threads, rate] = trial
            return self._known[threads, rate]

        return remembered
