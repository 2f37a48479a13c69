"""Dataflows: rates, order, and one clear error with its line for everything that is wrong."""

from __future__ import annotations

import pytest

from evenly.dataflow import Dataflow, Edge, Operator
from evenly.dataflow.files import find_dataflow, parse_dataflow, read_dataflow, shipped_dataflow, shipped_names
from evenly.dataflow.tuning import Tuning
from evenly.errors import InvalidDataflow

SOURCE, SINK = Operator("source", kind="source"), Operator("sink", kind="sink")


def flow(*edges, operators="ab"):
    return Dataflow("test", (SOURCE, *(Operator(name, "pi") for name in operators), SINK), tuple(edges))


def test_a_rate_is_the_sum_over_the_edges_that_lead_there():
    made = flow(Edge("source", "a", 2.0), Edge("source", "b"), Edge("a", "b", 0.5), Edge("b", "sink"))
    assert made.rates(10.0) == {"source": 10.0, "a": 20.0, "b": 20.0, "sink": 20.0}
    assert made.order == ("source", "a", "b", "sink")
    assert made.critical_path == ("source", "a", "b", "sink")


def test_shuffled_and_keyed_edges_share_what_leaves_and_duplicates_do_not():
    edges = [Edge("a", "sink"), Edge("b", "sink")]
    assert flow(Edge("source", "a"), Edge("source", "b"), *edges).rates(10.0)["b"] == 10.0
    shuffled = flow(Edge("source", "a", routing="shuffle"), Edge("source", "b", 3.0, routing="shuffle"), *edges)
    assert (shuffled.rates(10.0)["a"], shuffled.rates(10.0)["b"]) == (5.0, 15.0)
    keyed = flow(Edge("source", "a", routing="key", share=0.8), Edge("source", "b", routing="key", share=0.2), *edges)
    assert (keyed.rates(10.0)["a"], keyed.rates(10.0)["b"]) == pytest.approx((8.0, 2.0))


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ([Edge("source", "a"), Edge("a", "c"), Edge("b", "sink")], "unknown operator 'c'"),
        ([Edge("source", "a"), Edge("a", "b"), Edge("b", "a"), Edge("b", "sink")], "cycle: a -> b -> a|cycle: b -> a -> b"),
        ([Edge("source", "a"), Edge("a", "b")], "nothing leads to 'sink'|nothing leaves 'b'"),
        ([Edge("source", "a"), Edge("a", "sink")], "nothing leads to 'b'"),
        ([Edge("source", "a", -1.0), Edge("a", "b"), Edge("b", "sink")], "at least 0, got -1.0"),
        ([Edge("source", "a"), Edge("source", "a"), Edge("a", "b"), Edge("b", "sink")], "given twice"),
        ([Edge("source", "a"), Edge("a", "b"), Edge("b", "sink"), Edge("sink", "a")], "a sink emits nothing"),
        ([Edge("source", "a"), Edge("a", "b"), Edge("b", "sink"), Edge("a", "source")], "nothing enters a source"),
        ([Edge("source", "a", share=0.5), Edge("a", "b"), Edge("b", "sink")], "on an edge routed by key, got 0.5"),
        ([Edge("source", "a", routing="key", share=0.5), Edge("a", "b"), Edge("b", "sink")], "add up to 1"),
    ],
)
def test_what_is_wrong_is_said(edges, said):
    with pytest.raises(InvalidDataflow, match=said):
        flow(*edges)


@pytest.mark.parametrize("missing", [SOURCE, SINK])
def test_a_source_and_a_sink_are_needed(missing):
    operators = tuple(one for one in (SOURCE, Operator("a"), SINK) if one != missing)
    edges = [Edge(*pair) for pair in (("source", "a"), ("a", "sink")) if missing.name not in pair]
    with pytest.raises(InvalidDataflow, match=f"there is no {missing.kind}"):
        Dataflow("test", operators, tuple(edges))


def test_operators_are_needed_and_named_once():
    with pytest.raises(InvalidDataflow, match="needs operators"):
        Dataflow("test", (), ())
    with pytest.raises(InvalidDataflow, match="'a' is given twice"):
        Dataflow("test", (SOURCE, Operator("a"), Operator("a"), SINK), ())


TEXT = """\
dataflow: clicks
operators:
  source: {kind: source}
  parse: {model: xml_parse}
  store:
  sink: {kind: sink}
edges:
  - [source, parse]
  - {from: parse, to: store, selectivity: 0.5}
  - [store, sink]
"""


def test_a_file_is_read_as_it_says(tmp_path):
    path = tmp_path / "clicks.yaml"
    path.write_text(TEXT, encoding="utf-8")
    read = read_dataflow(path)
    assert (
        read
        == find_dataflow(str(path))
        == Dataflow(
            "clicks",
            (SOURCE, Operator("parse", "xml_parse"), Operator("store"), SINK),
            (Edge("source", "parse"), Edge("parse", "store", 0.5), Edge("store", "sink")),
            file=str(path),
        )
    )
    assert [one.model_name for one in read.operators] == ["source", "xml_parse", "store", "sink"]


@pytest.mark.parametrize(("written", "number"), [("5e-1", 0.5), ("2E3", 2000.0), ("1.e+2", 100.0), ("1.5e-3", 0.0015)])
def test_numbers_may_have_powers_of_ten_that_are_texts_to_yaml(written, number):
    flow = parse_dataflow(TEXT.replace("selectivity: 0.5", f"selectivity: {written}"))
    assert flow.edges[1].selectivity == number


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("selectivity: 0.5", "selectivity: -0.5", r"line 9: a selectivity must be at least 0, got -0.5"),
        ("selectivity: 0.5", "selectivity: lots", r"line 9: a selectivity must be a number, got 'lots'"),
        ("selectivity: 0.5", "selectivity: .inf", r"line 9: a selectivity must be a number, got inf"),
        ("selectivity: 0.5", "speed: 1", r"line 9: an edge has no 'speed': it may have from, to"),
        ("selectivity: 0.5", "routing: any", r"line 9: an edge's routing must be one of duplicate, shuffle, key, got 'any'"),
        ("to: store, ", "", r"line 9: an edge needs 'to'"),
        ("[source, parse]", "[source, parse, sink]", r"line 8: an edge in brackets is \[from, to\], got 3 names"),
        ("[store, sink]", "[store, snik]", r"line 10: .*unknown operator 'snik'"),
        ("[store, sink]", "[store, parse]", r"clicks.yaml: the edges make a cycle|line 6: nothing leads to 'sink'"),
        ("  - [store, sink]\n", "", r"line \d+: nothing lea"),
        ("{model: xml_parse}", "{model: xml_parse, cores: 3}", r"line 4: the operator 'parse' has no 'cores'"),
        (
            "{kind: sink}",
            "{kind: drain}",
            r"line 6: an operator's kind must be one of source, operator, row, batch, frame, state, sink, got 'drain'",
        ),
        ("  store:", "  parse:", r"line 5: 'parse' is given twice: first in line 4"),
        ("dataflow: clicks\n", "", r"line 1: a dataflow needs 'dataflow'"),
        ("edges:", "edges: {", r"line \d+: this is not YAML"),
        ("{model: xml_parse}", "!!python/name:os.system {}", r"line 4: only plain text and numbers are read"),
        ("clicks", "!!python/object:os.system x", r"line 1: only plain text and numbers are read"),
        ("{model: xml_parse}", "&a {model: pi}\n  more: *a", r"line 4: a value is used twice by anchor and alias"),
    ],
)
def test_an_error_in_a_file_names_the_line(old, new, said):
    assert old in TEXT
    with pytest.raises(InvalidDataflow, match=said):
        parse_dataflow(TEXT.replace(old, new, 1), file="clicks.yaml")


def test_a_file_that_is_none_is_refused(tmp_path):
    for name, content in (("empty", b""), ("binary", b"\xff\xfe\x00")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidDataflow, match=name):
            read_dataflow(tmp_path / name)
    with pytest.raises(InvalidDataflow, match="neither a file nor a shipped dataflow: those are linear"):
        find_dataflow("no-such")
    with pytest.raises(InvalidDataflow, match=r"nested more than|not YAML"):
        parse_dataflow("dataflow: " + "[" * 40 + "]" * 40)


def test_the_papers_dataflows_ship_with_their_source():
    assert shipped_names() == ["linear", "diamond", "star", "traffic", "finance", "grid", "examples"]
    for name in shipped_names()[:6]:
        made = shipped_dataflow(name)
        assert made.name == name
        assert "Shukla and Simmhan" in made.about
    assert {name: len(shipped_dataflow(name).critical_path) for name in ("diamond", "star", "linear")} == {
        "diamond": 4,
        "star": 5,
        "linear": 7,
    }
    assert shipped_dataflow("diamond").rates(100.0)["pi"] == 400.0
    assert shipped_dataflow("star").rates(100.0)["pi"] == 200.0
    assert shipped_dataflow("grid").rates(100.0)["blob-3"] == 300.0
    with pytest.raises(InvalidDataflow, match="no dataflow 'ring' ships"):
        shipped_dataflow("ring")


def test_what_is_tuned_does_not_say_how_often_a_row_is_there():
    tuned = Tuning(instances={("a", "b"): 7})
    assert tuned.instances_of(Edge("a", "b", grouping="shuffle", instances=2), 4) == 7
    assert tuned.instances_of(Edge("a", "b", grouping="duplicate", instances=2), 4) == 2
