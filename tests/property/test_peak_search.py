"""The search for the highest rate that holds ends where it should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.errors import InvalidParameter
from evenly.planning.observed.peak import Peak, PeakSearch, Trial
from evenly.planning.observed.verdict import verdict

RATES = st.floats(0.01, 1e6)


@given(first=RATES, peak=RATES, precision=st.floats(0.01, 0.5), step=st.floats(1.1, 4.0))
def test_the_peak_is_found_and_no_rate_is_tried_twice(first, peak, precision, step):
    search = PeakSearch(first, step, precision)
    while (rate := search.rate) is not None and len(search.trials) < 60:
        search.tell(held=rate <= peak)
    tried = [rate for rate, _ in search.trials]
    assert len(tried) == len(set(tried))
    if search.rate is None:
        assert search.peak <= peak < search.breaks_at <= search.peak * (1.0 + precision) * (1.0 + 1e-9)


@given(first=RATES, answers=st.lists(st.booleans(), min_size=70, max_size=70))
def test_it_ends_whatever_the_answers(first, answers):
    search = PeakSearch(first)
    for held in answers:
        if search.rate is None:
            break
        search.tell(held=held)
    assert search.rate is None
    held = [rate for rate, it in search.trials if it]
    assert search.peak == max(held, default=None)


def test_a_peak_has_the_verdict_of_its_rate():
    held, broke = (verdict([], trigger_s=1.0) for _ in range(2))
    assert Peak(5.0, 9.0, (Trial(5.0, held), Trial(9.0, broke))).verdict is held
    assert Peak(None, 9.0, (Trial(9.0, broke),)).verdict is broke
    assert Peak(None, None, ()).verdict is None


def test_a_rate_that_cannot_be_is_refused():
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidParameter, match="the first rate to try"):
            PeakSearch(rate)
