"""Key groupings, one algorithm a file: every tuple of a key goes to one instance."""

from evenly.grouping.keys.consistent_hashing import ConsistentHashing
from evenly.grouping.keys.dkg import DKG
from evenly.grouping.keys.exact_greedy import ExactGreedy
from evenly.grouping.keys.kip import KIP
from evenly.grouping.keys.modulo import Modulo
from evenly.grouping.keys.one_instance import OneInstance
from evenly.grouping.keys.quadratic_dkg import QuadraticDKG
from evenly.grouping.keys.universal import Universal
from evenly.grouping.keys.wosim import WOSIM

__all__ = ["DKG", "KIP", "WOSIM", "ConsistentHashing", "ExactGreedy", "Modulo", "OneInstance", "QuadraticDKG", "Universal"]
