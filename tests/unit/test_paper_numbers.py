"""λ of the DKG paper's Figure 2 (Zipf-2, theta = 0.1, mu = 2) against an independent reproduction with 10,000 runs."""

from __future__ import annotations

import numpy as np
import pytest

from evenly.keys.dkg import DKG
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.lab.rivals.keys.one_instance import OneInstance
from evenly.lab.rivals.keys.universal import Universal
from evenly.measures import imbalance_pct, instance_loads
from evenly.streams import zipf

RUNS = 20
LEARNT = 80_000
EVALUATED = 20_000


@pytest.fixture(scope="module")
def runs():
    stream = zipf(2.0, 10_000)
    return [stream.draw(LEARNT + EVALUATED, seed=seed) for seed in range(RUNS)]


def imbalances(runs, make, instances):
    """λ of every run, over the tuples that were not learnt from."""
    results = []
    for seed, keys in enumerate(runs):
        learnt = keys[LEARNT:] if make is ExactGreedy else keys[:LEARNT]
        grouping = make(instances, seed=seed) if make is DKG else make(seed=seed)
        assigned = grouping.fit(learnt).mapping(instances).assign(keys[LEARNT:])
        results.append(imbalance_pct(instance_loads(assigned, instances)))
    return np.array(results)


@pytest.mark.parametrize(("instances", "published"), [(2, 21.6), (5, 204.0), (10, 507.9)])
@pytest.mark.parametrize("make", [DKG, ExactGreedy])
def test_the_mean_imbalance_is_the_least_possible(runs, make, instances, published):
    assert imbalances(runs, make, instances).mean() == pytest.approx(published, abs=0.5 * instances)


@pytest.mark.parametrize(("instances", "published", "tolerance"), [(2, 60.9, 15.0), (5, 243.5, 30.0), (10, 546.9, 40.0)])
def test_a_universal_hash_is_as_unbalanced_as_reproduced(runs, instances, published, tolerance):
    assert imbalances(runs, Universal, instances).mean() == pytest.approx(published, abs=tolerance)


@pytest.mark.parametrize("instances", [2, 5, 10])
def test_dkg_matches_the_exact_schedule_in_every_run_and_the_hash_never_beats_that(runs, instances):
    exact = imbalances(runs, ExactGreedy, instances)
    assert imbalances(runs, DKG, instances) == pytest.approx(exact, abs=0.5)
    assert (imbalances(runs, Universal, instances) >= exact - 1e-9).all()


def test_one_instance_wastes_nine_of_ten(runs):
    assert imbalances(runs, OneInstance, 10) == pytest.approx(900.0)


@pytest.mark.parametrize("instances", [2, 5, 10])
def test_with_automatic_parameters_a_zipf_1_stream_is_spread_nearly_as_by_full_knowledge(instances):
    gaps = []
    for seed in range(12):
        keys = zipf(1.0, 10_000).draw(LEARNT + EVALUATED, seed=seed)
        learnt = DKG.automatic(instances, seed=seed).fit(keys[:LEARNT]).mapping()
        full = ExactGreedy().fit(keys[LEARNT:]).mapping(instances)
        reached, least = (imbalance_pct(instance_loads(m.assign(keys[LEARNT:]), instances)) for m in (learnt, full))
        gaps.append(reached - least)
    assert np.mean(gaps) < 3.0
