"""Modulo: the key's id modulo the number of instances, as Storm's fields grouping does."""

from __future__ import annotations

import numpy as np

from evenly.checks import checked_instances
from evenly.keys.mapping import Mapping
from evenly.lab.rivals.keys.unlearnt import Unlearnt


class Modulo(Unlearnt):
    """Key id modulo instances (never negative); `seed` changes nothing."""

    name = "modulo"

    def mapping(self, instances: int) -> Mapping:
        """The modulo as a mapping: one bucket per instance, without a hash."""
        buckets = np.arange(checked_instances(instances), dtype=np.int32)
        return Mapping(instances=instances, buckets=buckets, a=0, b=0, grouping=self.name)
