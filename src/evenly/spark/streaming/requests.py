"""What is asked of a running query from outside, by files in its checkpoint: to go back to an earlier version of its mapping.

Only the query itself can do that without splitting its state: it stops, moves state to where the mapping will look for it, and
starts again. So the shell writes what it wants (`evenly mapping rollback`), and the query answers beside it.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime
from typing import Protocol
from weakref import ref

from pyspark.sql import SparkSession

from evenly.errors import EvenlyError
from evenly.keys.versions import ANSWER, REQUEST, Request, RequestAnswer, Version
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.streaming.movable import REFUSALS

_LOG = logging.getLogger(__name__)
LOOK_S = 5.0
"""How often a query looks for a request."""
_MOST_FAILED = 20


class Asked(Protocol):
    """What a request is about: a `KeyedQuery`."""

    @property
    def isActive(self) -> bool:  # noqa: N802 - as StreamingQuery has it
        """Whether it runs."""

    @property
    def versions(self) -> tuple[Version, ...]:
        """Those of its mapping."""

    def roll_back(self, version: int) -> Version:
        """Bring that of an earlier version in force again."""


class Requests:
    """Looks for a request at the start, and every five seconds while the query runs, in a thread of its own, and answers it.

    A request that was carried out by a driver that died before it could answer asks for the mapping that is in force by then,
    and moves nothing.
    """

    def __init__(self, query: Asked, spark: SparkSession, checkpoint: str) -> None:
        self._query = ref(query)
        self._folder = Folder(spark, checkpoint).child("evenly")
        self._ended, self._looking = threading.Event(), threading.Lock()
        threading.Thread(target=self._follow, name="evenly requests", daemon=True).start()

    def end(self) -> None:
        """The query has stopped: what is asked now waits for its next start."""
        self._ended.set()

    def look(self) -> RequestAnswer | None:
        """Carry out what is asked for, if anything is, and answer; one look at a time, or it would be carried out twice."""
        with self._looking:
            return self._carried_out()

    def _carried_out(self) -> RequestAnswer | None:
        query = self._query()
        if query is None or not query.isActive or not self._folder.has(REQUEST):
            return None
        told = self._folder.read(REQUEST, checked_by_caller=True)
        asked, refused, identity = 0, "", ""
        try:
            request = Request.from_json(told, source=f"{self._folder.path}/{REQUEST}")
            asked, identity = request.version, request.identity
            query.roll_back(asked)
        except (EvenlyError, *REFUSALS) as error:
            refused = next(iter(str(error).strip().splitlines()), type(error).__name__)
            if not query.isActive:
                return None  # it waits for the next start
        now = datetime.now(UTC).isoformat(timespec="seconds")
        answer = RequestAnswer(identity, query.versions[-1].number, asked, refused, now)
        self._folder.write(ANSWER, answer.to_json())
        if self._folder.has(REQUEST) and self._folder.read(REQUEST, checked_by_caller=True) == told:
            self._folder.remove(REQUEST)  # and not one that took its place while state was moved
        _LOG.info("%s: asked to go back to version %d: %s", self._folder.path, asked, refused or "done")
        return answer

    def _follow(self) -> None:
        # At once: a query that takes what is there and ends may not run for five seconds.
        wait_s, failed = 0.0, 0
        while not self._ended.wait(wait_s):
            wait_s, query = LOOK_S, self._query()
            try:
                if query is None or not query.isActive:
                    return
                self.look()
                failed = 0
            except Exception:  # noqa: BLE001 - the query is right without requests
                # A request may be taken back while it is read. If it stays like that, the session has gone.
                _LOG.debug("no request could be looked for", exc_info=True)
                failed += 1
                if failed == _MOST_FAILED:
                    return
            del query
