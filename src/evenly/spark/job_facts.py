"""The records of a batch job with a watch: told when its first action has ended."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from evenly.facts.emitting import Teller, is_emitting
from evenly.facts.labels import KeyLabels
from evenly.facts.records import Batch
from evenly.spark.features import Found
from evenly.spark.jvm.outcomes import await_outcome, collected


class JobFacts:
    """Tells a job once, whoever brings what it measured first: Spark, when the action has ended, or a user who asks."""

    def __init__(self, name: str) -> None:
        self._teller = Teller(kind="batch", clock=time.time)
        self._name = name
        self._told = False

    def tell(self, make: Callable[[KeyLabels], Batch], *, instances: int | None = None) -> None:
        """The job has ended, and this is what it did."""
        if not self._told:
            self._told = True
            self._teller.begin(uuid.uuid4().hex, self._name, instances=instances)
            self._teller.tell("batch", batch=make)
            self._teller.end()

    def await_reports(self, spark: Any, observation: str, take: Callable[[list[bytes]], None]) -> None:
        """Have what the observation of this name collects brought to `take`, without being asked; where records go anywhere.

        Spark Connect tells nobody of finished actions: there a job is told when its watch is asked.
        """
        if not is_emitting() or Found.of(spark).connect:
            return

        def bring(row: Any) -> bool:
            found = collected(row)
            if found:
                take(found)
            return bool(found)

        await_outcome(spark, observation, bring)
