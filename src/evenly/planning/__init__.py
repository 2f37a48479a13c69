"""How many threads, slots and machines a rate needs, before anything is deployed."""

from evenly.planning.completion import Completion, completion_at
from evenly.planning.machines import AZURE_D, Catalogue, Cluster, Machine, MachineSize, read_catalogue
from evenly.planning.model_files import models_yaml, read_models, shipped_models
from evenly.planning.models import Models, PerformanceModel, Point, merge_runs, static_model
from evenly.planning.plan import Plan, compare_pairs, highest_rate, plan
from evenly.planning.prediction import Assumptions, Prediction, predict
from evenly.planning.rehearsal import Rehearsal, rehearse
from evenly.planning.replan import Replan, replan

__all__ = [
    "AZURE_D",
    "Assumptions",
    "Catalogue",
    "Cluster",
    "Completion",
    "Machine",
    "MachineSize",
    "Models",
    "PerformanceModel",
    "Plan",
    "Point",
    "Prediction",
    "Rehearsal",
    "Replan",
    "compare_pairs",
    "completion_at",
    "highest_rate",
    "merge_runs",
    "models_yaml",
    "plan",
    "predict",
    "read_catalogue",
    "read_models",
    "rehearse",
    "replan",
    "shipped_models",
    "static_model",
]
