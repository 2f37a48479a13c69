"""A replay offers every row once, in order, whatever the rates, the limits and the restarts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenly.dataflow.replay import Offered, Pace, ReplayClock
from evenly.worker.replaying import ReplayedFiles

PACES = st.builds(Pace, st.floats(0.01, 1e6), st.none() | st.integers(1, 1_000))


@given(
    steps=st.lists(st.tuples(st.integers(0, 10**8), st.none() | PACES, st.booleans()), max_size=30),
    pace=PACES,
    rows=st.none() | st.integers(1, 10**6),
)
def test_offsets_go_on_without_gap_and_stamps_never_lie_in_the_future(steps, pace, rows):
    clock, at, now_us, last_us = ReplayClock(pace, rows), Offered(0), 10**15, 0
    for pause_us, new, restart in steps:
        now_us += pause_us
        if restart:
            clock = ReplayClock(pace, rows)
        elif new is not None:
            clock.set_pace(pace := new)
        end = clock.latest(at, now_us)
        assert end.row >= at.row
        assert rows is None or end.row <= rows
        assert pace.most_rows is None or end.row - at.row <= pace.most_rows
        if end.row > at.row:
            first_us, end_us = end.arrived_us(at.row), end.arrived_us(end.row - 1)
            assert last_us <= first_us + 1
            assert first_us <= end_us <= now_us + 1
            last_us = end_us
        at = end


@given(
    groups=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    begin=st.integers(0, 200),
    count=st.integers(0, 60),
    parts=st.integers(1, 9),
)
def test_spans_cover_every_row_once_and_evenly(groups, begin, count, parts):
    files = ReplayedFiles(tuple((f"f{at // 2}", at % 2, rows) for at, rows in enumerate(groups)))
    numbers = {(f"f{at // 2}", at % 2): sum(groups[:at]) for at in range(len(groups))}
    found = files.spans(begin, begin + count, parts)
    rows = [
        (numbers[span.file, span.group] + span.first + at, span.number + at)
        for spans in found
        for span in spans
        for at in range(span.count)
    ]
    assert rows == [(number % files.rows, number) for number in range(begin, begin + count)]
    sizes = [sum(span.count for span in spans) for spans in found]
    assert len(found) == min(parts, count)
    assert not sizes or max(sizes) - min(sizes) <= 1
