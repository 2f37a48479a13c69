"""Shuffle groupings, one algorithm a file: tuples go where there is time for them."""

from evenly.grouping.shuffle.least_loaded_channels import LeastLoadedChannels
from evenly.grouping.shuffle.load_aware import LoadAwareShuffle
from evenly.grouping.shuffle.round_robin import RoundRobin

__all__ = ["LeastLoadedChannels", "LoadAwareShuffle", "RoundRobin"]
