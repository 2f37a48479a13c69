"""What batches held, in bounded memory."""

import numpy as np

from evenly.keys.batches import MOST_BATCHES, MOST_BYTES, BatchLog


def test_λ_of_a_batch_is_that_of_what_was_read_and_says_when_it_is_not_known():  # noqa: PLC2401 - the measure's name
    log = BatchLog()
    known, unknown = log.add(3, 1, [10, 10], [30, 10]), log.add(4, 1, [10, 10], None)
    assert (known.imbalance_pct, known.mapped_imbalance_pct, known.read_rows) == (50.0, 0.0, (30, 10))
    assert (unknown.imbalance_pct, unknown.mapped_imbalance_pct, unknown.read_rows) == (None, 0.0, None)
    assert unknown.mapped_rows == (10, 10)
    assert [batch.number for batch in log.all()] == [3, 4]


def test_memory_is_bounded_in_batches_and_in_bytes():
    few = BatchLog()
    for number in range(MOST_BATCHES + 5):
        few.add(number, 1, [1, 2], [1, 2])
    assert [few.all()[0].number, len(few.all())] == [5, MOST_BATCHES]
    large = np.arange(1_000) + 2**40
    many = BatchLog()
    for number in range(10_000):
        many.add(number, 1, large, large)
    kept = many.all()
    assert sum(it.mapped.nbytes + it.read.nbytes for it in kept) == many.bytes <= MOST_BYTES
    assert kept[-1].number == 9_999
    assert kept[-1].mapped_rows == tuple(large)
    assert len(kept) > 2_000


def test_one_batch_is_kept_whatever_its_size():
    log = BatchLog(most_bytes=10)
    for number in range(3):
        log.add(number, 1, range(1_000, 1_100), None)
    assert [batch.number for batch in log.all()] == [2]
