"""Which outgoing queue of a machine may send next: one policy a file, and the agent that carries it out."""

from evenly.emission.base import Backlogs, Emission
from evenly.emission.first_come import FCFS
from evenly.emission.largest_backlog import LBF
from evenly.emission.longest_waiting import LongestWaiting
from evenly.emission.round_robin import RRB
from evenly.emission.skipping_round_robin import SkippingRoundRobin
from evenly.emission.weighted_backlog import WeightedLBF

__all__ = ["FCFS", "LBF", "RRB", "Backlogs", "Emission", "LongestWaiting", "SkippingRoundRobin", "WeightedLBF"]
