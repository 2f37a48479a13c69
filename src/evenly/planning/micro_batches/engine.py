"""What Spark itself needs for a micro-batch, whatever the operators do."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from evenly.errors import InvalidModel


@dataclass(frozen=True)
class EngineCosts:
    """Measured once per cluster (`evenly profile --engine`), with all of its `slots`.

    Seconds on the clock: `batch_s` for a batch, `stage_s` for each of its stages, `sink_s` for each sink that it writes
    (`file_sink_s` more for one that is files), `task_s` for each turn of tasks (a stage of 5 tasks on 2 slots has 3 turns) and
    `worker_s` more for each Python worker in them.
    Seconds of one slot, which all slots share: `moved_row_s` for each row that goes through a shuffle, `kept_row_s` for each
    that is persisted because several stages read it.

    `cores_per_slot` (above 0, at most 1): what a slot gets of a core when all of them compute. `about` says where that was.
    """

    slots: int
    cores_per_slot: float = 1.0
    batch_s: float = 0.0
    stage_s: float = 0.0
    sink_s: float = 0.0
    file_sink_s: float = 0.0
    task_s: float = 0.0
    moved_row_s: float = 0.0
    kept_row_s: float = 0.0
    worker_s: float = 0.0
    about: str = ""

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise InvalidModel(f"the costs of an engine are measured with at least 1 slot, got {self.slots}")
        if not 0.0 < self.cores_per_slot <= 1.0:
            raise InvalidModel(f"cores_per_slot must be above 0 and at most 1, got {self.cores_per_slot}")
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name.endswith("_s") and not (math.isfinite(value) and value >= 0.0):
                raise InvalidModel(f"{one.name} of an engine must be finite and at least 0, got {value}")
