"""Machines: sizes with their prices, and which of them to take for a number of slots."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from evenly.dataflow.described import read_described
from evenly.errors import InvalidParameter

MOST_SLOTS = 1_000_000


@dataclass(frozen=True)
class MachineSize:
    """A kind of machine: how many slots it has, what an hour costs (if known), and the memory of a slot."""

    name: str
    slots: int
    price_per_hour: float | None = None
    slot_memory_gib: float = 3.5


@dataclass(frozen=True)
class Machine:
    """One machine of a plan: `slots` of it are used, of the `size.slots` it has. `rack` matters for network distance."""

    name: str
    size: MachineSize
    slots: int
    rack: str = "rack 1"


@dataclass(frozen=True)
class Cluster:
    """Machines, and their slots numbered through: machine 0 has the first ones."""

    machines: tuple[Machine, ...]

    @cached_property
    def machine_of(self) -> tuple[int, ...]:
        """The machine of every slot."""
        return tuple(place for place, one in enumerate(self.machines) for _ in range(one.slots))

    @cached_property
    def first_slot(self) -> tuple[int, ...]:
        """The number of every machine's first slot."""
        return (0, *itertools.accumulate(one.slots for one in self.machines))[:-1]

    @property
    def slots(self) -> int:
        """Slots that may be used."""
        return len(self.machine_of)

    @property
    def price_per_hour(self) -> float | None:
        """What all machines cost per hour, if every price is known."""
        prices = [one.size.price_per_hour for one in self.machines]
        return None if None in prices else float(sum(price for price in prices if price is not None))

    def named(self) -> str:
        """The machines in short, such as `3 × D3, 1 × D1`."""
        counts: dict[str, int] = {}
        for one in self.machines:
            counts[one.size.name] = counts.get(one.size.name, 0) + 1
        return ", ".join(f"{count} × {name}" for name, count in counts.items())


@dataclass(frozen=True)
class Catalogue:
    """The sizes that can be had."""

    sizes: tuple[MachineSize, ...]

    def __post_init__(self) -> None:
        if not self.sizes:
            raise InvalidParameter("a catalogue needs at least one size of machine")
        for one in self.sizes:
            if not 1 <= one.slots <= MOST_SLOTS:
                raise InvalidParameter(f"the size {one.name!r} must have from 1 to {MOST_SLOTS} slots, got {one.slots}")

    def acquire(self, slots: int) -> Cluster:
        """As many of the largest size as fit, then the smallest that covers the rest, as in the paper.

        At least `slots` are there, just as many are used, and fewer than the largest size are spare: with sizes of 1, 2
        and 4 slots at most one.
        """
        if not 1 <= slots <= MOST_SLOTS:
            raise InvalidParameter(f"slots must be from 1 to {MOST_SLOTS}, got {slots}")
        largest = max(self.sizes, key=lambda one: one.slots)
        whole, rest = divmod(slots, largest.slots)
        sizes = [(largest, largest.slots)] * whole
        if rest:
            sizes.append((min((one for one in self.sizes if one.slots >= rest), key=lambda one: one.slots), rest))
        return Cluster(tuple(Machine(f"machine {n}", size, used) for n, (size, used) in enumerate(sizes, 1)))

    def take(self, names: Iterable[tuple[str, int]]) -> Cluster:
        """A fixed set of machines: (size, how many), all of their slots."""
        by_name = {one.name: one for one in self.sizes}
        taken: list[MachineSize] = []
        for name, count in names:
            if name not in by_name:
                raise InvalidParameter(f"there is no machine of size {name!r}: choose from {', '.join(by_name)}")
            if count < 1:
                raise InvalidParameter(f"the number of machines of size {name} must be at least 1, got {count}")
            taken += [by_name[name]] * count
        return Cluster(tuple(Machine(f"machine {n}", size, size.slots) for n, size in enumerate(taken, 1)))


AZURE_D = Catalogue((MachineSize("D1", 1), MachineSize("D2", 2), MachineSize("D3", 4)))
"""The machines of the paper: slots of one core and 3.5 GiB. Its prices are not in the text; give your own catalogue."""


def read_catalogue(path: str | os.PathLike[str]) -> Catalogue:
    """A user's own machines: YAML with `machines:`, each `{slots: 4, price_per_hour: 0.5, slot_memory_gib: 4}`."""
    root = read_described(path, InvalidParameter)
    sizes: list[MachineSize] = []
    for name, one in root.fields("a catalogue", needs=("machines",))["machines"].mapping("machines").items():
        found = one.fields(f"the size {name!r}", needs=("slots",), may_have=("price_per_hour", "slot_memory_gib"))
        price = found["price_per_hour"].number("a price", least=0.0) if "price_per_hour" in found else None
        memory = found["slot_memory_gib"].number("the memory of a slot", above=0.0) if "slot_memory_gib" in found else 3.5
        sizes.append(MachineSize(name, found["slots"].whole("slots", least=1, most=MOST_SLOTS), price, memory))
    return Catalogue(tuple(sizes))


def parse_machines(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Sizes with how many of each, from texts such as `D3=5`."""
    found = []
    for text in texts:
        name, equals, count = text.partition("=")
        if not equals or not count.strip().isdigit():
            raise InvalidParameter(f"machines are given as SIZE=HOW MANY, such as D3=5, got {text!r}")
        found.append((name.strip(), int(count)))
    return found
