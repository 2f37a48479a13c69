"""D-Choices: the keys of the head to one of d instances, with the least d that can balance them."""

from __future__ import annotations

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels import splitting as kernels
from evenly.lab.rivals.splitting.partial_key import candidate_hashes
from evenly.lab.rivals.splitting.w_choices import WChoices


class DChoices(WChoices):
    """W-Choices with fewer copies: a key of the head goes to the least loaded of `choices` hashed candidates.

    With p1 the share of the heaviest key, pH that of all h keys of the head, pT = 1 - pH and b(x) =
    1 - ((instances - 1) / instances)^x the expected share of instances that x hashes hit, d is the least number
    from max(2, p1 x instances) on with pH + pT b(h d)^2 <= b(h d) + epsilon and
    p1 + (pH - p1) b(d)^d + pT b(d)^2 <= b(d) + epsilon; where there is none below the number of instances, all are
    candidates. It is found anew whenever the stream has grown by a hundredth. Candidates may coincide. While d does
    not change a key is on at most d instances, as `tests/property/test_splitting.py` proves.

    Parameters: as for W-Choices, and `epsilon`, the imbalance that is tolerated, from 0 to 1.

    >>> sender = DChoices(50)
    >>> sender.route(np.arange(1000) % 20).size, 2 <= sender.choices < 50
    (1000, True)

    Nasir, De Francisci Morales, Kourtellis, Serafini: When two choices are not enough: balancing at scale in
    distributed stream processing, ICDE 2016.
    """

    name = "d-choices"

    def __init__(
        self,
        instances: int,
        *,
        threshold: float | None = None,
        counters: int | None = None,
        epsilon: float = 1.0e-4,
        seed: int = 0,
    ) -> None:
        super().__init__(instances, threshold=threshold, counters=counters, seed=seed)
        if not 0.0 <= epsilon <= 1.0:
            raise InvalidParameter(f"epsilon must be from 0 to 1, got {epsilon}")
        self._epsilon = epsilon
        self._hashes = candidate_hashes(self.instances, max(2, self.instances), seed=seed)
        self._head = np.array([min(2, self.instances), 1], np.int64)

    @property
    def choices(self) -> int:
        """How many candidates a key of the head has at present."""
        return int(self._head[kernels.CHOICES])
