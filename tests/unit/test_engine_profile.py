"""Which batches Spark is measured with: that they tell all its costs apart."""

from __future__ import annotations

import pytest

from evenly.planning.micro_batches import EngineCosts
from evenly.planning.micro_batches.fitting import TimedBatches, fit_engine
from evenly.planning.micro_batches.steps import Steps
from evenly.spark.flows.engine_profile import SHAPES, engine_flow

COSTS = EngineCosts(3, 0.5, 0.3, 0.05, 0.1, 0.15, 0.01, 2e-6, 1e-6, 0.08)
NOTHING_S = 5e-7


def test_the_batches_that_are_measured_tell_every_cost():
    timed = []
    for shape in SHAPES:
        flow = engine_flow(shape, "in", {"maxFilesPerTrigger": "3"}, 3, "out").dataflow()
        counts = Steps(flow).counts(3)
        fixed_s = COSTS.batch_s + COSTS.stage_s * counts.stages + COSTS.sink_s * counts.sinks
        fixed_s += COSTS.file_sink_s * counts.file_sinks + COSTS.task_s * counts.turns + COSTS.worker_s * counts.workers
        rows_s = shape.rows / 3 * (COSTS.moved_row_s * counts.moved + COSTS.kept_row_s * counts.kept + NOTHING_S * shape.called)
        timed.append(TimedBatches(counts, shape.rows, shape.called, fixed_s + rows_s))
    found = fit_engine(timed, slots=3, cores_per_slot=0.5)
    for name in ("batch_s", "stage_s", "sink_s", "file_sink_s", "task_s", "worker_s", "moved_row_s", "kept_row_s"):
        assert getattr(found, name) == pytest.approx(getattr(COSTS, name), rel=1e-3), name
