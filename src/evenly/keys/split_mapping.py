"""A planned split as plain data: keys too hot for one instance over several, every other key on one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from evenly.errors import DamagedData, InvalidParameter
from evenly.files import KeptInFile
from evenly.kernels import routing
from evenly.kernels.types import F64, I32, I64, U64
from evenly.keys.mapping import KeyIds, Mapping
from evenly.measures.load import imbalance_pct, instance_loads
from evenly.notebook import shown
from evenly.sealed import opened, sealed
from evenly.sketches.hashing import Keys, key_ids

FORMAT = "evenly.split_mapping"
FORMAT_VERSION = 1

WHOLE = 1 << 31
"""What `SplitMapping.draws` takes for certainty: cuts are out of 2^31."""

SplitWay = Literal["dkg+pkg", "w-choices"]


@dataclass(frozen=True, eq=False)
class SplitMapping(KeptInFile):
    """Every key of `split` over its parts, in the shares planned; every other key where `light` has it.

        plan = split_hot_keys(evenly.learn_mapping(df, key="user", instances=16))  # from evenly.keys.hot_keys
        evenly.split_by_key(df, key="user", instances=16, mapping=plan)

    Part i, of `parts[starts[key]] .. parts[starts[key + 1] - 1]`, takes `part_loads[i]` of the key's load on
    instance `parts[i]`. Which part a tuple goes to is decided by a number that the caller gives with it, its
    spread: the same id and the same spread always give the same instance, so a tuple that is sent again goes
    where it went before. What is computed by key must be merged for the keys in `split_keys()`, and for no other.

    `split_hot_keys` makes one. `tests/property/test_planned_split.py` proves what is said here.
    """

    light: Mapping
    split: U64 = field(default_factory=lambda: np.zeros(0, np.uint64))
    starts: I64 = field(default_factory=lambda: np.zeros(1, np.int64))
    parts: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    part_loads: F64 = field(default_factory=lambda: np.zeros(0))
    way: SplitWay = "dkg+pkg"

    def __post_init__(self) -> None:
        if self.starts.size != self.split.size + 1 or not self.parts.size == self.part_loads.size == self.starts[-1]:
            raise InvalidParameter("a split mapping needs the first part of each split key, and a load for each part")
        if self.starts[0] != 0 or (self.split.size and not (np.diff(self.starts) > 0).all()):
            raise InvalidParameter("a split mapping needs at least one part for each split key, in order")
        if not (self.split[1:] > self.split[:-1]).all():
            raise InvalidParameter("a split mapping needs its split keys once each, in ascending order")
        if self.parts.size and not 0 <= self.parts.min() <= self.parts.max() < self.instances:
            raise InvalidParameter(f"a split mapping needs parts on instances 0 to {self.instances - 1}")
        if not (np.isfinite(self.part_loads) & (self.part_loads > 0.0)).all():
            raise InvalidParameter("a split mapping needs loads above 0 for its parts")

    @property
    def instances(self) -> int:
        """How many instances there are."""
        return self.light.instances

    @property
    def ids(self) -> KeyIds:
        """What a key's id is, as in `Mapping`."""
        return self.light.ids

    @property
    def columns(self) -> tuple[str, ...]:
        """The key columns that it was learnt for."""
        return self.light.columns

    @property
    def needs_merge(self) -> bool:
        """Whether any key is split."""
        return self.split.size > 0

    def split_keys(self) -> U64:
        """The ids of the keys that are on several instances, in ascending order."""
        return self.split

    def shares(self, split_key: int) -> dict[int, float]:
        """The instances of a split key (by its id) and the share of its tuples for each."""
        at = int(np.searchsorted(self.split, np.uint64(split_key)))
        if at == self.split.size or int(self.split[at]) != split_key:
            raise InvalidParameter(f"{split_key} is not the id of a split key: split_keys() lists them")
        here = slice(int(self.starts[at]), int(self.starts[at + 1]))
        loads = self.part_loads[here]
        return dict(zip(self.parts[here].tolist(), (loads / loads.sum()).tolist(), strict=True))

    @cached_property
    def draws(self) -> tuple[I64, I32]:
        """For each part a cut and another instance of the same key: how a tuple finds its part in two steps.

        A tuple of spread s looks at part `s mod parts of its key`: it goes there if `s >> 33` is below the
        cut, else to the other instance. That gives every part its share exactly (the alias method of Walker, 1977).
        """
        cuts, others = np.full(self.parts.size, WHOLE, np.int64), self.parts.copy()
        for first, end in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            left = self.part_loads[first:end] / self.part_loads[first:end].sum() * (end - first)
            small, large = np.flatnonzero(left < 1.0).tolist(), np.flatnonzero(left >= 1.0).tolist()
            while small and large:
                low, high = small.pop(), large[-1]
                cuts[first + low], others[first + low] = round(left[low] * WHOLE), self.parts[first + high]
                left[high] -= 1.0 - left[low]
                if left[high] < 1.0:
                    small.append(large.pop())
        return cuts, others

    def assign_ids(self, ids: U64, spread: U64) -> I32:
        """The instance of every tuple, by its key's 64-bit id and its spread, 64 bits that look random."""
        assigned = self.light.assign_ids(ids)
        if not self.needs_merge:
            return assigned
        number = np.minimum(np.searchsorted(self.split, ids), self.split.size - 1)
        hit = np.flatnonzero(self.split[number] == ids)
        number, drawn = number[hit], spread[hit]
        # Signed, as Spark's pmod takes it: both sides must answer alike.
        place = self.starts[number] + np.mod(drawn.view(np.int64), np.diff(self.starts)[number])
        cuts, others = self.draws
        assigned[hit] = np.where((drawn >> np.uint64(33)).astype(np.int64) < cuts[place], self.parts[place], others[place])
        return assigned

    @property
    def fitted_loads(self) -> F64:
        """The load of every instance, for the tuples that the mapping was fitted to."""
        return self.light.fitted_loads + instance_loads(self.parts, self.instances, self.part_loads)

    @property
    def fitted_imbalance_pct(self) -> float:
        """The imbalance λ of the tuples that the mapping was fitted to: of others it promises nothing."""
        return imbalance_pct(self.fitted_loads, self.light.capacities)

    @property
    def memory_bytes(self) -> int:
        """The memory that routing needs."""
        split = self.split.nbytes + self.starts.nbytes + self.parts.nbytes + sum(table.nbytes for table in self.draws)
        return self.light.memory_bytes + split

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        facts = {
            "key": ", ".join(self.columns) or "any",
            "keys on several instances": f"{self.split_keys().size:,}",
            "other keys with an entry of their own": f"{self.light.heavy_keys.size:,}",
            "λ of the rows it was learnt from": f"{self.fitted_imbalance_pct:.2f} %",
            "results of split keys": "to be merged" if self.needs_merge else "whole",
        }
        title = f"Mapping of keys to {self.instances} instances, hot keys split"
        return shown(title, facts, {"load of these rows": self.fitted_loads.tolist()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SplitMapping) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def to_json(self) -> str:
        """The split mapping as one JSON object with a checksum."""
        content: dict[str, Any] = {
            "way": self.way,
            "light": json.loads(self.light.to_json()),
            "split": self.split.tolist(),
            "starts": self.starts.tolist(),
            "parts": self.parts.tolist(),
            "part_loads": self.part_loads.tolist(),
        }
        return sealed(content, kind=FORMAT, version=FORMAT_VERSION)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "this text") -> Self:
        """The split mapping that `to_json` was called on. Anything else is refused."""
        content = opened(text, kind=FORMAT, version=FORMAT_VERSION, what="split mapping", source=source)
        try:
            return cls(
                light=Mapping.from_json(json.dumps(content["light"]), source=source),
                split=np.array(content["split"], np.uint64),
                starts=np.array(content["starts"], np.int64),
                parts=np.array(content["parts"], np.int32),
                part_loads=np.array(content["part_loads"], np.float64),
                way=content["way"],
            )
        except (InvalidParameter, LookupError, TypeError, ValueError, OverflowError) as error:
            raise DamagedData(f"{source} is damaged ({error}). Make and save the split mapping again") from error


class PlannedSplit:
    """A sender that follows a split mapping, for simulations: the n-th tuple it sends has the n-th spread.

    A key that is not in `split_keys` is on one instance, whatever the number of senders with the same mapping.
    """

    needs_merge = True

    def __init__(self, mapping: SplitMapping) -> None:
        self.mapping = mapping
        self.name = str(mapping.way)
        self.instances = mapping.instances
        self._sent = 0

    @property
    def memory_bytes(self) -> int:
        """The memory that the sender holds."""
        return self.mapping.memory_bytes

    def route(self, keys: Keys) -> I32:
        """The instance of every tuple, in order; the next call goes on from there."""
        ids = key_ids(keys, hash_integers=self.mapping.ids == "xxhash64")
        spread = routing.mix(np.arange(self._sent, self._sent + ids.size, dtype=np.uint64))
        self._sent += ids.size
        return self.mapping.assign_ids(ids, spread)

    def split_keys(self) -> U64:
        """The ids of the keys that are on several instances."""
        return self.mapping.split_keys()
