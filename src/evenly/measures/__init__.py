"""What is measured of a run, as pure functions."""

from evenly.measures.completion import mean_completion_ms, p99_completion_ms, speedup
from evenly.measures.load import imbalance_pct, instance_loads, sigma

__all__ = ["imbalance_pct", "instance_loads", "mean_completion_ms", "p99_completion_ms", "sigma", "speedup"]
