"""How many threads an operator needs: one algorithm per file."""

from evenly.planning.allocation.base import Allocation, Allocator, Bundle, Need
from evenly.planning.allocation.lsa import LSA
from evenly.planning.allocation.mba import MBA

__all__ = ["LSA", "MBA", "Allocation", "Allocator", "Bundle", "Need"]
