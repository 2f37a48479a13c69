"""What is measured of a run, as pure functions."""

from evenly.measures.load import imbalance_pct, instance_loads, sigma

__all__ = ["imbalance_pct", "instance_loads", "sigma"]
