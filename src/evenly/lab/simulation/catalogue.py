"""Every grouping by the name that commands, simulations and papers give it, and how one of your own is named."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from evenly.costs.base import ShuffleGrouping
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
from evenly.lab.rivals.shuffle.full_knowledge import FullKnowledge
from evenly.lab.rivals.shuffle.least_loaded_channels import LeastLoadedChannels
from evenly.lab.rivals.shuffle.least_work import LeastWork
from evenly.lab.rivals.shuffle.load_aware import LoadAwareShuffle
from evenly.lab.rivals.shuffle.posg import POSG, READINGS
from evenly.lab.rivals.shuffle.random_choice import RandomChoice
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.rivals.shuffle.shortest_queue import ShortestQueue
from evenly.lab.rivals.shuffle.two_choices import TwoChoices
from evenly.lab.rivals.shuffle.virtual_finish import VirtualFinish
from evenly.lab.rivals.splitting.cam import CAM
from evenly.lab.rivals.splitting.d_choices import DChoices
from evenly.lab.rivals.splitting.dkg_pkg import DKGPKG
from evenly.lab.rivals.splitting.partial_key import PKG
from evenly.lab.rivals.splitting.w_choices import WChoices

Own = Callable[..., Any]
"""A class or function that makes a grouping; it is given `instances` and `seed` as far as it has parameters of these names."""
Named = str | Own
"""A name of the catalogue, `MODULE:NAME` of an `Own`, or that itself."""
Grouping = TypeVar("Grouping")


@dataclass(frozen=True)
class Wanted:
    """What a grouping of the catalogue is made for; each takes what it knows of.

    `theta` and `mu` are those of DKG (epsilon is theta / 2), `columns` those of the matrices of shuffle groupings.
    """

    instances: int
    seed: int = 0
    theta: float = 0.1
    mu: float = 2.0
    columns: int = 54


WHOLE: dict[str, Callable[[Wanted], KeyGrouping]] = {
    "evenly": lambda wanted: DKG.automatic(wanted.instances, seed=wanted.seed),
    DKG.name: lambda wanted: DKG(wanted.instances, theta=wanted.theta, mu=wanted.mu, seed=wanted.seed),
    WOSIM.name: lambda wanted: WOSIM(wanted.instances, theta=wanted.theta, seed=wanted.seed),
    ExactGreedy.name: lambda wanted: ExactGreedy(seed=wanted.seed),
    ConsistentHashing.name: lambda wanted: ConsistentHashing(seed=wanted.seed),
    KIP.name: lambda wanted: KIP(wanted.instances, seed=wanted.seed),
    Universal.name: lambda wanted: Universal(seed=wanted.seed),
    Modulo.name: lambda wanted: Modulo(seed=wanted.seed),
    OneInstance.name: lambda wanted: OneInstance(seed=wanted.seed),
}
"""Groupings that keep each key on one instance."""

SPLITTING: dict[str, Callable[[Wanted], SplittingGrouping]] = {
    PKG.name: lambda wanted: PKG(wanted.instances, seed=wanted.seed),
    "pkg-distinct": lambda wanted: PKG(wanted.instances, distinct=True, seed=wanted.seed),
    DChoices.name: lambda wanted: DChoices(wanted.instances, seed=wanted.seed),
    WChoices.name: lambda wanted: WChoices(wanted.instances, seed=wanted.seed),
    CAM.name: lambda wanted: CAM(wanted.instances, seed=wanted.seed),
    DKGPKG.name: lambda wanted: DKGPKG(wanted.instances, theta=wanted.theta, mu=wanted.mu, seed=wanted.seed),
}
"""Groupings that may put a key on several instances, so that a merge step must follow."""

KEYED: dict[str, Callable[[Wanted], KeyGrouping | SplittingGrouping]] = {**WHOLE, **SPLITTING}
"""All groupings by key."""


def _posg(reading: str) -> Callable[[Wanted], ShuffleGrouping]:
    return lambda wanted: POSG(wanted.instances, reading=reading, columns=wanted.columns, seed=wanted.seed)


SHUFFLE: dict[str, Callable[[Wanted], ShuffleGrouping]] = {
    VirtualFinish.name: lambda wanted: VirtualFinish(wanted.instances, columns=wanted.columns, seed=wanted.seed),
    **{f"posg-{reading}": _posg(reading) for reading in READINGS},
    RoundRobin.name: lambda wanted: RoundRobin(wanted.instances),
    RandomChoice.name: lambda wanted: RandomChoice(wanted.instances, seed=wanted.seed),
    TwoChoices.name: lambda wanted: TwoChoices(wanted.instances, seed=wanted.seed),
    ShortestQueue.name: lambda wanted: ShortestQueue(wanted.instances),
    LeastLoadedChannels.name: lambda wanted: LeastLoadedChannels(wanted.instances),
    LoadAwareShuffle.name: lambda wanted: LoadAwareShuffle(wanted.instances, seed=wanted.seed),
    FullKnowledge.name: lambda wanted: FullKnowledge(wanted.instances, cost_ms=np.asarray),
    LeastWork.name: lambda wanted: LeastWork(wanted.instances, cost_ms=np.asarray),
}
"""Groupings that send any tuple anywhere. The last two know what no real scheduler knows: a simulation tells them."""


def keyed(named: Named) -> Callable[[Wanted], KeyGrouping | SplittingGrouping]:
    """How a grouping by key is made, by its name or by what makes one."""
    return making(named, KEYED, "grouping", (KeyGrouping, SplittingGrouping))


def shuffling(named: Named) -> Callable[[Wanted], ShuffleGrouping]:
    """How a shuffle grouping is made, by its name or by what makes one."""
    return making(named, SHUFFLE, "shuffle grouping", (ShuffleGrouping,))


def is_own(named: Named) -> bool:
    """Whether it is none of the catalogue."""
    return not isinstance(named, str) or ":" in named


def label(named: Named) -> str:
    """How results call a grouping: its name in the catalogue, MODULE:NAME as it was given, or the name of what makes it."""
    return named if isinstance(named, str) else str(getattr(named, "__name__", type(named).__name__))


def making(
    named: Named, known: dict[str, Callable[[Wanted], Grouping]], what: str, protocols: tuple[type, ...]
) -> Callable[[Wanted], Grouping]:
    """How one is made that is `known` by its name, or that a class or function of the caller's own makes."""
    if isinstance(named, str) and not is_own(named):
        if named not in known:
            raise InvalidParameter(
                f"there is no {what} {named!r}: choose from {', '.join(known)}, or give MODULE:NAME of your own"
            )
        return known[named]
    make = _loaded(named) if isinstance(named, str) else named
    if not callable(make):
        raise InvalidParameter(f"{label(named)} must be a class or function that makes a {what}, got {make!r}")
    taken = _parameters(make)

    def made(wanted: Wanted) -> Grouping:
        given = {name: getattr(wanted, name) for name in ("instances", "seed") if name in taken}
        try:
            grouping: Any = make(**given)
        except TypeError as error:
            raise InvalidParameter(
                f"{label(named)} cannot be made with {', '.join(given) or 'nothing'}: {error}; give a function of instances "
                "and seed that makes it"
            ) from error
        if not isinstance(grouping, protocols):
            names = " or ".join(f"{one.__module__}.{one.__name__}" for one in protocols)
            raise InvalidParameter(f"{label(named)} makes {grouping!r}, which does not fulfil {names}")
        fulfilled: Any = grouping
        return fulfilled  # type: ignore[no-any-return]

    return made


def _loaded(target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidParameter(f"{target} cannot be loaded: {error}; give MODULE:NAME of what can be imported here") from error
    return found


def _parameters(make: Own) -> set[str]:
    """The names of parameters that may be given; a class that passes what it gets on has those of its parents too."""
    inits = [vars(one)["__init__"] for one in make.__mro__ if "__init__" in vars(one)] if isinstance(make, type) else [make]
    names: set[str] = set()
    for init in inits:
        parameters = inspect.signature(init).parameters.values()
        names |= {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            break
    return names
