"""What rounds of two ways show, and what they do not."""

import numpy as np
import pytest

from evenly.errors import InvalidParameter
from evenly.lab.trials.paired import paired_ratio


def test_rounds_are_compared_with_themselves_and_not_with_each_other():
    # Every round is twice as long as the one before, whatever is done in it: that is no difference between the ways.
    theirs = [1.0, 2.0, 4.0, 8.0, 16.0]
    found = paired_ratio([1.02 * seconds for seconds in theirs], theirs)
    assert (found.median, found.low, found.high) == pytest.approx((1.02, 1.02, 1.02))


@pytest.mark.parametrize(("rounds", "rank", "confidence"), [(5, 0, 0.9375), (8, 1, 0.9297), (17, 4, 0.9510)])
def test_the_interval_is_the_narrowest_that_holds_the_median_in_nine_of_ten_cases(rounds, rank, confidence):
    ours = list(np.random.default_rng(1).permutation(np.arange(1.0, rounds + 1)))
    found = paired_ratio(ours, [1.0] * rounds)
    assert (found.low, found.high) == (1.0 + rank, rounds - rank)
    assert found.confidence == pytest.approx(confidence, abs=1e-4)


def test_the_interval_holds_the_true_median_as_often_as_it_says():
    rng = np.random.default_rng(2)
    found = [paired_ratio(rng.lognormal(0.0, 0.1, 8).tolist(), [1.0] * 8) for _ in range(4_000)]
    held = np.mean([one.low <= 1.0 <= one.high for one in found])
    assert held == pytest.approx(found[0].confidence, abs=0.015)


@pytest.mark.parametrize(
    ("ratios", "at_most", "at_least"),
    [
        ([1.00, 1.01, 1.02, 1.01, 1.03], "met", "not shown"),
        ([1.04, 1.05, 1.06, 1.04, 1.05], "missed", "met"),
        ([1.00, 1.01, 1.02, 1.01, 1.05], "not shown", "not shown"),
        ([1.00, 1.01, 1.02, 1.01], "not shown", "not shown"),  # four rounds show nothing
    ],
)
def test_a_bar_is_met_or_missed_only_where_the_whole_interval_is_on_one_side(ratios, at_most, at_least):
    found = paired_ratio(ratios, [1.0] * len(ratios))
    assert (found.at_most(1.03), found.at_least(1.03)) == (at_most, at_least)


@pytest.mark.parametrize(("ours", "theirs"), [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [-1.0])])
def test_what_has_no_ratio_is_refused(ours, theirs):
    with pytest.raises(InvalidParameter, match="a ratio needs"):
        paired_ratio(ours, theirs)
