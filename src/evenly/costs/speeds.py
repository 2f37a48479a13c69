"""How fast each executor is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from evenly.costs.model import CostModel
from evenly.costs.report import InstanceReport
from evenly.errors import DamagedData
from evenly.kernels.types import F64

ALIKE = 1.2
"""Executors whose speeds differ by less than this factor are taken to be alike."""

_SURE = 3.5  # standard errors
_LEAST_ERROR = 0.02
_FADING = 0.5
_ABSENT_BATCHES = 8
_MAX_EXECUTORS = 1_024


class Speeds:
    """How fast each executor is, learnt from what its tasks took against what was expected of them. The usual one has speed 1.

    One report is enough for an executor that is surely slower or faster: by more than 3.5 standard errors of what its rows
    cost beyond what their keys explain. Until then its speed is 1: few rows, or costs that vary much, say little. Each batch,
    what was seen before counts half. An executor that is not seen for 8 batches is forgotten.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, float, float, int]] = {}  # expected, measured, variance of that, batches absent

    def learn(self, reports: Sequence[InstanceReport], model: CostModel | None = None) -> Self:
        """Take in the reports of one batch; what was expected of them is as `model` says, or as these reports say together."""
        told = [report for report in reports if report.executor and report.counted > 0.0]
        if not told:
            return self
        if model is None or model.rows <= 0.0:
            # A slow executor's costs blur what keys cost; so once more, without what is known of its speed by then.
            rough = Speeds().learn(told, CostModel().learn_all(told))
            model = CostModel().learn_all(told, speeds=[rough.of(report.executor) for report in told])
        batch = _compared(told, model)
        hoped, took = (sum(sums[at] for sums in batch.values()) for at in range(2))
        if took <= 0.0:
            return self
        # Costs may have changed for all: only what an executor is off beyond that is its own.
        now = {name: (sums[0] * took / hoped, sums[1], sums[2]) for name, sums in batch.items()}
        absent = {name: (*seen[:3], seen[3] + 1) for name, seen in self._seen.items() if name not in now}
        kept = {name: seen for name, seen in absent.items() if seen[3] < _ABSENT_BATCHES}
        self._seen = kept | {name: self._faded(name, *sums) for name, sums in sorted(now.items())}
        while len(self._seen) > _MAX_EXECUTORS:
            self._seen.pop(next(iter(self._seen)))
        return self

    def of(self, executor: str) -> float:
        """The speed of an executor; 1 if nothing is known of it."""
        return self.all().get(executor, 1.0)

    def all(self) -> dict[str, float]:
        """The speed of every executor that is known."""
        if not self._seen:
            return {}
        logs = {name: math.log(hoped / took) for name, (hoped, took, _, _) in self._seen.items()}
        middle = sorted(logs, key=lambda name: (logs[name], name))[len(logs) // 2]
        usual, unsure = logs[middle], 2.0 * _squared_error(*self._seen[middle][1:3]) / len(logs)
        return {
            name: math.exp(off - usual)
            if (off - usual) ** 2 > _SURE**2 * (_squared_error(*self._seen[name][1:3]) + unsure)
            else 1.0
            for name, off in logs.items()
        }

    @property
    def values(self) -> F64:
        """The speeds alone, for `pieces`."""
        return np.array(list(self.all().values()), np.float64)

    @property
    def uneven(self) -> bool:
        """Whether executors differ by more than 1.2."""
        known = self.values
        return bool(known.size > 1 and known.max() > ALIKE * known.min())

    def copy(self) -> Speeds:
        """Speeds that learn on their own from here."""
        other = Speeds()
        other._seen = dict(self._seen)
        return other

    def content(self) -> dict[str, Any]:
        """Plain data, for `of_content`."""
        return {name: list(seen) for name, seen in self._seen.items()}

    @classmethod
    def of_content(cls, content: dict[str, Any]) -> Self:
        speeds = cls()
        try:
            for name, (hoped, took, prior, absent) in content.items():
                speeds._seen[name] = (float(hoped), float(took), float(prior), int(absent))
        except (TypeError, ValueError, AttributeError) as error:
            raise DamagedData(f"these are not saved speeds of executors: {error}") from error
        return speeds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Speeds) and self._seen == other._seen

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns

    def _faded(self, name: str, hoped: float, took: float, variance: float) -> tuple[float, float, float, int]:
        before = self._seen.get(name, (0.0, 0.0, 0.0, 0))
        return before[0] * _FADING + hoped, before[1] * _FADING + took, before[2] * _FADING**2 + variance, 0


def _squared_error(took: float, variance: float) -> float:
    """The square of the relative standard error of a measured sum."""
    return max(variance / took**2, _LEAST_ERROR**2)


def _compared(reports: Sequence[InstanceReport], model: CostModel) -> dict[str, list[float]]:
    """Of each executor: what the model expected of its rows, what they took, and the variance of that beyond their keys."""
    table = model.table
    within = model.variances.shares[1] ** 2
    batch: dict[str, list[float]] = {}
    for report in reports:
        estimates, others = table.estimate(report.ids), float(table.costs_s[-1])
        hoped = float((report.counts * estimates).sum()) + report.rest[0] * others
        took = float(report.sums_s.sum()) + report.rest[1]
        if hoped <= 0.0 or took <= 0.0:
            continue
        pace = took / hoped
        # What is left of the squares when every row is expected to cost its estimate at this executor's pace.
        left = float((report.squares - 2.0 * pace * estimates * report.sums_s + report.counts * (pace * estimates) ** 2).sum())
        left += report.rest[2] - 2.0 * pace * others * report.rest[1] + report.rest[0] * (pace * others) ** 2
        rows = report.counted
        varied = max(left / rows / (took / rows) ** 2, within)
        sums = batch.setdefault(report.executor, [0.0, 0.0, 0.0])
        sums[0] += hoped
        sums[1] += took
        sums[2] += varied * took**2 / max(rows * report.sampling - 2.0, 0.5)  # few rows vary less than they would
    return batch
