"""Shuffle groupings, one algorithm a file: tuples go where there is time for them."""

from evenly.grouping.shuffle.full_knowledge import FullKnowledge
from evenly.grouping.shuffle.least_loaded_channels import LeastLoadedChannels
from evenly.grouping.shuffle.least_work import LeastWork
from evenly.grouping.shuffle.load_aware import LoadAwareShuffle
from evenly.grouping.shuffle.posg import POSG, READINGS
from evenly.grouping.shuffle.random_choice import RandomChoice
from evenly.grouping.shuffle.round_robin import RoundRobin
from evenly.grouping.shuffle.shortest_queue import ShortestQueue
from evenly.grouping.shuffle.two_choices import TwoChoices
from evenly.grouping.shuffle.virtual_finish import VirtualFinish

__all__ = [
    "POSG",
    "READINGS",
    "FullKnowledge",
    "LeastLoadedChannels",
    "LeastWork",
    "LoadAwareShuffle",
    "RandomChoice",
    "RoundRobin",
    "ShortestQueue",
    "TwoChoices",
    "VirtualFinish",
]
