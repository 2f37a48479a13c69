"""Rows of unequal cost: what they cost by key, and which instance runs them. Pure; no numba, since Spark's workers load it."""

from evenly.grouping.cost.dealing import BatchDealer, deal, levels
from evenly.grouping.cost.model import CostModel
from evenly.grouping.cost.pieces import Speeds, pieces
from evenly.grouping.cost.placing import Placement, RoutingCosts, place
from evenly.grouping.cost.recommend import Predictor, recommend
from evenly.grouping.cost.report import CostMeter, InstanceReport
from evenly.grouping.cost.scheduler import CostScheduler, Decision, SchedulerState
from evenly.grouping.cost.table import CostTable

__all__ = [
    "BatchDealer",
    "CostMeter",
    "CostModel",
    "CostScheduler",
    "CostTable",
    "Decision",
    "InstanceReport",
    "Placement",
    "Predictor",
    "RoutingCosts",
    "SchedulerState",
    "Speeds",
    "deal",
    "levels",
    "pieces",
    "place",
    "recommend",
]
