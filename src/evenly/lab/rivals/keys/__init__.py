"""Key groupings, one algorithm per file: every tuple of a key goes to one instance."""

from evenly.keys.dkg import DKG
from evenly.lab.rivals.keys.consistent_hashing import ConsistentHashing
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.lab.rivals.keys.kip import KIP
from evenly.lab.rivals.keys.modulo import Modulo
from evenly.lab.rivals.keys.one_instance import OneInstance
from evenly.lab.rivals.keys.quadratic_dkg import QuadraticDKG
from evenly.lab.rivals.keys.universal import Universal
from evenly.lab.rivals.keys.wosim import WOSIM

__all__ = ["DKG", "KIP", "WOSIM", "ConsistentHashing", "ExactGreedy", "Modulo", "OneInstance", "QuadraticDKG", "Universal"]
