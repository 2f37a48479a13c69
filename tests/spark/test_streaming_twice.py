"""`stream_by_key` where two calls have one checkpoint: the second finds what the first has written, and keeps it."""

from dataclasses import replace

import pytest
from visiting import INSTANCES, by_hash, turned

from evenly.errors import CheckpointMismatch
from evenly.keys.versions import Version
from evenly.spark.streaming.mapping_store import MappingStore, Placement


def test_a_call_that_looked_before_another_began_goes_on_under_the_mapping_of_that_one(visits, monkeypatch):
    visits.add()
    others = []

    def looking(_):
        others.append(visits.run(visits.counts("user"), mapping=turned(by_hash()), controller=False))
        visits.add()
        return False

    monkeypatch.setattr("evenly.spark.streaming.stream_by_key.can_look", looking)
    query = visits.run(visits.counts("user"), controller=False)
    assert query.mapping == others[0].mapping
    assert visits.written("user") == visits.expected("user")
    assert visits.misplaced(query.mapping) == (len(visits.expected("user")), 0)


def test_of_two_first_starts_at_once_both_go_by_the_mapping_that_was_written_first(visits):
    """The other one is in another application, which nothing here can see: it comes while this one is being built."""
    visits.add()
    counts, mapping = visits.counts("user"), turned(by_hash())

    def failing(_):
        raise RuntimeError("Spark lets one of them begin")

    def built(placed):
        with pytest.raises(RuntimeError, match="lets one of them begin"):
            visits.run(failing, look=False, controller=False)
        return counts(placed)

    query = visits.run(built, mapping=mapping, controller=False)
    visits.add()
    again = visits.run(counts, controller=False)
    assert again.mapping == query.mapping
    assert again.mapping.buckets.tolist() == mapping.buckets.tolist()
    assert visits.written("user") == visits.expected("user")


def test_of_two_first_starts_with_mappings_of_their_own_the_one_whose_mapping_is_not_there_any_more_is_refused(spark, visits):
    visits.add()
    placement = Placement(("user",), INSTANCES, "slot", types=("string",))

    def built(placed):
        other = MappingStore(spark, visits.checkpoint, placement)
        other.begin(turned(by_hash()), "given", given=True)
        return visits.counts("user")(placed)

    with pytest.raises(CheckpointMismatch, match=r"another run .* has changed .*: run one query on a checkpoint at a time"):
        visits.run(built, mapping=by_hash(), controller=False)
    assert spark.streams.active == []


def test_a_query_that_waits_for_its_first_rows_has_its_mapping(visits):
    """It may do so in another application."""
    waiting = visits.run(visits.counts("user"), mapping=by_hash(), controller=False)
    visits.add()
    query = visits.run(visits.counts("user"), mapping=turned(by_hash()), controller=False)
    assert query.mapping == waiting.mapping
    assert visits.written("user") == visits.expected("user")


@pytest.mark.usefixtures("rocksdb")
def test_a_handle_that_another_run_has_overtaken_writes_over_nothing(visits):
    visits.add()
    build = visits.counts("user")
    overtaken = visits.run(build, mapping=by_hash(), controller=False)
    later = visits.run(build, controller=False)
    later.change_mapping(turned(later.mapping))
    with pytest.raises(CheckpointMismatch, match=r"another run .* has changed .* since this one read version 1: run one"):
        overtaken.change_mapping(turned(by_hash(), 2))
    visits.add()
    query = visits.run(build, controller=False)
    assert query.mapping == later.mapping
    assert visits.written("user") == visits.expected("user")


def test_a_figure_of_a_run_that_another_has_overtaken_is_not_written(spark, tmp_path):
    one, other = (MappingStore(spark, str(tmp_path), Placement(("user",), INSTANCES, "slot")) for _ in range(2))
    one.propose(by_hash())
    one.enforce(Version(1, "given", ((1, None),)))
    other.load()
    one.propose(replace(by_hash(), version=2))
    one.enforce(Version(2, "asked for", ((2, None),)))
    other.note(1, {"after_pct": 1.0})
    assert [(version.number, version.figures) for version in one.load()] == [(1, {}), (2, {})]
