"""Keys to instances where it is not sure what a key weighs: several guesses, and a placement that is even by all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenly.kernels.scheduling import assumed, least_full
from evenly.kernels.types import F64, I32, U64
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.measures.load import instance_loads


@dataclass(frozen=True, eq=False)
class GuessedKeys:
    """What keys weigh by several guesses: the heaviest one by one, and all keys (these too) by the bucket they are in.

    `weights` has a row for each guess, the likeliest first, and a column for each of `ids`; `buckets` a column for each bucket.
    """

    ids: U64
    weights: F64
    buckets: F64


def least_regret(weights: F64, instances: int, *, shares: F64 | None = None) -> I32:
    """Each item, heaviest first, to the instance that is then the least full by the guess that makes it fullest.

    `weights` has a row for each guess and a column for each item. Full is what no placement could be below: an equal share of
    all, or the heaviest item. So by every guess the fullest instance is held near to what is possible, and no guess has to be
    right. With one guess it is the rule of `largest_first`. An item of weight 0 is taken to weigh half of the lightest other.

    `shares` are the parts of all work that pieces are to have, where items go to pieces of the instances' work; their sum is 1.
    """
    guessed = np.stack([assumed(np.ascontiguousarray(row)) for row in weights])
    full = np.maximum(guessed.sum(axis=1) / instances, guessed.max(axis=1))
    parts = np.ascontiguousarray((guessed / np.where(full > 0.0, full, 1.0)[:, None]).T)
    heaviest_first = np.argsort(-parts.max(axis=1), kind="stable")
    room = np.ones(instances) if shares is None else instances * shares
    return least_full(parts, heaviest_first, np.zeros((room.size, weights.shape[0])), room)


def guessed_mapping(
    found: GuessedKeys,
    learner: DKG,
    *,
    columns: tuple[str, ...] = (),
    instances: int | None = None,
    shares: F64 | None = None,
) -> Mapping:
    """The mapping that is even by all guesses; its weights are the likeliest, and its fullest instance is the first.

    Spark starts tasks in their order: where there are more instances than slots, what lasts longest is to begin first.
    Keys that weigh theta of `learner` or more of all, by any guess, have an entry of their own. It is over the learner's
    instances, or over `instances`; with `shares` over as many pieces, the largest first, of what so many instances do.
    """
    instances = learner.instances if instances is None else instances
    number_of = instances if shares is None else shares.size
    total = found.buckets.sum(axis=1)
    if not total[0] > 0.0:
        return learner.mapping(number_of, columns=columns)
    heavy = (found.weights >= learner.theta * total[:, None]).any(axis=0)
    order = np.argsort(found.ids[heavy])
    ids, weights = found.ids[heavy][order], found.weights[:, heavy][:, order]
    at, buckets = learner.buckets_of(ids), learner.bucket_count
    left = found.buckets - np.stack([instance_loads(at, buckets, row) for row in weights])
    left = np.where(left > 1e-9 * total[:, None], left, 0.0)  # rounding must not leave less than nothing
    placed = least_regret(np.concatenate([weights, left], axis=1), instances, shares=shares)
    loads = instance_loads(placed, number_of, np.concatenate([weights[0], left[0]]))
    number = np.empty(number_of, np.int32)
    number[np.argsort(-loads, kind="stable")] = np.arange(number_of, dtype=np.int32)
    placed = number[placed]
    return Mapping(
        instances=number_of,
        buckets=placed[ids.size :],
        a=learner.a,
        b=learner.b,
        heavy_keys=ids,
        heavy_instances=placed[: ids.size],
        heavy_weights=weights[0],
        bucket_weights=left[0],
        ids=learner.ids,
        columns=columns,
        capacities=shares,
    )
