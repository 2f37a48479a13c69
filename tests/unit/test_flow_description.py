"""Dataflows that can be run: built in Python or written as YAML, refused before anything runs, and cut into stages."""

from __future__ import annotations

import pytest

from evenly.dataflow.builder import Flow
from evenly.dataflow.files import dataflow_yaml, parse_dataflow
from evenly.dataflow.functions import load, target_of
from evenly.dataflow.stages import only_source, stages_of
from evenly.errors import InvalidDataflow

ROW = {"schema": "id long"}


def named(row):
    return row


def built():
    flow = Flow("sizes", about="An example")
    urls = flow.source("urls", format="parquet", path="/data/urls", options={"maxFilesPerTrigger": "1"})
    sizes = urls.shuffle(16).row(named, schema="host string", threads=8, name="fetch").selectivity(0.5)
    sizes.where("host > ''").by_cost("host", instances=4).row("some:score", schema="score double", model="pi").sink(
        "scores", format="parquet", path="/data/scores"
    )
    sizes.by_key("host", instances=4).frame("some:joined").sink("shown", format="console")
    return flow


def test_a_dataflow_that_was_built_reads_back_from_its_yaml():
    flow = built().dataflow()
    text = dataflow_yaml(flow)
    read = parse_dataflow(text)
    assert dataflow_yaml(read) == text
    assert read.edges == flow.edges
    assert [one.name for one in read.operators] == [one.name for one in flow.operators]
    assert load(str(read.by_name["fetch"].function)) is named
    others = [name for name in flow.by_name if name != "fetch"]
    assert [read.by_name[name] for name in others] == [flow.by_name[name] for name in others]


def test_a_function_without_a_name_cannot_be_written():
    with pytest.raises(InvalidDataflow, match="has no name to write down"):
        target_of(lambda row: row)
    flow = Flow("f")
    with pytest.raises(InvalidDataflow, match="has no name: give name="):
        flow.source("s", format="rate").row(lambda row: row, **ROW)


def test_forward_edges_between_rows_and_batches_are_one_worker_whatever_their_shape():
    flow = Flow("diamond")
    source = flow.source("source", format="rate")
    ways = [source.row(named, name=f"way {at}", **ROW) for at in range(3)]
    end = ways[0].and_also(*ways[1:]).batch("some:end", **ROW)
    end.sink("one", format="console")
    ways[0].sink("two", format="console")
    found = stages_of(flow.dataflow())
    assert [(stage.kind, stage.operators, stage.exits) for stage in found] == [
        ("source", ["source"], ["source"]),
        ("worker", ["way 0", "way 1", "way 2", "end"], ["way 0", "end"]),
        ("sink", ["two"], []),
        ("sink", ["one"], []),
    ]
    assert {edge.end for edge in found[1].inputs} == {"way 0", "way 1", "way 2"}


def test_a_shuffle_a_condition_or_a_second_stage_ends_a_worker():
    flow = Flow("cut")
    source = flow.source("source", format="rate")
    first = source.row(named, name="first", **ROW)
    second = first.shuffle(4).row(named, name="second", **ROW)
    third = second.where("id > 1").row(named, name="third", **ROW)
    both = first.and_also(third).row(named, name="both", **ROW)
    both.sink("sink", format="console")
    found = [stage.operators for stage in stages_of(flow.dataflow()) if stage.kind == "worker"]
    assert found == [["first"], ["second"], ["third"], ["both"]]


def test_rows_dealt_out_by_cost_are_a_stage_of_their_own():
    flow = Flow("cost")
    flow.source("source", format="rate").by_cost("value").row(named, **ROW).row(named, name="next", **ROW).sink(
        "sink", format="console"
    )
    assert [(stage.kind, stage.operators) for stage in stages_of(flow.dataflow())][1:3] == [
        ("cost", ["named"]),
        ("worker", ["next"]),
    ]


YAML = """
dataflow: refused
operators:
  source: {kind: source, format: rate}
  one: {kind: row, function: "some:one", schema: "id long"}
  two: {kind: row, function: "some:two", schema: "id long"}
  sink: {kind: sink, format: console}
edges:
  - [source, one]
  - [one, two]
  - [two, sink]
"""


@pytest.mark.parametrize(
    ("before", "after", "line", "said"),
    [
        (
            '{kind: row, function: "some:one", schema: "id long"}',
            "{model: pi}",
            4,
            "can be planned, not run: give it `kind: row`",
        ),
        (', schema: "id long"}\n  two', "}\n  two", 4, "needs the `schema`"),
        ('function: "some:one", ', "", 4, "needs a `function`"),
        ("format: rate", "path: x", 3, "the source 'source' needs a `format`"),
        ("[one, two]", "{from: one, to: two, grouping: key}", 9, "is grouped by key: name its `columns`"),
        ("[one, two]", "{from: one, to: two, grouping: best}", 9, "must be one of forward, shuffle, cost, key, got 'best'"),
        ("[one, two]", "{from: one, to: two, routing: shuffle}", 9, "say which by `where`"),
        ("[two, sink]", "{from: two, to: sink, grouping: cost, columns: id}", 10, "needs `kind: row` at its end"),
        (
            '{kind: row, function: "some:two", schema: "id long"',
            '{kind: state, function: "some:two"',
            9,
            "leads to state: it needs `grouping: key`",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_line(before, after, line, said):
    text = YAML.strip("\n").replace(before, after, 1)
    with pytest.raises(InvalidDataflow) as refused:
        stages_of(parse_dataflow(text, file="f.yaml"))
    assert str(refused.value).startswith(f"f.yaml, line {line}: ")
    assert said in str(refused.value)


def stateful(*, early):
    flow = Flow("state")
    source = flow.source("source", format="rate")
    first = source.row(named, name="first", **ROW)
    if not early:
        first.sink("other", format="console")
    first.by_key("id").state("some:count").sink("sink", format="console")
    return flow


def test_state_behind_a_fan_out_is_refused_with_what_to_do():
    stages_of(stateful(early=True).dataflow())
    with pytest.raises(InvalidDataflow, match=r"state behind 'first', which 2 edges leave: .*Put the state before"):
        stages_of(stateful(early=False).dataflow())


def test_a_query_reads_one_source():
    flow = Flow("two")
    flow.source("a", format="rate").and_also(flow.source("b", format="rate")).row(named, **ROW).sink("sink", format="console")
    with pytest.raises(InvalidDataflow, match="there are 2 sources, a, b: a streaming query reads one"):
        only_source(flow.dataflow())


@pytest.mark.parametrize("target", ["nothing", "no.such.module:f", "json:nothing", "json:__name__"])
def test_a_function_that_is_not_there_is_one_error(target):
    with pytest.raises(InvalidDataflow):
        load(target)
