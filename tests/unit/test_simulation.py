"""Runs without Spark: drawn streams against the classes, tuple by tuple, and recorded ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import naive
from evenly.errors import EmptyStream, InvalidParameter
from evenly.keys.dkg import DKG
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.lab.rivals.keys.modulo import Modulo
from evenly.lab.rivals.keys.one_instance import OneInstance
from evenly.lab.rivals.keys.universal import Universal
from evenly.lab.rivals.keys.wosim import WOSIM
from evenly.lab.rivals.splitting.dkg_pkg import DKGPKG
from evenly.lab.rivals.splitting.partial_key import PKG
from evenly.lab.rivals.splitting.w_choices import WChoices
from evenly.lab.simulation.catalogue import SPLITTING, WHOLE
from evenly.lab.simulation.keys import Setting, Summary, memory_bytes, run_seed, simulate, simulate_recorded
from evenly.lab.simulation.recorded import BEFORE, ITSELF, compare
from evenly.measures import imbalance_pct, instance_loads, sigma
from evenly.sketches.hashing import UniversalHash
from evenly.streams import zipf

LEARNT, EVALUATED = 8_000, 2_000

MAKE = {
    "dkg": lambda s, seed: DKG(s.instances, theta=s.theta, mu=s.mu, seed=seed),
    "dkg-wosim": lambda s, seed: WOSIM(s.instances, theta=s.theta, seed=seed),
    "o-apx": lambda _, seed: ExactGreedy(seed=seed),
    "universal": lambda _, seed: Universal(seed=seed),
    "modulo": lambda _, seed: Modulo(seed=seed),
    "one-instance": lambda _, seed: OneInstance(seed=seed),
}
SPLIT = {
    "pkg": lambda s, seed: PKG(s.instances, seed=seed),
    "pkg-distinct": lambda s, seed: PKG(s.instances, distinct=True, seed=seed),
    "w-choices": lambda s, seed: WChoices(s.instances, seed=seed),
    "dkg+pkg": lambda s, seed: DKGPKG(s.instances, theta=s.theta, mu=s.mu, seed=seed),
}


def by_class(setting, keys, start, seed):
    """λ and sigma as a user of the classes would measure them."""
    learnt, evaluated = keys[: setting.learnt], keys[start:]
    if setting.grouping in SPLIT:
        sender = SPLIT[setting.grouping](setting, seed)
        if isinstance(sender, DKGPKG):
            sender.fit(learnt)
        assigned = sender.route(evaluated)
    else:
        seen = evaluated if setting.grouping == "o-apx" else learnt
        assigned = MAKE[setting.grouping](setting, seed).fit(seen).mapping(setting.instances).assign(evaluated)
    loads = instance_loads(assigned, setting.instances)
    return imbalance_pct(loads), sigma(loads)


def agreeing_settings():
    plain = [Setting(name, k, learnt=LEARNT) for name in (*MAKE, *SPLIT) for k in (1, 3, 10)]
    fine = [Setting("dkg", 5, theta=t, mu=mu, learnt=LEARNT) for t, mu in product((1.0, 0.3, 0.02), (1.0, 2.5, 40.0))]
    short = [Setting("dkg", 4, learnt=m) for m in (1, 10, 300)]
    return plain + fine + short


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0, 3.0])
def test_a_run_gives_what_the_classes_give(alpha):
    stream, settings = zipf(alpha, 2_000), agreeing_settings()
    runs = simulate(stream, settings, runs=4, seed=5, evaluated=EVALUATED)
    for run in range(4):
        seed = run_seed(5, run)
        keys = stream.draw(LEARNT + EVALUATED, seed=seed)
        for row, setting in enumerate(settings):
            expected = by_class(setting, keys, LEARNT, seed)
            measured = runs.imbalance_pct[row, run], runs.sigma[row, run]
            assert measured == pytest.approx(expected, abs=1e-9), setting


@pytest.mark.parametrize("mu", [2.0, 16.0])
def test_quadratic_cost_schedules_squares_and_loads_squares(mu):
    stream, k = zipf(1.0, 500), 3
    settings = [Setting(name, k, mu=mu, learnt=LEARNT, power=2.0) for name in ("dkg", "o-apx", "universal")]
    runs = simulate(stream, settings, runs=1, evaluated=EVALUATED)
    seed = run_seed(0, 0)
    keys = stream.draw(LEARNT + EVALUATED, seed=seed)
    loads = {key: count**2 for key, count in naive.exact_counts(keys[LEARNT:].tolist()).items()}
    drawn = UniversalHash(1, seed=seed)
    buckets = int(k * mu)

    learnt = naive.exact_counts(keys[:LEARNT].tolist())
    heavy = {key: count for key, count in sorted(learnt.items()) if count >= 0.1 * LEARNT}
    sparse = naive.bucket_loads(learnt, learnt.values(), a=drawn.a, b=drawn.b, buckets=buckets)
    for key, count in heavy.items():
        sparse[naive.universal_bucket(drawn.a, drawn.b, key, buckets)] -= count
    placed = naive.largest_first([weight**2 for weight in (*heavy.values(), *sparse)], k)
    own = dict(zip(heavy, placed, strict=False))
    by_dkg = [own.get(key, placed[len(heavy) + naive.universal_bucket(drawn.a, drawn.b, key, buckets)]) for key in loads]
    by_exact = naive.largest_first(list(loads.values()), k)
    by_hash = [naive.universal_bucket(drawn.a, drawn.b, key, k) for key in loads]
    for row, where in enumerate((by_dkg, by_exact, by_hash)):
        expected = naive.loads_of(where, list(loads.values()), k)
        assert runs.sigma[row, 0] == pytest.approx(np.std(expected)), settings[row]


def test_the_number_of_workers_changes_nothing_and_the_seed_does():
    settings = [Setting("dkg", 5, learnt=LEARNT), Setting("pkg", 5, learnt=LEARNT)]
    one, three = (simulate(zipf(1.0, 500), settings, runs=12, evaluated=EVALUATED, workers=w) for w in (1, 3))
    assert np.array_equal(one.imbalance_pct, three.imbalance_pct)
    assert np.array_equal(one.sigma, three.sigma)
    other = simulate(zipf(1.0, 500), settings, runs=12, seed=1, evaluated=EVALUATED)
    assert not np.array_equal(one.imbalance_pct, other.imbalance_pct)
    longer = simulate(zipf(1.0, 500), settings, runs=20, evaluated=EVALUATED)
    assert np.array_equal(longer.imbalance_pct[:, :12], one.imbalance_pct), "more runs must begin with the same"


def test_progress_hears_of_every_run():
    heard = []
    simulate(zipf(1.0, 50), [Setting("universal", 2, learnt=10)], runs=7, evaluated=10, progress=heard.append)
    assert heard == [1] * 7


def test_what_progress_raises_stops_the_runs():
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(zipf(1.0, 50), [Setting("universal", 2, learnt=10)], runs=500, evaluated=10, progress=interrupt)


def test_a_summary_has_mean_worst_and_what_one_in_a_thousand_exceeds():
    summary = Summary.of(np.arange(1001.0))
    assert (summary.mean, summary.worst, summary.p999) == (500.0, 1000.0, pytest.approx(999.0))


def test_memory_is_that_of_the_learner_and_of_its_mapping():
    stream = zipf(2.0, 1_000)
    keys = stream.draw(LEARNT, seed=0)
    learner = DKG(4, theta=0.05).fit(keys)
    assert memory_bytes(Setting("dkg", 4, theta=0.05, learnt=LEARNT), stream) == (
        learner.memory_bytes,
        learner.mapping(4).memory_bytes,
    )
    assert memory_bytes(Setting("pkg", 4, learnt=LEARNT), stream) == (PKG(4).memory_bytes, 0)
    assert memory_bytes(Setting("universal", 4, learnt=LEARNT), stream)[0] == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"grouping": "dgk"}, "there is no grouping 'dgk': choose from evenly, dkg"),
        ({"instances": 0}, "instances must be a whole number from 1 to 10000, got 0"),
        ({"learnt": 0}, "learnt must be at least 1 tuple, got 0"),
        ({"theta": 0.0}, "theta must be above 0 and at most 1, got 0.0"),
        ({"mu": 0.5}, "mu must be from 1"),
        ({"grouping": "pkg", "power": 2.0}, "pkg splits keys"),
    ],
)
def test_a_setting_out_of_range_is_refused(wrong, said):
    with pytest.raises(InvalidParameter, match=said):
        Setting(**{"grouping": "dkg", "instances": 2, **wrong})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"runs": 0}, "runs must be at least 1, got 0"),
        ({"evaluated": 0}, "evaluated must be at least 1 tuple, got 0"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"settings": []}, "nothing to simulate"),
    ],
)
def test_bad_numbers_of_a_simulation_are_refused(wrong, said):
    with pytest.raises(InvalidParameter, match=said):
        simulate(zipf(1.0, 10), **{"settings": [Setting("dkg", 2)], "runs": 1, **wrong})


def test_a_recorded_stream_gives_what_the_classes_give_for_every_hash():
    keys = zipf(1.5, 300).draw(3_000, seed=9)
    settings = [Setting(name, 4, learnt=2_000) for name in ("dkg", "o-apx", "universal", "modulo", "dkg+pkg")]
    runs = simulate_recorded(keys, settings, draws=5, seed=2)
    for row, setting in enumerate(settings):
        for draw in range(5):
            expected = by_class(setting, keys, 2_000, run_seed(2, draw))
            assert (runs.imbalance_pct[row, draw], runs.sigma[row, draw]) == pytest.approx(expected, abs=1e-9)


def test_a_recorded_stream_needs_tuples_to_evaluate():
    with pytest.raises(EmptyStream, match="10 tuples leave none to evaluate after 10"):
        simulate_recorded(np.arange(10), [Setting("dkg", 2, learnt=10)], draws=1)


@pytest.fixture(scope="module")
def words():
    return [f"word {rank}" for rank in zipf(1.0, 400).draw(10_000, seed=3)]


def test_every_grouping_of_the_catalogue_is_compared(words):
    names = [*WHOLE, *SPLITTING]
    outcomes = compare(words, groupings=names, instances=[2, 5], fit_share=0.2)
    assert [(o.grouping, o.instances, o.series) for o in outcomes] == list(product(names, (2, 5), (ITSELF, BEFORE)))
    for one in outcomes:
        assert one.needs_merge == (one.grouping in SPLITTING)
        assert one.imbalance_pct_mean >= one.least_imbalance_pct - 1e-9
        assert (one.mapping_bytes is None) == one.needs_merge
        assert (one.moved_load_pct is None) == (one.needs_merge or one.series == ITSELF)


def test_the_comparison_evaluates_all_but_the_first_part(words):
    both = compare(words, groupings=["evenly"], instances=[5], fit_share=0.3)
    for one, fitted_on in zip(both, (words[3_000:], words[:3_000]), strict=True):
        learner = DKG.automatic(5).fit(fitted_on)
        loads = instance_loads(learner.mapping(5).assign(words[3_000:]), 5)
        assert (one.imbalance_pct_mean, one.sigma_mean) == pytest.approx((imbalance_pct(loads), sigma(loads)))
        assert one.memory_bytes == learner.memory_bytes
    assert both[0].imbalance_pct_mean < both[1].imbalance_pct_mean, "hindsight must help here"
    heaviest = max(naive.exact_counts(words[3_000:]).values())
    assert both[0].least_imbalance_pct == pytest.approx(max(0.0, (heaviest * 5 / 7_000 - 1) * 100))


def test_weights_are_the_load_that_is_balanced():
    keys, weights = np.tile([1, 2, 3, 4], 100), np.tile([8.0, 1.0, 1.0, 2.0], 100)
    itself, _ = compare(keys, groupings=["o-apx"], instances=[2], fit_share=0.5, weights=weights)
    assert itself.imbalance_pct_mean == pytest.approx((8 / 6 - 1) * 100)
    assert itself.least_imbalance_pct == pytest.approx((8 / 6 - 1) * 100)


def test_what_would_move_is_a_share_of_the_load():
    keys = np.repeat([1, 2], 100)
    _, before = compare(keys, groupings=["universal"], instances=[3], fit_share=0.5)
    assert before.moved_load_pct == 0.0
    _, before = compare(np.concatenate([keys, keys[::-1]]), groupings=["o-apx"], instances=[2], fit_share=0.25)
    assert 0.0 <= before.moved_load_pct <= 100.0


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"groupings": ["best"]}, InvalidParameter, "there is no grouping 'best': choose from evenly, dkg"),
        ({"fit_share": 1.0}, InvalidParameter, "above 0 and below 1, got 1.0"),
        ({"instances": [0]}, InvalidParameter, "got 0"),
        ({"keys": [1]}, EmptyStream, "1 tuples cannot be cut"),
        ({"keys": []}, EmptyStream, "0 tuples cannot be cut"),
        ({"weights": np.array([1.0, 1.0, 0.0, 0.0])}, EmptyStream, "weights are all 0"),
    ],
)
def test_a_comparison_that_cannot_be_made_says_why(wrong, error, said):
    arguments = {"keys": [1, 2, 3, 4], "groupings": ["evenly"], "instances": [2], "fit_share": 0.5, **wrong}
    with pytest.raises(error, match=said):
        compare(arguments.pop("keys"), **arguments)
