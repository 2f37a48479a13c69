"""Records hold what they promise: read back as they were, strictly, and at most 10,000 bytes whatever is in them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from evenly.errors import DamagedData, NewerFormat
from evenly.facts.loads import Loads
from evenly.facts.reading import LineReader, read_facts
from evenly.facts.records import MOST_BYTES, Batch, Decision, Fact, Graph, HeavyKey, Operator, Queues, schema
from evenly.facts.sample import dataflow, drifting_stream, paced_sending

FINITE = st.floats(0.0, 1e300)
TEXT = st.text(max_size=400)
VALID = Draft202012Validator(schema())


def loads_of(count, seed, largest):
    return Loads.of(np.random.default_rng(seed).random(count) * largest)


LOADS = st.none() | st.builds(loads_of, st.integers(1, 10_000), st.integers(0, 9), st.sampled_from([1.0, 1e6, 1e18, 1e300]))
OPERATORS = st.lists(
    st.builds(
        Operator,
        name=TEXT,
        role=TEXT,
        threads=st.none() | st.integers(0, 2**40),
        rows=st.integers(0, 2**62),
        rows_out=st.integers(0, 2**62),
        busy_ms=FINITE,
        busy_pct=FINITE,
        duration_ms=FINITE,
        planned_ms=FINITE,
        imbalance_pct=FINITE,
    ),
    max_size=90,
).map(tuple)
HEAVY_KEYS = st.builds(HeavyKey, key=TEXT, share_pct=FINITE, instance=st.integers(0, 9_999))
BATCHES = st.builds(
    Batch,
    number=st.integers(0, 2**62),
    rows=st.integers(0, 2**62),
    duration_ms=FINITE,
    bound_ms=FINITE,
    operator=TEXT,
    rows_by_instance=LOADS,
    busy_ms_by_instance=LOADS,
    imbalance_pct=st.none() | FINITE,
    heavy_keys=st.lists(HEAVY_KEYS, max_size=40).map(tuple),
    operators=OPERATORS,
    queues=st.none()
    | st.builds(Queues, policy=TEXT, backlogs=LOADS, may_send=st.lists(st.integers(0, 9_999), max_size=200).map(tuple)),
)
GRAPHS = st.builds(
    Graph, operators=OPERATORS, edges=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=300).map(tuple)
)
COMMON = {"time": FINITE, "run": st.text(min_size=1, max_size=400), "name": TEXT, "kind": st.sampled_from(["keyed", "flow"])}
FACTS = (
    st.builds(Fact, event=st.just("batch"), batch=BATCHES, **COMMON)
    | st.builds(Fact, event=st.just("start"), graph=GRAPHS, **COMMON)
    | st.builds(Fact, event=st.just("end"), error=TEXT, **COMMON)
    | st.builds(Fact, event=st.just("change"), decision=st.builds(Decision, what=TEXT, reason=TEXT), **COMMON)
)


@settings(max_examples=100, deadline=None)
@given(FACTS)
def test_any_record_is_one_line_of_at_most_10_000_bytes_that_is_read_back_and_fits_the_schema(fact):
    line = fact.to_json()
    assert len(line) <= MOST_BYTES
    assert b"\n" not in line
    assert list(LineReader().feed(line + b"\n")) == [fact.fitted()]
    assert fact.fitted().to_json() == line
    VALID.validate(json.loads(line))


def test_names_that_begin_alike_stay_apart_where_they_are_cut():
    names = [f"{'https://example.com/path/' * 20}{at}" for at in range(3)]
    operators = tuple(Operator(name=name, rows=at) for at, name in enumerate(names))
    keys = tuple(HeavyKey(key=name, share_pct=1.0) for name in names)
    started = Fact(time=1.0, run="a", kind="flow", event="start", graph=Graph(operators=operators)).fitted()
    held = Batch(number=0, operator=names[1], operators=operators, heavy_keys=keys)
    told = Fact(time=1.0, run=names[0], name=names[2], kind="flow", event="batch", batch=held).fitted()
    assert len({one.name for one in told.batch.operators}) == len({one.key for one in told.batch.heavy_keys}) == 3
    assert [one.name for one in told.batch.operators] == [one.name for one in started.graph.operators]
    assert told.batch.operator == told.batch.operators[1].name
    assert told.run != told.name
    assert told.fitted() == told


def test_half_a_character_is_told_as_a_question_mark_and_not_by_no_record():
    """Python has them in names of files, and so in errors."""
    odd = "\udcff.parquet"
    operators, edges = (Operator(name=odd, role=odd),), ((0, 0),)
    held = Batch(number=1, operator=odd, heavy_keys=(HeavyKey(key=odd, share_pct=1.0),), operators=operators)
    common = {"time": 1.0, "run": odd, "name": odd, "kind": "flow"}
    for parts in (
        {"event": "batch", "batch": held},
        {"event": "start", "graph": Graph(operators=operators, edges=edges)},
        {"event": "change", "decision": Decision(what=odd, reason=odd)},
        {"event": "end", "error": odd},
    ):
        fact = Fact(**common, **parts)
        assert b"?.parquet" in fact.to_json()
        assert list(LineReader().feed(fact.to_json() + b"\n")) == [fact.fitted()]


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_share_that_is_no_number_is_refused_before_it_is_a_line_that_nobody_can_read(odd):
    with pytest.raises(ValueError, match="the share of a key is a number"):
        HeavyKey(key="a", share_pct=odd)


def test_the_largest_records_fit():
    text, most = "\x01" * 400, {"rows": 2**62, "busy_ms": 1e300 / 3, "busy_pct": 1e300 / 3, "duration_ms": 1e300 / 3}
    operators = tuple(
        Operator(name=text, role=text, planned_threads=2**62, planned_ms=1e300 / 3, imbalance_pct=1e300 / 3, **most)
        for _ in range(90)
    )
    loads = Loads.of(np.full(256, 1e300) / 3)
    batch = Batch(
        number=2**62,
        operator=text,
        rows_by_instance=loads,
        busy_ms_by_instance=loads,
        heavy_keys=tuple(HeavyKey(key=text, share_pct=1e300 / 3, instance=9_999) for _ in range(40)),
        operators=operators,
        queues=Queues(policy=text, backlogs=loads, may_send=tuple(range(9_000, 9_200))),
    )
    graph = Graph(operators=operators, edges=tuple((at % 90, 7) for at in range(300)))
    decision = Decision(what=text * 90, reason=text * 90)
    common = {"time": 1e300 / 3, "run": text, "name": text, "kind": "flow"}
    for parts in (
        {"event": "batch", "batch": batch},
        {"event": "start", "graph": graph},
        {"event": "change", "decision": decision},
        {"event": "end", "error": text * 9},
    ):
        line = Fact(**common, **parts).to_json()
        assert len(line) <= MOST_BYTES
        VALID.validate(json.loads(line))


@pytest.mark.parametrize("instances", [1, 256, 257, 10_000])
def test_loads_keep_the_total_and_the_busiest(instances):
    values = np.random.default_rng(3).integers(0, 1_000_000, instances).astype(float)
    values[instances // 2] = 2_000_000.0
    told = Loads.of(values)
    assert (told.count, told.total, told.most) == (instances, values.sum(), 2_000_000.0)
    assert told.imbalance_pct == pytest.approx((values.max() / values.mean() - 1.0) * 100.0)
    if instances <= 256:
        assert told.values == tuple(values)
        assert told.summarised().busiest[0] == (instances // 2, 2_000_000.0)
    else:
        assert told.values == ()
        assert told.busiest[0] == (instances // 2, 2_000_000.0)
        assert list(told.quantiles) == sorted(told.quantiles)


def test_no_instance_and_what_is_no_number_have_no_loads():
    assert Loads.of([]) is None
    assert Loads.of([1.0, float("nan")]) is None
    assert Loads.of([1.0, float("inf")]) is None
    assert Loads.of([1e308, 1e308]) is None  # a sum that JSON cannot say would be a line that nobody can read
    assert Loads.of([0.0, 0.0]).imbalance_pct == 0.0


@settings(deadline=None)
@given(st.integers(1, 60))
def test_pieces_of_any_size_give_the_same_records(size):
    facts = list(paced_sending(batches=3))
    text = b"".join(fact.to_json() + b"\n" for fact in facts)
    reader = LineReader()
    assert [fact for at in range(0, len(text), size) for fact in reader.feed(text[at : at + size])] == facts
    assert (reader.pending, reader.cut) == (False, 0)


def test_a_line_cut_anywhere_is_told_and_not_read(tmp_path):
    line = next(iter(drifting_stream(batches=1))).to_json()
    fact = Fact(time=1.0, run="λ→ü", name='a "name" \\', kind="cost", event="end", error="…")
    for whole in (line, fact.to_json()):
        for kept in range(1, len(whole)):
            path = tmp_path / "facts.jsonl"
            path.write_bytes(whole + b"\n" + whole[:kept])
            found = read_facts(path)
            assert (len(found.facts), found.cut) == (1, 1), whole[:kept]
    path.write_bytes(line[:40] + b"\n" + line + b"\n" + line)
    assert (len(read_facts(path).facts), read_facts(path).cut) == (2, 1)


@pytest.mark.parametrize(
    ("line", "error", "words"),
    [
        (b'{"version":2,"time":1}', NewerFormat, "line 2 of here is of version 2, and this release reads up to 1"),
        (b'{"version":1,"time":"now","run":"a","kind":"keyed","event":"end"}', DamagedData, "line 2 of here is damaged"),
        (b'{"version":1,"time":1,"run":"a","kind":"keyed","event":"end","more":1}', DamagedData, "more"),
        (b'{"version":1,"time":1,"run":"a","kind":"keyed","event":"batch"}', DamagedData, "has a batch"),
        (b'{"version":1,"time":1,"run":"a","kind":"keyed","event":"change"}', DamagedData, "has a decision"),
        (b"not JSON", DamagedData, "no record of Evenly"),
        (b'"text"', DamagedData, "no record of Evenly"),
        (b"\xff\xfe", DamagedData, "no record of Evenly"),
    ],
)
def test_any_other_line_is_refused_by_its_number(line, error, words):
    with pytest.raises(error, match=words):
        list(LineReader("here").feed(b"\n" + line + b"\n"))


def test_samples_are_the_same_for_the_same_seed_and_tell_of_a_change_and_what_came_of_it():
    first = list(drifting_stream(seed=2, batches=45, restart_after=20))
    assert first == list(drifting_stream(seed=2, batches=45, restart_after=20))
    events = [fact.event for fact in first]
    assert events.count("start") == 2
    assert {fact.run for fact in first} == {"sample-2"}
    assert [fact.time for fact in first] == sorted(fact.time for fact in first)
    assert {"change", "move", "effect"} <= set(events)
    after = next(fact for fact in first if fact.event == "effect").decision
    assert after.after_pct < after.kept_pct
    for fact in (*first, *dataflow(), *paced_sending()):
        VALID.validate(json.loads(fact.to_json()))


def test_without_names_no_key_of_a_sample_is_told():
    named = {key.key for fact in drifting_stream(batches=2) if fact.batch for key in fact.batch.heavy_keys}
    hidden = {key.key for fact in drifting_stream(batches=2, names=False) if fact.batch for key in fact.batch.heavy_keys}
    assert len(named) == len(hidden)
    assert all(key.startswith("#") for key in hidden)
