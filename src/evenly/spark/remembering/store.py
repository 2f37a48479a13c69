"""The folder of what is remembered: one file for each subject, read and written whole.

    <remember>/rows-1f0c….json     a mapping for the rows of some key columns over some instances, and its last runs
    <remember>/costs-77ab….json    what rows cost
    <remember>/times-03de….json    what groups take, and a mapping by that

Nothing here stops a job: what cannot be read is learnt anew, what cannot be written is not remembered, and both are told.
Of two jobs that write at once the later write stays, whole. What a run has carried is only told of the learning that it was
placed by; a file that was forgotten, or learnt anew by another job meanwhile, is left alone.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from evenly.errors import EvenlyError, InvalidParameter, NewerFormat
from evenly.remembered import MOST_BYTES, MOST_FILES, PastRun, Remembered, Subject, is_memory
from evenly.spark.features import Feature, require
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.java_errors import Py4JError
from evenly.spark.jvm.outcomes import settle
from evenly.spark.remembering.shelf import Shelf, shelf

Where = str | os.PathLike[str]
"""A folder on any path that Spark can write to, or a name below the folder of the setting `spark.evenly.remember`."""

SETTING = "spark.evenly.remember"
_TIMES = "Give watch=evenly.TimeWatch(), save watch.times of a run, and give times= the path"
_REMEDIES = {"costs": "Save watch.costs of a run, and give costs= the path", "times": _TIMES, "times-of-parts": _TIMES}
"""What to do where nothing can be remembered, if it is not to learn a mapping."""
_LOG = logging.getLogger(__name__)


def folder_path(spark: Any, remember: object) -> str:
    """The folder that is meant: a path, or a plain name below the folder of the session's setting."""
    if isinstance(remember, os.PathLike):
        return str(Path(remember).absolute())
    if not isinstance(remember, str) or not remember.strip():
        raise InvalidParameter(
            f"remember must be a folder, such as '/data/evenly/users', or a name below the one of {SETTING}, got {remember!r}"
        )
    if "/" in remember:
        return remember
    if remember in (".", "..") or ":" in remember or "\\" in remember:
        raise InvalidParameter(
            f"remember={remember!r} is neither a path with a slash nor a plain name: give '/data/evenly/users'"
        )
    below = spark.conf.get(SETTING, None)
    if not below:
        raise InvalidParameter(
            f"remember={remember!r} is a name below the folder of the setting {SETTING}, which this session does not have: "
            f"spark.conf.set('{SETTING}', '/data/evenly'), or give a whole path"
        )
    return f"{below.rstrip('/')}/{remember}"


@dataclass(frozen=True)
class Begun:
    """How a run began: with what, whether it had to be learnt, and why."""

    remembered: Remembered
    did: Literal["learnt", "kept"]
    why: str


@dataclass(frozen=True)
class Learnt:
    """What a run has learnt before its rows were computed; and the reason, if there is one, for which the next run has to learn
    anew unless this one tells how it ended."""

    content: str
    anew: str | None = None


class Store:
    """What is remembered of one subject, for one call."""

    def __init__(self, spark: Any, remember: Where, subject: Subject, *, by: str) -> None:
        remedy = _REMEDIES.get(subject.use, "Learn once, learn_mapping(...).save(path), and give mapping=Mapping.load(path)")
        for feature in (Feature.FOLDERS, Feature.TOP_K):
            require(spark, feature, by=f"remember= of {by}", remedy=remedy)
        self.path, self._spark = folder_path(spark, remember), spark
        self.subject, self._by = subject, by
        self._shelf: Shelf | None = None
        self.whole_path = self.path
        """The folder in one spelling, however it was given."""
        try:
            folder = Folder(spark, self.path)
            self.whole_path = folder.whole_path
            self._shelf = shelf(folder, self.whole_path)
        except InvalidParameter:
            raise
        except EvenlyError as error:
            _LOG.warning("%s: nothing is remembered: %s", by, error)

    def begun(self, learn: Callable[[str | None], Learnt], usable: Callable[[str], None]) -> Begun:
        """What is remembered, if it is to be kept and `usable` raises nothing of ours about its content; else what `learn`
        makes, of what was there or None, which is written at once."""
        settle(self._spark)
        found = self._read(warn=True)
        why = "nothing was remembered" if found is None else found.anew
        if found is not None and why is None:
            try:
                usable(found.content)
            except EvenlyError as error:
                why = f"what was remembered cannot be used: {error}"
                _LOG.warning("%s: %s", self._by, why)
            else:
                _LOG.info("%s: kept what was learnt at %s (%s)", self._by, found.learnt_at, self.path)
                return Begun(found, "kept", f"learnt at {found.learnt_at}")
        why = str(why)
        _LOG.info("%s: learns what %s is to remember of %s: %s", self._by, self.path, self.subject, why)
        runs, before = ((), None) if found is None else (found.runs, found.content)
        made = learn(before)
        fresh = Remembered(self.subject, made.content, uuid.uuid4().hex, now(), why, made.anew, runs)
        self.save(fresh, new=found is None)
        return Begun(fresh, "learnt", why)

    def ended(self, begun: Begun, run: PastRun, learnt: Callable[[Remembered], Learnt] | None = None) -> None:
        """Tell how a run turned out, and keep what was `learnt` on the way, beside what is there."""
        current = self._read(warn=False)
        if current is None or current.identity != begun.remembered.identity:
            _LOG.info("%s: %s was forgotten or learnt anew while this ran: its outcome is not kept", self._by, self.path)
            return
        if learnt is not None:
            found = learnt(current)
            current = replace(current, content=found.content, anew=found.anew)
        self.save(current.after(run))
        if run.anew:
            _LOG.warning("%s: %s: the next run learns anew (%s)", self._by, run.judged, self.path)

    def save(self, remembered: Remembered, *, new: bool = False) -> None:
        """Write it, whole; where that cannot be, say so."""
        if self._shelf is None:
            return
        try:
            self._shelf.write(self.subject.file_name, remembered.to_json())
            if new:
                self._make_room(self._shelf)
        except (EvenlyError, Py4JError) as error:
            _LOG.warning("%s: what was learnt is not remembered: %s", self._by, error)

    def _read(self, *, warn: bool) -> Remembered | None:
        if self._shelf is None:
            return None
        name = self.subject.file_name
        source = f"{self.path}/{name}"
        try:
            content = self._shelf.read(name, most_bytes=MOST_BYTES)
            if content is None:
                return None
            found = Remembered.from_json(content, source=source)
        except NewerFormat as error:
            _LOG.warning("%s: learns, and remembers nothing: %s", self._by, error)
            self._shelf = None  # what a later release has written is left alone
            return None
        except (EvenlyError, Py4JError) as error:
            if warn:
                _LOG.warning("%s: learns anew, for what is remembered cannot be read: %s", self._by, _first_line(error))
            return None
        return found if found.subject == self.subject else None

    def _make_room(self, files: Shelf) -> None:
        names = [name for name in files.names() if is_memory(name) and name != self.subject.file_name]
        if len(names) < MOST_FILES:
            return
        learnt = {}
        for name in names:
            try:
                content = files.read(name, most_bytes=MOST_BYTES)
                learnt[name] = "" if content is None else Remembered.from_json(content).learnt_at
            except (EvenlyError, Py4JError):
                learnt[name] = ""
        for name in sorted(learnt, key=lambda it: learnt[it])[: len(names) + 1 - MOST_FILES]:
            files.remove(name)


def now() -> str:
    """The time, in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
