"""What equal numbers of rows leave uneven, by chance."""

from __future__ import annotations

import math
from statistics import NormalDist


def expected_maximum(instances: int) -> float:
    """By how many standard deviations the largest of k normal values exceeds their mean (Blom): 1.42 for 8.

    sqrt(2 ln k), 2.04 for 8, is what it comes near for very large k.
    """
    return 0.0 if instances < 2 else NormalDist().inv_cdf((instances - 0.375) / (instances + 0.25))


def unevenness(cv: float, rows: float, instances: int) -> float:
    """The largest of k sums of n / k costs over their mean, less 1; `cv` is the standard deviation of costs over their mean.

    About cv · sqrt(2 ln k · k / n), with the exact maximum for the k that there are in place of sqrt(2 ln k).
    """
    return cv * expected_maximum(instances) * math.sqrt(instances / max(rows, instances))
