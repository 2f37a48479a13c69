"""A mapping is learnt again when what it has lost has come to what learning takes, and not before."""

from __future__ import annotations

import numpy as np
import pytest

from evenly.keys.relearning import LEARNING_S, Relearning


def told(one, rows, row_s=0.001, slots=4):
    rows = np.array(rows)
    one.tell(rows, rows * row_s, span_s=float(rows.max() * row_s), slots=slots)
    return one


def test_keys_that_stay_as_they_were_are_never_learnt_again():
    one = Relearning(promised_pct=20.0)
    for _ in range(1_000):
        told(one, [120, 100, 90, 90])
    assert (one.lost_s, one.due) == (0.0, False)


def test_what_is_lost_adds_up_to_what_learning_takes():
    one = Relearning()
    batches = 0
    while not one.due:
        told(one, [400, 200, 100, 100])  # 0.4 s, and 0.2 s if they were even
        batches += 1
    assert batches == 4
    assert one.lost_s == pytest.approx(0.8)
    assert one.lost_s >= LEARNING_S


def test_no_more_is_lost_than_slots_had_nothing_to_do():
    busy = told(Relearning(), [400, 200, 100, 100], slots=1)  # one slot runs all of them, however they are dealt
    assert busy.lost_s == 0.0
    assert told(Relearning(), [400, 200, 100, 100], slots=2).lost_s == 0.0


def test_batches_without_rows_and_quick_ones_lose_next_to_nothing():
    one = told(told(Relearning(), [0, 0, 0, 0]), [40, 0, 0, 0], row_s=1e-6)
    assert one.lost_s < 1e-4
