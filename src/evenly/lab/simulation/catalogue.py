"""Every grouping of keys by the name that commands and results give it."""

from __future__ import annotations

from collections.abc import Callable

from evenly.errors import InvalidParameter
from evenly.keys.base import KeyGrouping, SplittingGrouping
from evenly.keys.dkg import DKG
from evenly.lab.rivals.keys.consistent_hashing import ConsistentHashing
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.lab.rivals.keys.kip import KIP
from evenly.lab.rivals.keys.modulo import Modulo
from evenly.lab.rivals.keys.one_instance import OneInstance
from evenly.lab.rivals.keys.universal import Universal
from evenly.lab.rivals.keys.wosim import WOSIM
from evenly.lab.rivals.splitting.cam import CAM
from evenly.lab.rivals.splitting.d_choices import DChoices
from evenly.lab.rivals.splitting.dkg_pkg import DKGPKG
from evenly.lab.rivals.splitting.partial_key import PKG
from evenly.lab.rivals.splitting.w_choices import WChoices

WHOLE: dict[str, Callable[[int, int], KeyGrouping]] = {
    "evenly": lambda instances, seed: DKG.automatic(instances, seed=seed),
    DKG.name: lambda instances, seed: DKG(instances, seed=seed),
    WOSIM.name: lambda instances, seed: WOSIM(instances, seed=seed),
    ExactGreedy.name: lambda _, seed: ExactGreedy(seed=seed),
    ConsistentHashing.name: lambda _, seed: ConsistentHashing(seed=seed),
    KIP.name: lambda instances, seed: KIP(instances, seed=seed),
    Universal.name: lambda _, seed: Universal(seed=seed),
    Modulo.name: lambda _, seed: Modulo(seed=seed),
    OneInstance.name: lambda _, seed: OneInstance(seed=seed),
}
"""Groupings that keep each key on one instance, made from the number of instances and a seed."""

SPLITTING: dict[str, Callable[[int, int], SplittingGrouping]] = {
    PKG.name: lambda instances, seed: PKG(instances, seed=seed),
    DChoices.name: lambda instances, seed: DChoices(instances, seed=seed),
    WChoices.name: lambda instances, seed: WChoices(instances, seed=seed),
    CAM.name: lambda instances, seed: CAM(instances, seed=seed),
    DKGPKG.name: lambda instances, seed: DKGPKG(instances, seed=seed),
}
"""Groupings that may put a key on several instances, so that a merge step must follow."""


def checked_grouping(name: str) -> str:
    """`name` if there is a grouping of that name."""
    if name not in WHOLE and name not in SPLITTING:
        raise InvalidParameter(f"there is no grouping {name!r}: choose from {', '.join([*WHOLE, *SPLITTING])}")
    return name
