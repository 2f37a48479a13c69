"""Many independent streams through key groupings: how uneven the instances are, on average and at worst.

One drawn stream serves all settings of an experiment, so settings are compared on the same tuples. Except for
Space Saving and the splitting groupings, which see the order, a run needs no more than what each key weighs in
the part to learn from and in the part to evaluate; `evenly.kernels.dkg_runs` makes the loads from that, for the exact types
that are registered. Any other object is asked itself, tuple by tuple; `tests/unit/test_simulation.py` compares the two.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenly.checks import checked_instances, checked_whole, is_number
from evenly.errors import EmptyStream, InvalidParameter
from evenly.kernels import dkg_runs as kernels
from evenly.kernels.types import F64, I64, U64
from evenly.keys.base import KeyGrouping, SplittingGrouping
from evenly.keys.dkg import DKG
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.lab.rivals.keys.modulo import Modulo
from evenly.lab.rivals.keys.one_instance import OneInstance
from evenly.lab.rivals.keys.universal import Universal
from evenly.lab.rivals.keys.wosim import WOSIM
from evenly.lab.simulation.catalogue import Named, Wanted, is_own, keyed, label
from evenly.lab.simulation.senders import checked_loads, learns_first
from evenly.measures.load import imbalance_pct, instance_loads, sigma
from evenly.sketches.hashing import Keys, UniversalHash, derive, key_ids
from evenly.sketches.space_saving import SpaceSaving
from evenly.streams.synthetic import KeyStream, injection

LEARNT = 80_000
EVALUATED = 20_000
"""The DKG paper's cut of its streams of 100,000 tuples."""
_MOST_TUPLES = 2**40


@dataclass(frozen=True)
class Setting:
    """One grouping with its parameters.

    `grouping` is a name of the catalogue, or a class or function of your own that makes one
    (`evenly.lab.simulation.catalogue`). `theta` and `mu` are those of DKG (epsilon is theta / 2), and not for your own;
    `learnt` is how many tuples it learns from, at the beginning of the stream; `power` makes the load of a key its
    frequency to that power (2: quadratic cost). DKG, WOSIM and exact greedy then schedule such loads; your own decides as
    it is made.
    """

    grouping: Named
    instances: int
    theta: float = 0.1
    mu: float = 2.0
    learnt: int = LEARNT
    power: float = 1.0
    example: KeyGrouping | SplittingGrouping = field(init=False, repr=False, compare=False)
    """One that is made, for its type and parameters."""

    def __post_init__(self) -> None:
        checked_instances(self.instances)
        if checked_whole(self.learnt, "learnt", 0, _MOST_TUPLES) < 1:
            raise InvalidParameter(f"learnt must be at least 1 tuple, got {self.learnt}")
        if not (is_number(self.power) and 0.0 < self.power < math.inf):
            raise InvalidParameter(f"power must be above 0 and finite, got {self.power!r}")
        if is_own(self.grouping) and (self.theta, self.mu) != (Setting.theta, Setting.mu):
            raise InvalidParameter(
                f"theta {self.theta:g} and mu {self.mu:g} do not reach {self.name}: give what makes it with them"
            )
        object.__setattr__(self, "example", self.made(0))
        if self.power != 1.0 and isinstance(self.example, SplittingGrouping):
            raise InvalidParameter(f"{self.name} splits keys, and the load of a split key is known for power 1 only")

    @property
    def name(self) -> str:
        """How results call the grouping."""
        return label(self.grouping)

    def made(self, seed: int) -> KeyGrouping | SplittingGrouping:
        """A new grouping."""
        return keyed(self.grouping)(Wanted(self.instances, seed, self.theta, self.mu))


@dataclass(frozen=True)
class Summary:
    """One measure over many runs; p99.9 beside the worst, because the worst grows with the number of runs."""

    mean: float
    worst: float
    p999: float

    @classmethod
    def of(cls, values: F64) -> Summary:
        return cls(float(values.mean()), float(values.max()), float(np.quantile(values, 0.999)))


@dataclass(frozen=True, eq=False)
class Runs:
    """λ (in %) and sigma (in tuples) of every setting in every run: arrays of settings x runs."""

    stream: str
    settings: tuple[Setting, ...]
    imbalance_pct: F64
    sigma: F64

    def at(self, setting: Setting) -> tuple[F64, F64]:
        """λ and sigma of one setting in every run."""
        row = self.settings.index(setting)
        return self.imbalance_pct[row], self.sigma[row]


def simulate(
    stream: KeyStream,
    settings: Sequence[Setting],
    *,
    runs: int,
    seed: int = 0,
    evaluated: int = EVALUATED,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Runs:
    """Draw `runs` streams and put each through all settings.

    A stream has the tuples that the settings learn from (the longest `learnt`), then `evaluated` more. Stream and
    hashes of a run depend on `seed` and the run's number alone, so the number of `workers` (threads; by default
    one per core) changes nothing. `progress` is called with 1 after each run, in the order of runs.
    """
    if checked_whole(runs, "runs", 0, _MOST_TUPLES) < 1:
        raise InvalidParameter(f"runs must be at least 1, got {runs}")
    if checked_whole(evaluated, "evaluated", 0, _MOST_TUPLES) < 1:
        raise InvalidParameter(f"evaluated must be at least 1 tuple, got {evaluated}")
    wanted = _some(settings)
    threads = (os.cpu_count() or 1) if workers is None else workers
    if threads < 1:
        raise InvalidParameter(f"workers must be at least 1, got {workers}")
    measured = np.empty((runs, len(wanted), 2))

    def one(run: int) -> F64:
        return _run(stream, wanted, evaluated, run_seed(seed, run))

    with ThreadPoolExecutor(threads) as pool:
        try:
            for run, result in enumerate(pool.map(one, range(runs))):
                measured[run] = result
                if progress is not None:
                    progress(1)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return Runs(stream.name, wanted, np.ascontiguousarray(measured[:, :, 0].T), np.ascontiguousarray(measured[:, :, 1].T))


def simulate_recorded(keys: Keys, settings: Sequence[Setting], *, draws: int, seed: int = 0) -> Runs:
    """One recorded stream, through all settings, with `draws` different hashes.

    The settings learn from the beginning of the stream (`learnt`), and what follows the longest is evaluated. What
    Space Saving finds does not depend on the hash, so it looks at the tuples once.
    """
    if draws < 1:
        raise InvalidParameter(f"draws must be at least 1, got {draws}")
    wanted = _some(settings)
    learnt = max(setting.learnt for setting in wanted)
    ids = key_ids(keys)
    if learnt >= ids.size:
        raise EmptyStream(f"{ids.size} tuples leave none to evaluate after {learnt} to learn from: learn from fewer")
    distinct, ranks = np.unique(ids, return_inverse=True)
    counts = np.bincount(ranks[learnt:], minlength=distinct.size).astype(np.float64)
    everything = np.arange(distinct.size)
    first = _Drawn(ids, distinct, counts, _residues(distinct, 0), 0, ranks, everything, distinct.size)
    measured = np.empty((draws, len(wanted), 2))
    for draw in range(draws):
        of_draw = run_seed(seed, draw)
        measured[draw] = _measure(replace(first, residues=_residues(distinct, of_draw), seed=of_draw), wanted, learnt)
    return Runs("recorded", wanted, np.ascontiguousarray(measured[:, :, 0].T), np.ascontiguousarray(measured[:, :, 1].T))


def _some(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    if not settings:
        raise InvalidParameter("there is nothing to simulate: give at least one setting")
    return tuple(settings)


def run_seed(seed: int, run: int) -> int:
    """The seed of stream and hashes of one run."""
    return derive(seed, f"run{run}", 2**63)


def memory_bytes(setting: Setting, stream: KeyStream, *, seed: int = 0) -> tuple[int, int]:
    """What the learner holds after it has learnt, and what its mapping needs (0 where each sender decides alone)."""
    keys, grouping = stream.draw(setting.learnt, seed=seed), setting.made(seed)
    if isinstance(grouping, SplittingGrouping):
        _ready(grouping, keys.view(np.uint64)).route(keys)
        return grouping.memory_bytes, 0
    fitted = grouping.fit(keys)
    return fitted.memory_bytes, fitted.mapping(setting.instances).memory_bytes


@dataclass(eq=False)
class _Drawn:
    """One run's tuples, and what each key weighs in their parts."""

    ids: U64
    keys: U64
    evaluated: F64
    residues: U64
    seed: int
    _ranks: I64
    _seen: I64
    _universe: int
    _learnt: dict[int, F64] = field(default_factory=dict)
    _heavy: dict[tuple[int, float, float], tuple[I64, F64]] = field(default_factory=dict)
    _sorted: dict[float, F64] = field(default_factory=dict)

    def learnt(self, tuples: int) -> F64:
        """How often each key occurs in the first `tuples` tuples."""
        if tuples not in self._learnt:
            counted = np.bincount(self._ranks[:tuples], minlength=self._universe)
            self._learnt[tuples] = counted[self._seen].astype(np.float64)
        return self._learnt[tuples]

    def heaviest_first(self, power: float) -> F64:
        """What the keys weigh when evaluated, in descending order."""
        if power not in self._sorted:
            loads = self.evaluated[self.evaluated > 0.0] ** power
            self._sorted[power] = np.sort(loads)[::-1].copy()
        return self._sorted[power]

    def heavy(self, tuples: int, theta: float, epsilon: float) -> tuple[I64, F64]:
        """The heavy keys of the first `tuples` tuples, as places in `keys` in the order of ids, and their sure weights.

        A sure weight never exceeds the true one. So where no key truly reaches theta, Space Saving need not run.
        """
        if (tuples, theta, epsilon) not in self._heavy:
            found = np.zeros(0, np.int64), np.zeros(0)
            if self.learnt(tuples).max() >= theta * tuples:
                summary = SpaceSaving(math.ceil(1.0 / epsilon))
                summary.update(self.ids[:tuples])
                keys, counts, errors = summary.heavy(theta * summary.total)
                order = np.argsort(keys)
                places = np.array([np.flatnonzero(self.keys == key)[0] for key in keys[order]], np.int64)
                found = places, (counts - errors)[order]
            self._heavy[tuples, theta, epsilon] = found
        return self._heavy[tuples, theta, epsilon]


def _draw(stream: KeyStream, learnt: int, evaluated: int, seed: int) -> _Drawn:
    """The stream that `stream.draw(learnt + evaluated, seed=seed)` gives, and its counts."""
    rng = np.random.default_rng(seed)
    values = injection(stream.n, rng).view(np.uint64)
    ranks = stream.draw_ranks(learnt + evaluated, rng)
    counts = np.bincount(ranks[learnt:], minlength=stream.n)
    seen = np.flatnonzero(np.bincount(ranks, minlength=stream.n))
    keys = values[seen]
    return _Drawn(values[ranks], keys, counts[seen].astype(np.float64), _residues(keys, seed), seed, ranks, seen, stream.n)


def _residues(keys: U64, seed: int) -> U64:
    """The residues of the hash that groupings draw with this seed, whatever their number of buckets."""
    drawn = UniversalHash(1, seed=seed)
    return kernels.residues(keys, np.uint64(drawn.a), np.uint64(drawn.b))


def _run(stream: KeyStream, settings: Sequence[Setting], evaluated: int, seed: int) -> F64:
    """λ and sigma of each setting on one stream."""
    learnt = max(setting.learnt for setting in settings)
    return _measure(_draw(stream, learnt, evaluated, seed), settings, learnt)


def _measure(drawn: _Drawn, settings: Sequence[Setting], learnt: int) -> F64:
    out = np.empty((len(settings), 2))
    for row, setting in enumerate(settings):
        loads = _loads(setting, drawn, learnt)
        out[row] = imbalance_pct(loads), sigma(loads)
    return out


def _loads(setting: Setting, drawn: _Drawn, start: int) -> F64:
    """The load of every instance for the tuples from `start` on."""
    own = is_own(setting.grouping)
    # Those of the catalogue differ by no more than the seed from run to run; of others nothing is known but the object itself.
    grouping: Any = setting.made(drawn.seed) if own else setting.example
    # By exact type, and only where a compiled run knows all that the object was made with: what else there is decides itself.
    if type(grouping) in COMPILED and (not own or (grouping.seed == drawn.seed and setting.power == 1.0)):
        loads = COMPILED[type(grouping)](grouping, setting, drawn)
        if loads is not None:
            return loads
    return plain_loads(grouping if own else setting.made(drawn.seed), setting, drawn, start)


def plain_loads(grouping: KeyGrouping | SplittingGrouping, setting: Setting, drawn: _Drawn, start: int) -> F64:
    """The same by asking the grouping, whatever it is, for all tuples."""
    name, k = setting.name, setting.instances
    learnt, evaluated = drawn.ids[: setting.learnt], drawn.ids[start:]
    if isinstance(grouping, SplittingGrouping):
        return checked_loads(_ready(grouping, learnt).route(evaluated), k, None, name)
    # Exact greedy is the yardstick of what hindsight can do.
    mapping = grouping.fit(evaluated if isinstance(grouping, ExactGreedy) else learnt).mapping(k)
    return checked_loads(mapping.assign(drawn.keys), k, drawn.evaluated**setting.power, name)


def _ready(sender: SplittingGrouping, ids: U64) -> SplittingGrouping:
    """A sender that may route."""
    ready: Any = sender
    return ready.fit(ids) if learns_first(sender) else ready  # type: ignore[no-any-return]


def _greedy(grouping: ExactGreedy, setting: Setting, drawn: _Drawn) -> F64 | None:
    return None if grouping.memory_bytes else kernels.greedy_loads(drawn.heaviest_first(setting.power), setting.instances)


def _hashed(_: Universal, setting: Setting, drawn: _Drawn) -> F64:
    return kernels.hashed_loads(drawn.residues, drawn.evaluated**setting.power, setting.instances)


def _modulo(_: Modulo, setting: Setting, drawn: _Drawn) -> F64:
    return _by_remainder(setting, drawn, setting.instances)


def _one_instance(_: OneInstance, setting: Setting, drawn: _Drawn) -> F64:
    return _by_remainder(setting, drawn, 1)


def _by_remainder(setting: Setting, drawn: _Drawn, modulus: int) -> F64:
    where = (drawn.keys % np.uint64(modulus)).astype(np.int64)
    return instance_loads(where, setting.instances, drawn.evaluated**setting.power)


def _scheduled(grouping: DKG, setting: Setting, drawn: _Drawn) -> F64 | None:
    if grouping.ids != "integer" or grouping.half_life is not None or grouping.total > 0.0:
        return None
    heavy, weights = drawn.heavy(setting.learnt, grouping.theta, grouping.epsilon)
    learnt, evaluated = drawn.learnt(setting.learnt), drawn.evaluated**setting.power
    buckets = grouping.bucket_count
    return kernels.dkg_loads(drawn.residues, learnt, evaluated, heavy, weights, buckets, setting.instances, setting.power)


def _unscheduled(grouping: WOSIM, setting: Setting, drawn: _Drawn) -> F64 | None:
    if grouping.instances != setting.instances or grouping.total > 0.0:
        return None
    heavy, weights = drawn.heavy(setting.learnt, grouping.theta, grouping.epsilon)
    evaluated = drawn.evaluated**setting.power
    return kernels.unscheduled_loads(drawn.residues, evaluated, heavy, weights**setting.power, setting.instances)


COMPILED: dict[type, Callable[[Any, Setting, _Drawn], F64 | None]] = {
    DKG: _scheduled,
    WOSIM: _unscheduled,
    ExactGreedy: _greedy,
    Universal: _hashed,
    Modulo: _modulo,
    OneInstance: _one_instance,
}
"""Loads without a look at each tuple, by the exact type of a grouping, with the hash of the run's seed; None where the
parameters of the grouping are not covered, or where it has learnt before."""
