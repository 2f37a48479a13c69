"""Summaries of a stream in bounded memory: update, merge, estimate, to and from bytes."""

from evenly.sketches.count_min import CostSketch
from evenly.sketches.hashing import UniversalHash, key_ids
from evenly.sketches.space_saving import SpaceSaving

__all__ = ["CostSketch", "SpaceSaving", "UniversalHash", "key_ids"]
