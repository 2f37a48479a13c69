"""Dataflows that can be run: built in Python or written as YAML, refused before anything runs, and cut into stages."""

from __future__ import annotations

import pytest

from evenly.dataflow.builder import Flow
from evenly.dataflow.ends import check_ends
from evenly.dataflow.files import dataflow_yaml, parse_dataflow
from evenly.dataflow.functions import load, target_of
from evenly.dataflow.job_script import job_script
from evenly.dataflow.shown import shown
from evenly.dataflow.stages import forwarded_to_sink, only_source, stages_of
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


def test_a_row_reaches_a_sink_without_a_shuffle_by_forward_edges_alone():
    flow = Flow("ways")
    rows = flow.source("rows", format="parquet", path="/data/rows")
    first = rows.by_cost("id").row(named, name="first", **ROW)
    second = first.row(named, name="second", **ROW)
    second.shuffle().row(named, name="third", **ROW).sink("far", format="noop")
    assert not forwarded_to_sink(flow.dataflow(), "first")
    second.where("id > 1").sink("near", format="noop")
    assert [forwarded_to_sink(flow.dataflow(), name) for name in ("first", "second", "third")] == [True, True, True]


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
    told = shown(flow.dataflow())
    assert told[0] == "source: source, rate"  # one stage reads it, by three edges
    assert told[1].endswith("computed once for all that read it, and persisted while a batch runs")
    assert "  way 1 -> end: forward: handed on inside the worker while it runs" in told


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
        (
            "[one, two]",
            "{from: one, to: two, grouping: best}",
            9,
            "must be one of forward, shuffle, cost, key, duplicate, got 'best'",
        ),
        ("[one, two]", "{from: one, to: two, columns: id}", 9, "has `columns`, which forward does not look at"),
        (
            "[one, two]",
            "{from: one, to: two, instances: 3}",
            9,
            "has `instances`, and forward leaves rows where they are",
        ),
        ("[one, two]", "{from: one, to: two, grouping: duplicate}", 9, "gives every row to every instance"),
        ("[two, sink]", "{from: two, to: sink, grouping: duplicate, instances: 2}", 10, "gives every row to every instance"),
        ("format: console", "format: console, threads: 2", 6, "is of kind sink, which has no `threads`"),
        ('"some:one", schema', '"some:one", path: x, schema', 4, "is of kind row, which has no `path`"),
        (
            'function: "some:one", schema: "id long"',
            'function: "some:one", threads: 0',
            4,
            "threads (or auto) must be a whole number",
        ),
        ("[one, two]", "{from: one, to: two, routing: shuffle}", 9, "say which by `where`"),
        ("[two, sink]", "{from: two, to: sink, grouping: cost, columns: id}", 10, "needs `kind: row` at its end"),
        (
            '{kind: row, function: "some:two", schema: "id long"}',
            '{kind: state, function: "some:two"}',
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


def meeting(first, second):
    flow = Flow("meeting")
    source = flow.source("source", format="rate")
    ways = [source.row(named, name=name, **ROW) for name in ("a", "b")]
    first(ways[0]).and_also(second(ways[1])).row(named, name="end", **ROW).sink("sink", format="console")
    return flow.dataflow()


def test_edges_that_meet_have_one_grouping():
    """Else a key would be on an instance for each of them."""
    stages_of(meeting(lambda it: it.by_key("id", instances=3), lambda it: it.by_key("id", instances=3)))
    stages_of(meeting(lambda it: it.shuffle(3), lambda it: it))
    for other in (lambda it: it, lambda it: it.shuffle(3), lambda it: it.by_key("id"), lambda it: it.by_key("x", instances=3)):
        with pytest.raises(InvalidDataflow, match="is grouped otherwise than"):
            stages_of(meeting(lambda it: it.by_key("id", instances=3), other))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"threads": 0}, "threads of 'named' must be from 1 to 1024, or auto, got 0"),
        ({"threads": True}, "or auto, got True"),
        ({"threads": "8"}, "or auto, got '8'"),
        ({"schema": " "}, "the schema of 'named' must be text"),
        ({"name": " "}, "an operator's name must be text, got ' '"),
        ({"model": 5}, "the model of 'named' must be text, got 5"),
    ],
)
def test_what_is_built_is_checked_as_what_is_read(wrong, said):
    flow = Flow("wrong")
    made = flow.source("source", format="rate").row(named, **{**ROW, **wrong})
    made.sink("sink", format="console")
    with pytest.raises(InvalidDataflow, match=said):
        flow.dataflow()


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (lambda it: it.shuffle(0), "the instances of source -> named must be from 1 to 10000, got 0"),
        (lambda it: it.by_key(["a", "b"]), "must be names, each once, got"),
        (lambda it: it.by_key("a", "a"), "must be names, each once, got 'a', 'a'"),
        (lambda it: it.where(" "), "must be SQL, got ' '"),
        (lambda it: it.selectivity("2"), "must be finite and at least 0, got '2'"),
        (lambda it: it.routed("key", "1"), "must be from 0 to 1 on an edge routed by key, got '1'"),
    ],
)
def test_edges_that_are_built_are_checked(group, said):
    def built():
        flow = Flow("wrong")
        group(flow.source("source", format="rate")).row(named, **ROW).sink("sink", format="console")
        return flow.dataflow()

    with pytest.raises(InvalidDataflow, match=said):
        built()


def test_threads_may_be_auto_and_options_numbers():
    flow = Flow("auto")
    flow.source("source", format="rate", options={"rowsPerSecond": 5, "x": True}).row(named, threads="auto", **ROW).sink(
        "sink", format="csv", path="x", options={"sep": " "}
    )
    made = flow.dataflow()
    assert made.by_name["named"].threads is None
    assert made.by_name["source"].options == {"rowsPerSecond": "5", "x": "true"}
    text = dataflow_yaml(made).replace("kind: row", "kind: row\n    threads: auto")
    assert parse_dataflow(text).by_name["named"].threads is None
    assert parse_dataflow(text).by_name["sink"].options == {"sep": " "}


def test_options_are_as_they_are_written():
    """YAML would take a country for a truth, a version for a number, and minutes for sixtieths."""
    written = {"a": "no", "b": "1.10", "c": "010", "d": "10:30", "e": "1_000", "f": "On", "g": "1e3", "h": "0x1f", "i": "'no'"}
    options = ", ".join(f"{name}: {value}" for name, value in written.items())
    text = f"""
dataflow: options
operators:
  read: {{kind: source, format: rate, options: {{{options}, yes: TRUE, "on": False, k: 2020-01-01, l: .5}}}}
  kept: {{kind: sink, format: noop}}
edges: [[read, kept]]
"""
    found = parse_dataflow(text)
    more = {"i": "no", "yes": "true", "on": "false", "k": "2020-01-01", "l": ".5"}
    assert found.by_name["read"].options == written | more
    assert parse_dataflow(dataflow_yaml(found)) == found


@pytest.mark.parametrize(("name", "value"), [("yes", "yes"), ("1", "1"), ("on", "ON"), ("~", "~"), ("1.10", "1.10")])
def test_a_name_that_is_none_to_yaml_is_told_with_what_to_do(name, value):
    text = f"""
dataflow: names
operators:
  {name}: {{kind: source, format: rate}}
  kept: {{kind: sink, format: noop}}
edges: [[{value}, kept]]
"""
    with pytest.raises(InvalidDataflow, match=r"line 6: the end of an edge must be text.*in quotes, if that is meant") as error:
        parse_dataflow(text)
    assert f'write "{value}"' in str(error.value)


def test_a_script_with_state_says_where_it_can_be_moved():
    flow = Flow("kept")
    rows = flow.source("rows", format="rate")
    rows.by_key("value").state(named, name="held").sink("kept", format="noop")
    provider = "spark.sql.streaming.stateStore.providerClass=org.apache.spark.sql.execution.streaming.state.RocksDB"
    assert f"spark-submit --conf {provider}" in job_script(flow.dataflow(), "/cp", None)


def test_where_every_instance_gets_every_row_so_many_reach_the_operator():
    flow = Flow("copies")
    flow.source("source", format="rate").duplicate(4).row(named, **ROW).sink("sink", format="console")
    assert flow.dataflow().rates(10.0)["named"] == 40.0


def test_sinks_that_may_get_rows_twice_are_refused_where_once_is_asked():
    flow = Flow("once")
    source = flow.source("source", format="rate")
    source.sink("files", format="csv", path="x")
    check_ends(flow.dataflow(), exactly_once=True)
    source.sink("shown", format="console")
    with pytest.raises(InvalidDataflow, match="the sink 'shown' is to hold every row exactly once, and console cannot"):
        check_ends(flow.dataflow(), exactly_once=True)


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
