"""Costs that are learnt once: read if they are there, and written with what was measured after the first action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from evenly.costs.model import CostModel
from evenly.costs.report import InstanceReport
from evenly.errors import EvenlyError, InvalidParameter, UnknownColumn
from evenly.remembered import PastRun, Subject
from evenly.spark.costs.key_types import checked_types
from evenly.spark.costs.row_ids import cost_key_types
from evenly.spark.jvm.outcomes import await_outcome, collected
from evenly.spark.remembering.store import Begun, Learnt, Store, Where, now


class CostMemory:
    """What is remembered of the costs of rows, in a folder.

    The model is that of `CostWatch.costs`: what was known before the run, and what it measured. Nothing is ever learnt anew,
    for a cost model forgets by itself what is contradicted.
    """

    def __init__(self, df: DataFrame, remember: Where, cost_key: tuple[str, ...] | None) -> None:
        self._df = df
        self._store = Store(df.sparkSession, remember, Subject("costs", cost_key or ()), by="apply_by_cost")
        self._begun: Begun | None = None

    def model(self) -> CostModel | None:
        """What is known; None if nothing is."""
        found: list[CostModel] = []

        def usable(content: str) -> None:
            model = CostModel.from_json(content, source=f"what is remembered in {self._store.path}")
            if model.expressions:
                model = checked_types(model, _types(self._df, model.expressions))
            found.append(model)

        self._begun = self._store.begun(lambda _: Learnt(CostModel().to_json()), usable)
        # Where no column told costs, they are all tried again.
        return found[-1] if found and found[-1].rows > 0.0 and found[-1].expressions else None

    def await_reports(self, observation: str, learnt: Callable[[tuple[InstanceReport, ...]], tuple[CostModel, float]]) -> None:
        """Have what the observation of this name brings written as the model, and the imbalance, that `learnt` makes of it."""
        begun = self._begun

        def take(row: Any) -> bool:
            reports = tuple(map(InstanceReport.from_bytes, collected(row)))
            rows = sum(report.rows for report in reports)
            if begun is None or not rows:
                return False
            model, busy_pct = learnt(reports)
            run = PastRun(now(), begun.did, begun.why, rows, None, busy_pct, anew=False, judged="costs are learnt in every run")
            self._store.ended(begun, run, lambda _: Learnt(model.to_json()))
            return True

        await_outcome(self._df.sparkSession, observation, take)


def _types(df: DataFrame, expressions: tuple[str, ...]) -> tuple[str, ...]:
    """The types of a remembered key; expressions that `df` does not have any more are refused."""
    try:
        return cost_key_types(df, expressions)
    except (PySparkException, EvenlyError) as error:
        raise UnknownColumn(f"the rows have no {', '.join(expressions)} any more") from error


def cost_memory(df: DataFrame, remember: Where | None, cost_key: tuple[str, ...] | None, *, costs: object) -> CostMemory | None:
    """What a call remembers of costs."""
    if remember is None:
        return None
    if costs is not None:
        raise InvalidParameter("give costs= or remember=, not both: what is given needs not be remembered")
    return CostMemory(df, remember, cost_key)
