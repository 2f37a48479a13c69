"""Streams to learn from and to evaluate on: synthetic ones, and recorded ones from files."""

from evenly.streams.costs import spread_costs
from evenly.streams.recorded import read_column
from evenly.streams.synthetic import KeyStream, normal, uniform, zipf

__all__ = ["KeyStream", "normal", "read_column", "spread_costs", "uniform", "zipf"]
