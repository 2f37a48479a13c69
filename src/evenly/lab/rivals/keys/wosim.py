"""WOSIM: DKG without sparse-item mapping, the ablation of the DKG paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenly.checks import checked_instances
from evenly.errors import InvalidParameter
from evenly.keys.base import LearnsThrough
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.keys.scheduling import largest_first


class WOSIM(LearnsThrough):
    """What DKG's buckets are good for: the same heavy keys, and all others straight to instances by a universal hash.

    Heavy keys are found with a Space Saving as in DKG and given, heaviest first, to the instance with the least
    load of heavy keys. What the hash brings to an instance is not looked at, as in the paper, so the balance can
    be no better than luck; a key is always on one instance. `tests/unit/test_key_groupings.py` holds both against
    plain loops. The loads by hash are still counted, so that `fitted_loads` of the mapping is the truth.

    Parameters: `instances`; `theta` and `epsilon` with 0 < epsilon < theta <= 1 (epsilon is theta / 2 if not
    given); `seed`. The hash has one bucket per instance, so what is learnt serves this number of instances only.

    >>> WOSIM(2).fit(np.array([1, 1, 1, 2, 3, 4])).mapping(2).buckets.tolist()
    [0, 1]

    Rivetti, Querzoni, Anceaume, Busnel, Sericola: Efficient key grouping for near-optimal load balancing in stream
    processing systems, DEBS 2015, section 6 and figure 13.
    """

    name = "dkg-wosim"

    def __init__(self, instances: int, *, theta: float = 0.1, epsilon: float | None = None, seed: int = 0) -> None:
        self.instances = checked_instances(instances)
        learner = DKG(instances, theta=theta, epsilon=epsilon, mu=1.0, seed=seed)
        self.theta, self.epsilon, self.seed = theta, learner.epsilon, seed
        super().__init__(learner)
        self._counted = learner

    @property
    def total(self) -> float:
        """The weight of all tuples seen."""
        return self._counted.total

    def mapping(self, instances: int | None = None) -> Mapping:
        """The mapping for what has been seen."""
        instances = self.instances if instances is None else checked_instances(instances)
        if instances != self.instances:
            raise InvalidParameter(
                f"this learner counts for {self.instances} instances, got {instances}: learn with WOSIM({instances}, ...)"
            )
        learnt = self._learner.mapping(instances)
        return replace(
            learnt,
            buckets=np.arange(instances, dtype=np.int32),
            heavy_instances=largest_first(learnt.heavy_weights, instances),
            grouping=self.name,
        )
