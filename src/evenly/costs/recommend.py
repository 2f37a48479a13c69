"""Which column tells what a row costs: the candidates, ranked by what their keys explain of costs they were not fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenly.costs.moments import Moments, checked_costs, checked_ids
from evenly.costs.shrinkage import believed, variances
from evenly.costs.table import CostTable
from evenly.errors import InvalidParameter
from evenly.kernels.types import F64, I64

_FOLDS = 5
_CONSTANT = 0.04


@dataclass(frozen=True)
class Predictor:
    """A candidate for the cost key: `explained` is the share of the variance of unseen rows' costs that its keys predict
    (at most 1; 0 and below: no better than the mean), `keys` how many distinct keys the rows had."""

    expression: str
    explained: float
    keys: int


def recommend(
    costs_s: ArrayLike, candidates: Mapping[str, ArrayLike], *, least: float = 0.05, seed: int = 0
) -> list[Predictor]:
    """The candidates that predict cost, best first; none if costs are nearly constant or no candidate explains `least`.

    Cross-validated: rows are cut into five parts at random, and each part is predicted from the other four as the cost model
    would (shrunk toward the mean). So a column of distinct values, which would fit every row it has seen, explains nothing.
    Of candidates that explain the same to the nearest percent the one with fewer keys comes first.

    Parameters: `costs_s`, the measured cost of each row, some hundreds of rows at least; `candidates`, the id of each row's
    key by expression; `least`, how much a candidate must explain to be listed (-inf lists all); `seed` of the cut.
    """
    ids = {expression: checked_ids(of_rows) for expression, of_rows in candidates.items()}
    costs = checked_costs(costs_s, np.size(costs_s))
    for expression, of_rows in ids.items():
        if of_rows.size != costs.size:
            raise InvalidParameter(f"{expression!r} has {of_rows.size} ids for {costs.size} costs: give one for each row")
    if costs.size == 0 or (costs.std() <= _CONSTANT * costs.mean() and np.isfinite(least)):
        return []
    fold = np.random.default_rng(seed).permutation(costs.size) % _FOLDS
    found = [Predictor(name, _explained(of_rows, costs, fold), int(np.unique(of_rows).size)) for name, of_rows in ids.items()]
    return sorted((p for p in found if p.explained >= least), key=lambda p: (-round(p.explained, 2), p.keys, p.expression))


def _explained(ids: I64, costs: F64, fold: I64) -> float:
    missed = by_mean = 0.0
    for part in range(_FOLDS):
        held = fold == part
        known = Moments.of_rows(ids[~held], costs[~held], np.ones(int((~held).sum())))
        found = variances(known, np.zeros(3))
        table = CostTable(known.ids, np.append(believed(known, found), found.mean_s))
        missed += float(((costs[held] - table.estimate(ids[held])) ** 2).sum())
        by_mean += float(((costs[held] - found.mean_s) ** 2).sum())
    return 1.0 - missed / by_mean if by_mean > 0.0 else 0.0
