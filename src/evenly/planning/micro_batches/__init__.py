"""Dataflows on Spark's micro-batches: stages one after the other, each on all slots."""

from evenly.planning.micro_batches.choosing import plan_on_spark
from evenly.planning.micro_batches.curves import CurvePoint, SlotCurve
from evenly.planning.micro_batches.engine import EngineCosts
from evenly.planning.micro_batches.frame_costs import FrameCost
from evenly.planning.micro_batches.models import MeasuredEdge, SparkModels
from evenly.planning.micro_batches.plan import PlannedStage, SparkPlan

__all__ = [
    "CurvePoint",
    "EngineCosts",
    "FrameCost",
    "MeasuredEdge",
    "PlannedStage",
    "SlotCurve",
    "SparkModels",
    "SparkPlan",
    "plan_on_spark",
]
