"""Which outgoing queue of a machine may send next: one policy per file, and the agent that carries it out."""

from evenly.emission.policies.base import Backlogs, Emission
from evenly.emission.policies.first_come import FCFS
from evenly.emission.policies.largest_backlog import LBF
from evenly.emission.policies.longest_waiting import LongestWaiting
from evenly.emission.policies.round_robin import RRB
from evenly.emission.policies.skipping_round_robin import SkippingRoundRobin
from evenly.emission.policies.weighted_backlog import WeightedLBF

__all__ = ["FCFS", "LBF", "RRB", "Backlogs", "Emission", "LongestWaiting", "SkippingRoundRobin", "WeightedLBF"]
