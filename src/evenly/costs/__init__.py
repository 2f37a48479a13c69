"""Rows of unequal cost: what they cost by key, and which instance runs them. Pure; no numba, since Spark's workers load it."""

from evenly.costs.dealing import BatchDealer, deal, levels
from evenly.costs.meter import CostMeter
from evenly.costs.model import CostModel
from evenly.costs.pieces import pieces
from evenly.costs.placing import Placement, RoutingCosts, place
from evenly.costs.recommend import Predictor, recommend
from evenly.costs.report import InstanceReport
from evenly.costs.scheduler import CostScheduler, Decision, SchedulerState
from evenly.costs.speeds import Speeds
from evenly.costs.table import CostTable

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
