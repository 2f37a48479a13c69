"""What a streaming query remembers of costs, whatever becomes of its batches: each counts once at most."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenly.costs import CostMeter, CostModel, CostScheduler
from evenly.costs.batch_memory import BatchMemory

ROWS = 8
FATES = ("committed", "not saved", "failed in its sink", "died before the commit", "not saved and died")


def report_of(batch_id):
    """A batch has rows of one key, its own: what a model knows of it tells how often it was counted."""
    meter = CostMeter()
    meter.add(np.full(ROWS, batch_id, np.int64), np.full(ROWS, 1.0))
    return meter.report(instance=0, executor="host:0", rows=ROWS)


def counted(scheduler):
    known, rest = scheduler.model.moments
    assert not rest.any()
    return dict(zip(known.ids.tolist(), np.round(known.counts / ROWS, 3).tolist(), strict=True))  # old rows fade a little


class Query:
    """One process after the other, and the files that they share."""

    def __init__(self, instances=1):
        self.files, self.instances, self.committed = {}, instances, -1
        self.restart()

    def restart(self):
        self.memory = BatchMemory(self.instances, CostModel(("kind",)))

    def saved_below(self, batch_id):
        older = [number for number in self.files if number < batch_id]
        return CostScheduler.from_json(self.files[max(older)]) if older else None

    def run(self, fate):
        batch_id = self.committed + 1
        scheduler = self.memory.begin(batch_id, self.saved_below)
        assert scheduler.last_batch is None or scheduler.last_batch < batch_id
        assert scheduler.report(batch_id, [report_of(batch_id)])
        if fate != "failed in its sink" and "not saved" not in fate:
            self.files[batch_id] = scheduler.to_json()
        if fate in {"committed", "not saved"}:
            self.committed = batch_id
        else:
            self.restart()
        return scheduler


@settings(max_examples=100)
@given(st.lists(st.sampled_from(FATES), min_size=1, max_size=12), st.integers(0, 2**16))
def test_each_batch_counts_once_at_most_and_is_lost_only_where_a_restart_came_before_the_next_save(fates, seed):
    query, rng = Query(), random.Random(seed)
    known = set()
    for fate in fates:
        if rng.random() < 0.1:
            query.restart()
            known = set(counted(query.memory.begin(query.committed + 1, query.saved_below)))
        batch_id = query.committed + 1
        found = counted(query.run(fate))
        assert set(found.values()) <= {1.0}, "no batch is counted twice"
        assert set(found) == known | {batch_id}
        if query.committed == batch_id:
            known = set(found)
        else:
            known = set(counted(query.memory.begin(query.committed + 1, query.saved_below)))
        if fate == "committed":
            assert set(counted(CostScheduler.from_json(query.files[batch_id]))) == known, "one save has all that is known"


def test_another_number_of_instances_keeps_the_costs_and_another_key_does_not():
    query = Query()
    query.run("committed")
    query.instances = 3
    query.restart()
    began = query.memory.begin(1, query.saved_below)
    assert (began.instances, set(counted(began))) == (3, {0})
    other = BatchMemory(3, CostModel(("host",)))
    assert other.begin(1, query.saved_below).model.rows == 0.0


def test_what_cannot_be_saved_is_news_once_until_it_is_saved_again():
    memory = BatchMemory(1, CostModel(("kind",)))
    assert [memory.not_saved(), memory.not_saved()] == [True, False]
    memory.saved()
    assert memory.not_saved()
