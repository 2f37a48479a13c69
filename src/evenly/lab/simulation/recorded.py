"""A recorded stream through several groupings and numbers of instances, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from evenly.checks import checked_instances
from evenly.errors import EmptyStream, InvalidParameter
from evenly.kernels.types import F64, I32, U64
from evenly.keys.base import KeyGrouping, SplittingGrouping
from evenly.lab.simulation.catalogue import Named, Wanted, keyed, label
from evenly.lab.simulation.senders import checked_loads, learns_first
from evenly.measures.load import imbalance_pct, sigma
from evenly.sketches.hashing import Keys, key_ids
from evenly.sketches.weights import checked_weights

ITSELF = "fitted on the evaluated part"
BEFORE = "fitted on the first part"


@dataclass(frozen=True)
class Outcome:
    """One grouping on one number of instances.

    `series` says what it was fitted on. `memory_bytes` is what the learner held, `mapping_bytes` what routing needs
    (none where each sender decides tuple by tuple). `least_imbalance_pct` is the λ that no grouping of whole keys can
    go below, because the heaviest key needs an instance (0 where keys are split). `moved_load_pct` is how much of the
    evaluated load would change its instance if the mapping of the first part were made anew for the evaluated part.
    """

    grouping: str
    instances: int
    series: str
    imbalance_pct_mean: float
    sigma_mean: float
    least_imbalance_pct: float
    memory_bytes: int
    mapping_bytes: int | None
    moved_load_pct: float | None
    needs_merge: bool

    def row(self) -> dict[str, object]:
        """The outcome as a flat object."""
        return asdict(self)


def compare(
    keys: Keys,
    *,
    groupings: Sequence[Named],
    instances: Sequence[int],
    fit_share: float,
    weights: F64 | None = None,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[Outcome]:
    """Each grouping on each number of instances: fitted on the first `fit_share` of the tuples, and fitted on the rest.

    Both are evaluated on the rest. A grouping is a name of the catalogue, or a class or function of your own that makes one
    (`evenly.lab.simulation.catalogue`). A tuple's load is 1, or what `weights` says. `progress` is called with 1 after each
    pair of grouping and number of instances.
    """
    if not 0.0 < fit_share < 1.0:
        raise InvalidParameter(f"the share to fit on must be above 0 and below 1, got {fit_share}")
    makers = [(label(named), keyed(named)) for named in groupings]
    sizes = [checked_instances(count) for count in instances]
    ids = key_ids(keys)
    loads = np.ones(ids.size) if weights is None else checked_weights(weights, ids.size, what="weights")
    first = int(ids.size * fit_share)
    if first < 1 or first >= ids.size:
        raise EmptyStream(f"{ids.size} tuples cannot be cut into a part to fit on and a part to evaluate: give more")
    learnt, evaluated = _Part(ids[:first], loads[:first]), _Part(ids[first:], loads[first:])
    if evaluated.loads.sum() == 0.0:
        raise EmptyStream("the part to evaluate has no load: its weights are all 0")
    outcomes: list[Outcome] = []
    for name, make in makers:
        for count in sizes:
            wanted = Wanted(count, seed)
            made = make(wanted), make(wanted)
            if made[0] is made[1]:
                raise InvalidParameter(f"{name} gave the same object twice: it must make a new one each time")
            if isinstance(made[0], SplittingGrouping):
                outcomes += _splitting(name, wanted, made, learnt, evaluated)
            else:
                outcomes += _whole(name, wanted, made, learnt, evaluated)
            if progress is not None:
                progress(1)
    return outcomes


@dataclass(frozen=True, eq=False)
class _Part:
    """Tuples, as ids and loads."""

    ids: U64
    loads: F64

    @cached_property
    def heaviest_share(self) -> float:
        """The part of the load that the heaviest key has."""
        _, places = np.unique(self.ids, return_inverse=True)
        return float(np.bincount(places, self.loads).max() / self.loads.sum())


def _whole(name: str, wanted: Wanted, made: tuple[Any, Any], learnt: _Part, evaluated: _Part) -> list[Outcome]:
    found: list[tuple[str, KeyGrouping, I32, int]] = []
    for grouping, series, part in zip(made, (ITSELF, BEFORE), (evaluated, learnt), strict=True):
        mapping = grouping.fit(part.ids, part.loads).mapping(wanted.instances)
        found.append((series, grouping, mapping.assign(evaluated.ids), mapping.memory_bytes))
    moved = float(evaluated.loads[found[0][2] != found[1][2]].sum() / evaluated.loads.sum()) * 100.0
    return [
        _outcome(name, wanted, series, evaluated, assigned, grouping, mapping_bytes=bytes_, moved_load_pct=moved_pct)
        for (series, grouping, assigned, bytes_), moved_pct in zip(found, (None, moved), strict=True)
    ]


def _splitting(name: str, wanted: Wanted, made: tuple[Any, Any], learnt: _Part, evaluated: _Part) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for sender, series, part in zip(made, (ITSELF, BEFORE), (evaluated, learnt), strict=True):
        if learns_first(sender):
            sender.fit(part.ids, part.loads)
        elif series == BEFORE:
            sender.route(learnt.ids)
        outcomes.append(_outcome(name, wanted, series, evaluated, sender.route(evaluated.ids), sender))
    return outcomes


def _outcome(
    name: str,
    wanted: Wanted,
    series: str,
    evaluated: _Part,
    assigned: I32,
    grouping: KeyGrouping | SplittingGrouping,
    *,
    mapping_bytes: int | None = None,
    moved_load_pct: float | None = None,
) -> Outcome:
    loads = checked_loads(assigned, wanted.instances, evaluated.loads, name)
    split = isinstance(grouping, SplittingGrouping)
    return Outcome(
        grouping=name,
        instances=wanted.instances,
        series=series,
        imbalance_pct_mean=imbalance_pct(loads),
        sigma_mean=sigma(loads),
        least_imbalance_pct=0.0 if split else max(0.0, (evaluated.heaviest_share * wanted.instances - 1.0) * 100.0),
        memory_bytes=grouping.memory_bytes,
        mapping_bytes=mapping_bytes,
        moved_load_pct=moved_load_pct,
        needs_merge=split,
    )
