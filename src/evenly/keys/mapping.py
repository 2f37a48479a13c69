"""A fitted key grouping as plain data: heavy keys and buckets to instances."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.errors import DamagedData, InvalidParameter
from evenly.files import KeptInFile
from evenly.kernels import routing
from evenly.kernels.types import F64, I32, U64
from evenly.keys.cuckoo import in_places, two_choice_tables
from evenly.keys.expectation import Expectation, Weighed, expectation
from evenly.measures.load import imbalance_pct, instance_loads
from evenly.notebook import shown
from evenly.sealed import checksum, opened, sealed
from evenly.sketches.hashing import Keys, key_ids
from evenly.sketches.weights import checked_weights

FORMAT = "evenly.mapping"
FORMAT_VERSION = 1

KeyIds = Literal["integer", "xxhash64"]
_PLACING = ("instances", "ids", "a", "b", "buckets", "heavy_keys", "heavy_instances")
"""What a key's instance is told by."""
_MOST_WEIGHT = 1e300


@dataclass(frozen=True, eq=False)
class Mapping(KeptInFile):
    """Every key to exactly one of `instances` instances, before and after it is saved and read back.

        mapping = evenly.learn_mapping(df, key="user", instances=16)
        mapping.save("users.json")
        evenly.by_key(df, key="user", instances=16, mapping=evenly.Mapping.load("users.json"))

    A key with an entry of its own (`heavy_keys`) goes to that entry's instance; any other key goes to
    the instance of its bucket, `floor(((a id + b) mod 2^61 - 1) / 2^61 x buckets)`, or, where `a` is 0,
    bucket `id mod buckets`.

    `ids` says what a key's 64-bit id is: `"integer"`, the integer itself (text and bytes are hashed);
    `"xxhash64"`, what Spark's function of that name gives for the key columns (then `a` is 0). `version` counts the
    mappings that followed each other for one query. The weights are what the mapping was fitted to. `columns` and `types`
    are Spark's key columns, as far as they are known: an integer and a bigint have different ids. `expectation` is what rows
    held back from learning say of new ones, if any were. `chosen` says in words why there are so many instances, if
    `instances="auto"` chose their number.
    """

    instances: int
    buckets: I32
    a: int
    b: int
    heavy_keys: U64 = field(default_factory=lambda: np.zeros(0, np.uint64))
    heavy_instances: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    heavy_weights: F64 = field(default_factory=lambda: np.zeros(0))
    bucket_weights: F64 = field(default_factory=lambda: np.zeros(0))
    grouping: str = "dkg"
    ids: KeyIds = "integer"
    columns: tuple[str, ...] = ()
    version: int = 1
    capacities: F64 | None = None
    types: tuple[str, ...] = ()
    expectation: Expectation | None = None
    chosen: str = ""

    def __post_init__(self) -> None:
        if self.buckets.size < 1 or not self._in_range(self.buckets):
            raise InvalidParameter(f"a mapping needs buckets that name instances 0 to {self.instances - 1}")
        if not self.heavy_keys.size == self.heavy_instances.size == self.heavy_weights.size:
            raise InvalidParameter("a mapping needs one instance and one weight for each heavy key")
        if self.heavy_keys.size and not self._in_range(self.heavy_instances):
            raise InvalidParameter(f"a mapping needs heavy keys on instances 0 to {self.instances - 1}")
        if np.unique(self.heavy_keys).size < self.heavy_keys.size:
            raise InvalidParameter("a mapping needs its heavy keys once each")
        if self.ids == "xxhash64" and self.a != 0:
            raise InvalidParameter("ids that are hashes already go to buckets by modulo: a mapping of such ids has a = 0")
        if self.capacities is not None and self.capacities.shape != (self.instances,):
            raise InvalidParameter(f"a mapping to {self.instances} instances came with {self.capacities.size} capacities")
        if self.bucket_weights.size not in (0, self.buckets.size):
            raise InvalidParameter(f"{self.buckets.size} buckets came with {self.bucket_weights.size} weights")

    def _check_weights(self) -> None:
        """Refuse loads that no tuples have: λ of them would be none, and nobody would be told."""
        for weights in (self.heavy_weights, self.bucket_weights):
            if weights.ndim != 1 or not ((weights >= 0.0) & (weights <= _MOST_WEIGHT)).all():
                raise InvalidParameter("a mapping needs finite weights, none below 0")
        if self.capacities is not None and not ((self.capacities > 0.0) & (self.capacities <= _MOST_WEIGHT)).all():
            raise InvalidParameter("a mapping needs finite capacities above 0")

    def _in_range(self, named: I32) -> bool:
        return bool(0 <= named.min() <= named.max() < self.instances)

    @cached_property
    def _tables(self) -> tuple[U64, I32, U64, I32]:
        first, second = two_choice_tables(routing.mix(self.heavy_keys))
        keys, instances = self.heavy_keys, self.heavy_instances
        return in_places(first, keys), in_places(first, instances), in_places(second, keys), in_places(second, instances)

    def assign(self, keys: Keys) -> I32:
        """The instance of every key.

        For a mapping with `ids="xxhash64"` the keys are those of one Spark column: text, bytes, or
        64-bit integers. For any other key columns compute the ids with Spark and use `assign_ids`.
        """
        return self.assign_ids(key_ids(keys, hash_integers=self.ids == "xxhash64"))

    def assign_ids(self, ids: U64) -> I32:
        """The instance of every 64-bit id."""
        a, b = np.uint64(self.a), np.uint64(self.b)
        if self.heavy_keys.size == 0:
            return routing.by_bucket(ids, a, b, self.buckets)
        return routing.assign(ids, *self._tables, a, b, self.buckets)

    @cached_property
    def identity(self) -> str:
        """A text that is the same for equal mappings, and for no others."""
        return checksum(self._content())

    @cached_property
    def placing(self) -> str:
        """A text that is the same for mappings that put every key on the same instance, whatever they were learnt from."""
        told = self._content()
        return checksum({name: told[name] for name in _PLACING})

    @property
    def fitted_loads(self) -> F64:
        """The load of every instance, for the tuples that the mapping was fitted to."""
        loads = instance_loads(self.heavy_instances, self.instances, self.heavy_weights)
        if self.bucket_weights.size:
            loads += instance_loads(self.buckets, self.instances, self.bucket_weights)
        return loads

    @property
    def fitted_imbalance_pct(self) -> float:
        """The imbalance λ of the tuples that the mapping was fitted to. Of others it promises nothing."""
        return imbalance_pct(self.fitted_loads, self.capacities)

    @property
    def expected_imbalance_pct(self) -> float | None:
        """The imbalance λ to expect of new tuples, from tuples held back from learning. None where none were."""
        return None if self.expectation is None else self.expectation.imbalance_pct

    @property
    def expected_range_pct(self) -> tuple[float, float] | None:
        """The least and the most λ to expect of new tuples, as `Expectation` says. None where no tuples were held back."""
        return None if self.expectation is None else (self.expectation.low_pct, self.expectation.high_pct)

    def held_against(self, keys: Keys, weights: ArrayLike | None = None) -> Self:
        """The same mapping with what to expect of new tuples, told by tuples that came after those it was learnt from.

        >>> from evenly.keys.dkg import DKG
        >>> keys = np.arange(4_000) % 100
        >>> mapping = DKG.automatic(4).fit(keys[:2_000]).mapping().held_against(keys[2_000:])
        >>> print(mapping.expectation)
        0 to 13 %
        """
        assigned = self.assign(keys)
        loads = checked_weights(np.ones(assigned.size) if weights is None else weights, assigned.size, what="weights")
        told = Weighed.of(instance_loads(assigned, self.instances, loads), float(np.square(loads).sum()))
        fitted = Weighed(self.fitted_loads, float(self.fitted_loads.sum()))
        found = expectation(fitted, [told], new_rows=fitted.rows, capacities=self.capacities)
        return replace(self, expectation=found)

    @property
    def least_imbalance_pct(self) -> float:
        """The least λ that any mapping of whole keys can have: the heaviest key needs an instance to itself."""
        total = float(self.heavy_weights.sum() + self.bucket_weights.sum())
        if total == 0.0 or self.heavy_weights.size == 0:
            return 0.0
        largest = 1.0 if self.capacities is None else float(self.capacities.max())
        together = self.instances if self.capacities is None else float(self.capacities.sum())
        return max(0.0, (float(self.heavy_weights.max()) / largest * together / total - 1.0) * 100.0)

    @property
    def memory_bytes(self) -> int:
        """The memory that routing needs."""
        tables = self._tables if self.heavy_keys.size else ()
        return self.buckets.nbytes + sum(table.nbytes for table in tables)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        facts = {
            "key": ", ".join(self.columns) or "any",
            "keys with an entry of their own": f"{self.heavy_keys.size:,}",
            "buckets of all others": f"{self.buckets.size:,}",
            "λ of the rows it was learnt from": f"{self.fitted_imbalance_pct:.2f} %",
            "λ to expect of new rows": "not known: no rows were held back" if self.expectation is None else self.expectation,
            "the least that whole keys allow": f"{self.least_imbalance_pct:.2f} %",
            "version": self.version,
        } | ({"why so many instances": self.chosen} if self.chosen else {})
        title = f"Mapping of keys to {self.instances} instances"
        return shown(title, facts, {"load of the rows it was learnt from": self.fitted_loads.tolist()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(checksum(self._content()))

    def _content(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "grouping": self.grouping,
            "instances": self.instances,
            "ids": self.ids,
            "columns": list(self.columns),
            "types": list(self.types),
            "a": self.a,
            "b": self.b,
            "buckets": self.buckets.tolist(),
            "bucket_weights": self.bucket_weights.tolist(),
            "heavy_keys": self.heavy_keys.tolist(),
            "heavy_instances": self.heavy_instances.tolist(),
            "heavy_weights": self.heavy_weights.tolist(),
            "capacities": None if self.capacities is None else self.capacities.tolist(),
            "expectation": None if self.expectation is None else self.expectation.to_content(),
        }

    def to_json(self) -> str:
        """The mapping as one JSON object with a checksum."""
        told = {"chosen": self.chosen} if self.chosen else {}  # no part of what makes two mappings equal
        return sealed(self._content() | told, kind=FORMAT, version=FORMAT_VERSION)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "this text") -> Self:
        """The mapping that `to_json` was called on. Anything else is refused."""
        content = opened(text, kind=FORMAT, version=FORMAT_VERSION, what="mapping", source=source)
        try:
            found = cls(
                instances=operator.index(content["instances"]),
                buckets=np.array(content["buckets"], np.int32),
                a=content["a"],
                b=content["b"],
                heavy_keys=np.array(content["heavy_keys"], np.uint64),
                heavy_instances=np.array(content["heavy_instances"], np.int32),
                heavy_weights=np.array(content["heavy_weights"], np.float64),
                bucket_weights=np.array(content["bucket_weights"], np.float64),
                grouping=content["grouping"],
                ids=content["ids"],
                columns=tuple(map(str, content["columns"])),
                types=tuple(map(str, content.get("types", ()))),
                version=content["version"],
                capacities=None if content["capacities"] is None else np.array(content["capacities"], np.float64),
                expectation=Expectation.from_content(content.get("expectation")),
                chosen=str(content.get("chosen", "")),
            )
            found._check_weights()
        except (ValueError, LookupError, TypeError, ArithmeticError) as error:
            raise DamagedData(f"{source} is damaged ({error}). Fit and save the mapping again") from error
        return found
