"""Universal: a random 2-universal hash straight to instances, the baseline of the DKG paper."""

from __future__ import annotations

import numpy as np

from evenly.checks import checked_instances
from evenly.keys.mapping import Mapping
from evenly.lab.rivals.keys.unlearnt import Unlearnt
from evenly.sketches.hashing import UniversalHash


class Universal(Unlearnt):
    """Key to instance by a hash drawn from a 2-universal family; `seed` picks the hash."""

    name = "universal"

    def mapping(self, instances: int) -> Mapping:
        """The hash as a mapping: one bucket per instance."""
        drawn = UniversalHash(checked_instances(instances), seed=self.seed)
        buckets = np.arange(instances, dtype=np.int32)
        return Mapping(instances=instances, buckets=buckets, a=drawn.a, b=drawn.b, grouping=self.name)
