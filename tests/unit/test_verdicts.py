"""What counts as reproduced."""

from __future__ import annotations

import pytest

from evenly.errors import InvalidParameter
from evenly.lab.papers.verdicts import at_least, not_rerun, number, sentence


def test_a_number_is_reproduced_within_its_tolerance():
    assert number("s", None, published=100.0, measured=101.0, within_pct=1.0).verdict == "reproduced"
    assert number("s", None, published=100.0, measured=101.1, within_pct=1.0).verdict == "not reproduced"


@pytest.mark.parametrize(("measured", "settled"), [(100.2, "reproduced"), (101.1, "not reproduced")])
def test_more_runs_decide_and_never_make_it_harder(measured, settled):
    few, many = (
        number("s", None, published=100.0, measured=measured, within_pct=1.0, standard_error=error).verdict
        for error in (0.6, 0.01)
    )
    assert (few, many) == ("undecided", settled)


def test_a_tolerance_is_of_what_is_claimed():
    """A growth of 1.01 within 10 % is 1.009 to 1.011: 0.979 is a loss."""
    assert number("s", None, published=1.01, measured=0.979, within_pct=10.0, neutral=1.0).verdict == "not reproduced"
    assert number("s", None, published=1.01, measured=1.0095, within_pct=10.0, neutral=1.0).verdict == "reproduced"
    with pytest.raises(InvalidParameter, match="below 100"):
        number("s", None, published=1.01, measured=1.01, within_pct=100.0, neutral=1.0)


def test_more_than_a_gain_is_no_contradiction_and_none_is():
    verdicts = [
        at_least("s", None, published=1.2, measured=it, within_pct=25.0, neutral=1.0).verdict for it in (2.0, 1.16, 1.1)
    ]
    assert verdicts == ["reproduced", "reproduced", "not reproduced"]
    with pytest.raises(InvalidParameter, match="below 100"):
        at_least("s", None, published=1.2, measured=1.0, within_pct=100.0, neutral=1.0)


def test_a_sentence_is_as_its_test_says():
    told = sentence("s", published="p", measured="m", holds=False, why="w").row()
    assert (told["verdict"], told["basis"]) == ("not reproduced", "independent")


def test_no_effect_is_met_exactly_or_not_at_all():
    """A share of nothing is no tolerance, and what differs is not said to differ by 0 %."""
    met, missed = (number("s", None, published=1.0, measured=it, within_pct=5.0, neutral=1.0) for it in (1.0 + 1e-12, 1.001))
    assert (met.verdict, missed.verdict) == ("reproduced", "not reproduced")
    assert "0.00 %" not in missed.why


@pytest.mark.parametrize(("error", "said"), [(0.05, "undecided"), (0.004, "not reproduced"), (0.0, "not reproduced")])
def test_a_least_value_is_not_reached_by_chance(error, said):
    """Two standard errors are no leeway: few runs would have too much of it."""
    assert at_least("s", None, published=1.15, measured=1.14, within_pct=0.0, neutral=1.0, standard_error=error).verdict == said


def test_a_sentence_that_chance_may_have_decided_is_undecided():
    told = [sentence("s", published="p", measured="m", holds=holds, why="w", unsure=True) for holds in (True, False)]
    assert {one.verdict for one in told} == {"undecided"}
    assert "more runs decide" in told[0].why


def test_what_is_not_rerun_says_so():
    told = not_rerun("s", published=2.0, why="no cluster").row()
    assert (told["verdict"], told["why"], told["basis"]) == ("not rerun", "no cluster", "independent")


def test_what_differs_by_rounding_alone_is_no_power_of_ten():
    assert "differs by 0 %" in number("a", 1, published=100.0, measured=100.0 + 2e-14, within_pct=1.0).why
    far = number("a", 1, published=1.0, measured=2_000.0, within_pct=1.0, standard_error=1_000.0)
    assert "differs by 200,000 %" in far.why
    assert "e+" not in far.why
