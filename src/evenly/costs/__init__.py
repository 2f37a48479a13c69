"""Rows of unequal cost: what they cost by key, and which instance runs them. Pure; no numba, since Spark's workers load it."""

from evenly.costs.dealing import BatchDealer, deal, levels
from evenly.costs.meter import CostMeter
from evenly.costs.model import CostModel
from evenly.costs.pieces import pieces
from evenly.costs.placing import DealingChoice, RoutingCosts, choose_dealing
from evenly.costs.recommend import Predictor, recommend
from evenly.costs.report import InstanceReport
from evenly.costs.scheduler import BatchDecision, CostScheduler, SchedulerState
from evenly.costs.speeds import Speeds
from evenly.costs.table import CostTable

__all__ = [
    "BatchDealer",
    "BatchDecision",
    "CostMeter",
    "CostModel",
    "CostScheduler",
    "CostTable",
    "DealingChoice",
    "InstanceReport",
    "Predictor",
    "RoutingCosts",
    "SchedulerState",
    "Speeds",
    "choose_dealing",
    "deal",
    "levels",
    "pieces",
    "recommend",
]
