"""How a streaming dataflow is run just now: what is in force for the next batch, and who may change it."""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from dataclasses import replace
from pathlib import Path

from evenly.dataflow.graph import Dataflow, Operator
from evenly.dataflow.replay import Pace, pace_of
from evenly.dataflow.tuning import Tuning
from evenly.planning.micro_batches import SparkPlan
from evenly.planning.micro_batches.settings import source_on_spark
from evenly.planning.observed.replanning import Replanner
from evenly.spark.flows.watch import FlowWatch

_LOG = logging.getLogger(__name__)
CAP = "maxOffsetsPerTrigger"


class Steering:
    """The tuning of a query. A replay is told its pace through a file, which its source looks into before each batch."""

    def __init__(
        self,
        flow: Dataflow,
        source: Operator,
        *,
        watch: FlowWatch | None = None,
        plan: SparkPlan | None = None,
        replan: bool = False,
        usual_instances: int | None = None,
    ) -> None:
        self._flow, self._watch = flow, watch
        self._seen = -1
        self.pace_file: Path | None = None
        cap = source_on_spark(plan).get(CAP) if plan is not None else None
        self.tuning = Tuning({} if plan is None else dict(plan.threads), rows_per_batch=None if cap is None else int(cap))
        if source.format == "replay":
            folder = tempfile.mkdtemp(prefix="evenly-pace-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.pace_file = Path(folder) / "pace.json"
            self.pace = pace_of(source.options)
            self._most_rows = self.pace.most_rows
            self._keep_pace()
        self._replanner = None
        if replan and plan is not None:
            tells = self.pace_file is not None
            self._replanner = Replanner(flow, plan, self.tuning, source_tells=tells, usual_instances=usual_instances)

    def set_pace(self, pace: Pace) -> None:
        """Replay from the next batch on at another pace."""
        if self.pace_file is not None:
            self.pace = pace
            pace.write(self.pace_file)

    def between_batches(self) -> None:
        """Before a batch: what those before it have shown is looked at, and may change what is in force."""
        if self._replanner is None or self._watch is None:
            return
        for batch in self._watch.batches:
            if batch.number is None or batch.number <= self._seen or batch.whole_s is None:
                continue
            self._seen = batch.number
            for event in self._replanner.observe(batch):
                _LOG.info("%s, after batch %d: %s", self._flow.name, batch.number, event)
                self._watch.changed(event)
        if self._replanner.tuning != self.tuning:
            self.tuning = self._replanner.tuning
            self._keep_pace()

    def _keep_pace(self) -> None:
        """What the description allows a batch at most is kept."""
        if self.pace_file is not None:
            most = min((it for it in (self.tuning.rows_per_batch, self._most_rows) if it is not None), default=None)
            self.set_pace(self.pace if most is None else replace(self.pace, most_rows=most))


def capped(one: Operator, plan: SparkPlan | None) -> Operator:
    """A source that is told at its start how many rows a batch may have, if it can be and nobody says otherwise."""
    cap = source_on_spark(plan).get(CAP) if plan is not None else None
    if cap is None or one.format != "kafka" or CAP.lower() in (name.lower() for name in one.options):
        return one
    return replace(one, options={**one.options, CAP: cap})
