"""A user's own groupings by key in the simulators and in the command, beside ours."""

from __future__ import annotations

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenly.cli.main import main
from evenly.errors import InvalidParameter
from evenly.keys.dkg import DKG
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.lab.rivals.keys.modulo import Modulo
from evenly.lab.rivals.keys.one_instance import OneInstance
from evenly.lab.rivals.keys.quadratic_dkg import QuadraticDKG
from evenly.lab.rivals.keys.universal import Universal
from evenly.lab.rivals.keys.wosim import WOSIM
from evenly.lab.rivals.splitting.partial_key import PKG
from evenly.lab.simulation.keys import COMPILED, Setting, memory_bytes, simulate, simulate_recorded
from evenly.lab.simulation.recorded import compare
from evenly.lab.simulation.shuffle import best_of, compare_shuffle
from evenly.streams import zipf

LEARNT, EVALUATED = 4_000, 1_000

REGISTERED = {
    DKG: [
        lambda instances, seed: DKG(instances, seed=seed),
        lambda instances, seed: DKG(instances, theta=0.02, epsilon=0.001, mu=7.3, seed=seed),
    ],
    WOSIM: [lambda instances, seed: WOSIM(instances, theta=0.02, seed=seed)],
    ExactGreedy: [lambda instances, seed: ExactGreedy(seed=seed)],  # noqa: ARG005 - all have the same parameters
    Universal: [lambda instances, seed: Universal(seed=seed)],  # noqa: ARG005
    Modulo: [lambda instances, seed: Modulo(seed=seed)],  # noqa: ARG005
    OneInstance: [lambda instances, seed: OneInstance(seed=seed)],  # noqa: ARG005
}


def unregistered(make):
    """The same, of a subclass without changes."""

    def of_subclass(instances, seed):
        grouping = make(instances, seed)
        grouping.__class__ = type("Same", (type(grouping),), {})
        return grouping

    return of_subclass


def test_every_registered_type_is_compared():
    assert REGISTERED.keys() == COMPILED.keys()
    assert all(type(make(2, 1)) is kind for kind, makers in REGISTERED.items() for make in makers)


@pytest.mark.parametrize("alpha", [0.7, 1.5])
def test_a_compiled_run_is_the_plain_one(alpha):
    ways = [(make, unregistered(make)) for makers in REGISTERED.values() for make in makers]
    pairs = [[Setting(make, k, learnt=LEARNT) for make in way] for way in ways for k in (1, 6)]
    runs = simulate(zipf(alpha, 500), [one for pair in pairs for one in pair], runs=3, evaluated=EVALUATED, workers=1)
    for fast, slow in pairs:
        np.testing.assert_allclose(runs.at(fast), runs.at(slow), atol=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda instances, seed: DKG(instances, seed=seed % 7),
        lambda instances, seed: DKG(instances, seed=seed, half_life=100.0),
        lambda instances, seed: Universal(seed=3),  # noqa: ARG005 - it must have the parameters that the other way has
    ],
)
def test_parameters_that_a_compiled_run_does_not_know_are_followed(make):
    """A seed of one's own, a half-life: the object decides."""
    settings = [Setting(make, 4, learnt=LEARNT), Setting(unregistered(make), 4, learnt=LEARNT)]
    runs = simulate(zipf(1.2, 300), settings, runs=2, evaluated=EVALUATED, workers=1)
    np.testing.assert_allclose(runs.at(settings[0]), runs.at(settings[1]), atol=1e-9)


@pytest.mark.parametrize("kind", [DKG, WOSIM, ExactGreedy])
def test_what_a_grouping_has_learnt_before_counts(kind):
    """One that is made with what it knows already is asked itself: a compiled run begins with nothing."""

    def knowing(instances, seed):
        given = {} if kind is ExactGreedy else {"instances": instances, "theta": 0.02}
        return kind(**given, seed=seed).fit(np.repeat(np.arange(40, dtype=np.int64), 500))

    settings = [Setting(knowing, 4, learnt=100), Setting(unregistered(knowing), 4, learnt=100)]
    runs = simulate(zipf(1.2, 300), settings, runs=2, evaluated=EVALUATED, workers=1)
    np.testing.assert_allclose(runs.at(settings[0]), runs.at(settings[1]), atol=1e-9)


@pytest.mark.parametrize("power", [0, -1.0, float("nan"), float("inf"), "2", True])
def test_a_power_out_of_its_range_is_named(power):
    with pytest.raises(InvalidParameter, match="power must be above 0 and finite"):
        Setting("dkg", 4, power=power)


def test_no_settings_are_told_so():
    with pytest.raises(InvalidParameter, match="give at least one setting"):
        simulate_recorded(np.arange(50), [], draws=1)


def test_quadratic_cost_of_dkg_is_what_its_class_schedules():
    def quadratic(instances, seed):
        return QuadraticDKG(instances, buckets="squared", seed=seed)

    settings = [Setting("dkg", 4, learnt=LEARNT, power=2.0), Setting(quadratic, 4, learnt=LEARNT, power=2.0)]
    runs = simulate(zipf(1.0, 300), settings, runs=2, evaluated=EVALUATED, workers=1)
    np.testing.assert_allclose(runs.at(settings[0]), runs.at(settings[1]), rtol=1e-9)


class Evens(Modulo):
    """A subclass that decides otherwise: even keys to 0, odd ones to the last instance."""

    def mapping(self, instances):
        return super().mapping(2) if instances == 2 else OneInstance().mapping(instances)


class Turns:
    """A splitting grouping that knows nothing of ours: round-robin, whatever the key."""

    name, needs_merge, memory_bytes = "turns", True, 8

    def __init__(self, *, instances):
        self.instances, self.sent = instances, 0

    def route(self, keys):
        where = (np.arange(len(keys)) + self.sent) % self.instances
        self.sent += len(keys)
        return where.astype(np.int32)

    def split_keys(self):
        return None


def test_own_groupings_run_beside_ours():
    settings = [Setting(Evens, 4, learnt=10), Setting("one-instance", 4, learnt=10), Setting(Turns, 4, learnt=10)]
    runs = simulate(zipf(1.0, 50), settings, runs=2, evaluated=400)
    assert runs.at(settings[0])[0].tolist() == runs.at(settings[1])[0].tolist() == [300.0, 300.0]
    assert runs.at(settings[2])[0].tolist() == [0.0, 0.0]
    recorded = simulate_recorded(np.arange(50), [Setting(Turns, 4, learnt=10)], draws=1)
    assert recorded.imbalance_pct.tolist() == [[0.0]]
    assert memory_bytes(Setting(Turns, 4, learnt=10), zipf(1.0, 50)) == (8, 0)
    assert settings[0].name == "Evens"


def test_own_groupings_are_compared_beside_ours():
    outcomes = compare(np.arange(400) % 7, groupings=[Turns, "universal", f"{__name__}:Evens"], instances=[4], fit_share=0.5)
    assert [one.grouping for one in outcomes[::2]] == ["Turns", "universal", f"{__name__}:Evens"]
    assert [one.needs_merge for one in outcomes[::2]] == [True, False, False]
    assert outcomes[0].imbalance_pct_mean == 0.0
    assert outcomes[-1].imbalance_pct_mean == 300.0


class NoGrouping:
    def __init__(self, instances):
        pass


class NeedsMore(PKG):
    def __init__(self, instances, much, **more):
        super().__init__(instances, **more)
        self.much = much


class OutOfRange(Turns):
    def route(self, keys):
        return super().route(keys) + 1


@pytest.mark.parametrize(
    ("grouping", "said"),
    [
        (NoGrouping, "NoGrouping makes .* does not fulfil evenly.keys.base.KeyGrouping or"),
        (NeedsMore, "NeedsMore cannot be made with instances, seed: .*much"),
        ("no_such_module:Own", "no_such_module:Own cannot be loaded: No module named"),
        (f"{__name__}:Nobody", "cannot be loaded: .*Nobody"),
        (f"{__name__}:LEARNT", "must be a class or function that makes a grouping, got 4000"),
        ("best", "there is no grouping 'best': choose from evenly, dkg.* or give MODULE:NAME of your own"),
        (lambda made=Universal(): made, "<lambda> gave the same object twice: it must make a new one each time"),  # noqa: B008
        (OutOfRange, "OutOfRange sent tuples to instances 1 to 4: there are 0 to 3"),
    ],
)
def test_what_cannot_be_simulated_says_why(grouping, said):
    with pytest.raises(InvalidParameter, match=said):
        compare(np.arange(400), groupings=[grouping], instances=[4], fit_share=0.5)


def test_parameters_of_dkg_do_not_reach_ones_own():
    with pytest.raises(InvalidParameter, match=r"theta 0\.2 and mu 2 do not reach Evens"):
        Setting(Evens, 4, theta=0.2)


OWN = """
import numpy as np
from evenly.lab.rivals.keys import Universal
from evenly.lab.rivals.shuffle import LeastWork, RoundRobin

class Zero(RoundRobin):
    def route(self, keys, now_s):
        return np.zeros(len(keys), np.int32)

class Seeded(Universal):
    def __init__(self, **options):
        super().__init__(**options)
        assert self.seed == 5

class Bound(LeastWork):
    def __init__(self, instances):
        super().__init__(instances, cost_ms=np.asarray)
"""


def test_the_command_finds_ones_own_where_it_is_run(monkeypatch, capsys, tmp_path):
    (tmp_path / "own_rivals.py").write_text(OWN)
    pq.write_table(pa.table({"k": np.arange(300) % 9, "ms": np.ones(300)}), tmp_path / "rows.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def results(*arguments):
        monkeypatch.setattr(sys, "argv", ["evenly", "simulate", *arguments, "--json"])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == 0
        return json.loads(capsys.readouterr().out)["results"]

    keyed = results(
        "keys", "rows.parquet", "--key", "k", "--instances", "4", "--seed", "5", "--grouping", "own_rivals:Seeded,universal"
    )
    own, ours = ([{**row, "grouping": ""} for row in part] for part in (keyed[:2], keyed[2:]))
    assert keyed[0]["grouping"] == "own_rivals:Seeded"
    assert own == ours
    options = ("shuffle", "rows.parquet", "--key", "k", "--cost", "ms", "--instances", "4", "--load", "90")
    shuffled = results(*options, "--grouping", "own_rivals:Zero,round-robin,own_rivals:Bound,least-work")
    assert shuffled[0]["speedup_mean"] < 0.1
    assert shuffled[2]["completion_ms_mean"] == shuffled[3]["completion_ms_mean"]
    outcomes = compare_shuffle(
        range(300), np.ones(300), groupings=["own_rivals:Bound", "own_rivals:Zero"], instances=[4], loads_pct=[90.0]
    )
    assert best_of(outcomes).grouping == "own_rivals:Zero", "a bound is no grouping that can be had"
