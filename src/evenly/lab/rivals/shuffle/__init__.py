"""Shuffle groupings, one algorithm per file: tuples go where there is time for them."""

from evenly.lab.rivals.shuffle.full_knowledge import FullKnowledge
from evenly.lab.rivals.shuffle.least_loaded_channels import LeastLoadedChannels
from evenly.lab.rivals.shuffle.least_work import LeastWork
from evenly.lab.rivals.shuffle.load_aware import LoadAwareShuffle
from evenly.lab.rivals.shuffle.posg import POSG, READINGS
from evenly.lab.rivals.shuffle.random_choice import RandomChoice
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.rivals.shuffle.shortest_queue import ShortestQueue
from evenly.lab.rivals.shuffle.two_choices import TwoChoices
from evenly.lab.rivals.shuffle.virtual_finish import VirtualFinish

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
