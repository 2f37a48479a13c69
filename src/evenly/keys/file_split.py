"""Which keys are written by several instances, so that every file of a key has about the size that was asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenly.errors import InvalidParameter
from evenly.keys.mapping import Mapping
from evenly.keys.scheduling import largest_first
from evenly.keys.split_mapping import SplitMapping


def file_split(mapping: Mapping, rows_per_file: int) -> SplitMapping:
    """Each key of more than a file's rows in as many equal pieces as it has files, dealt out with all other keys.

    The mapping's weights are rows. An instance may get several pieces of a key, and writes as many files of it. Keys without
    an entry of their own are too light to be split, and stay whole. `tests/property/test_file_split.py` shows that no key is
    on more instances than it has files, and that no load is lost.
    """
    if rows_per_file < 1:
        raise InvalidParameter(f"rows_per_file must be at least 1, got {rows_per_file}")
    files = np.maximum(np.ceil(mapping.heavy_weights / rows_per_file), 1.0).astype(np.int64)
    # More pieces than a few for each instance balance nothing: then pieces are of several files.
    pieces = np.minimum(files, 4 * mapping.instances)
    large = np.flatnonzero(pieces > 1)
    if large.size == 0 or mapping.instances == 1:
        return SplitMapping(light=mapping)
    large = large[np.argsort(mapping.heavy_keys[large])]
    kept = np.setdiff1d(np.arange(mapping.heavy_keys.size), large)
    owners = np.repeat(np.arange(large.size), pieces[large])
    sizes = (mapping.heavy_weights[large] / pieces[large])[owners]
    buckets = mapping.bucket_weights if mapping.bucket_weights.size else np.zeros(mapping.buckets.size)
    blocks = np.concatenate([sizes, mapping.heavy_weights[kept], buckets])
    places = largest_first(blocks, mapping.instances, mapping.capacities)
    loads = np.zeros((large.size, mapping.instances))
    np.add.at(loads, (owners, places[: sizes.size]), sizes)
    numbers, instances = np.nonzero(loads)
    light = replace(
        mapping,
        heavy_keys=mapping.heavy_keys[kept],
        heavy_instances=places[sizes.size : sizes.size + kept.size],
        heavy_weights=mapping.heavy_weights[kept],
        buckets=places[sizes.size + kept.size :],
    )
    return SplitMapping(
        light=light,
        split=mapping.heavy_keys[large],
        starts=np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=large.size))]).astype(np.int64),
        parts=instances.astype(np.int32),
        part_loads=loads[numbers, instances],
    )
