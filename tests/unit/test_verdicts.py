"""What counts as reproduced."""

from __future__ import annotations

import pytest

from evenly.errors import InvalidParameter
from evenly.lab.papers.verdicts import at_least, number, sentence


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
