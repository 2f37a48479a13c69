"""One instance for everything (the paper's SIA): the worst that a grouping can do."""

from __future__ import annotations

import numpy as np

from evenly.checks import checked_instances
from evenly.keys.mapping import Mapping
from evenly.lab.rivals.keys.unlearnt import Unlearnt


class OneInstance(Unlearnt):
    """All keys to instance 0; `seed` changes nothing."""

    name = "one-instance"

    def mapping(self, instances: int) -> Mapping:
        """A single bucket, on instance 0."""
        return Mapping(instances=checked_instances(instances), buckets=np.zeros(1, np.int32), a=0, b=0, grouping=self.name)
