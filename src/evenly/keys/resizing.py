"""A mapping dealt out over another number of instances, from the weights that it was learnt with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenly.checks import MAX_INSTANCES, checked_instances
from evenly.errors import InvalidParameter
from evenly.keys.mapping import Mapping
from evenly.keys.parameters import choose
from evenly.keys.scheduling import largest_first

_LEAST_BUCKETS = 16
"""So many buckets an instance needs at the least, a quarter of what a mapping is learnt with."""


def placeable(mapping: Mapping) -> int:
    """How many things a mapping has to place: keys with an entry of their own, and buckets in which rows were seen.

    With few keys these are the keys, but for light ones that share a bucket, of which nothing is lost if they stay together.
    """
    return int(mapping.heavy_keys.size + np.count_nonzero(mapping.bucket_weights))


def heaviest_share(mapping: Mapping) -> float:
    """The heaviest key's part of all that was seen; 0 where nothing was."""
    total = float(mapping.heavy_weights.sum() + mapping.bucket_weights.sum())
    return float(mapping.heavy_weights.max()) / total if mapping.heavy_weights.size and total > 0.0 else 0.0


def most_instances(mapping: Mapping) -> int:
    """Over how many instances a mapping can be dealt out: four times as many as it was learnt for, as far as buckets go."""
    buckets = mapping.bucket_weights.size
    if mapping.capacities is not None:
        return mapping.instances
    return MAX_INSTANCES if buckets >= choose(MAX_INSTANCES).buckets else max(mapping.instances, buckets // _LEAST_BUCKETS)


def resized(mapping: Mapping, instances: int) -> Mapping:
    """The mapping over `instances` instances: the same heavy keys and buckets, heaviest first to the least loaded.

    What to expect of new rows is not known of it. Raises `InvalidParameter` if its buckets are too coarse for so many.
    """
    if instances == mapping.instances:
        return mapping
    most = most_instances(mapping)
    if checked_instances(instances) > most or mapping.capacities is not None:
        raise InvalidParameter(
            f"a mapping for {mapping.instances} instances with {mapping.bucket_weights.size:,} buckets serves at most {most}, "
            f"not {instances}"
        )
    own = mapping.heavy_keys.size
    placed = largest_first(np.concatenate([mapping.heavy_weights, mapping.bucket_weights]), instances)
    return replace(
        mapping, instances=instances, buckets=placed[own:], heavy_instances=placed[:own], expectation=None, chosen=""
    )
