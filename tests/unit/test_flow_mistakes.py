"""Every mistake of a description that shows without Spark: one error with file, line and remedy, before anything starts."""

from __future__ import annotations

import pytest

from evenly.dataflow.builder import Flow
from evenly.dataflow.ends import check_added, check_ends
from evenly.dataflow.files import dataflow_yaml, parse_dataflow
from evenly.dataflow.functions import check_functions
from evenly.dataflow.graph import Operator
from evenly.dataflow.patterns import finds
from evenly.dataflow.stages import only_source, stages_of
from evenly.dataflow.unread import why_unread
from evenly.errors import InvalidDataflow

HERE = __name__
YAML = f"""
dataflow: mistaken
operators:
  read: {{kind: source, format: parquet, path: in}}
  one: {{kind: row, function: "{HERE}:one", schema: "id long"}}
  two: {{kind: batch, function: "{HERE}:one", schema: "id long"}}
  three: {{kind: frame, function: "{HERE}:one"}}
  sink: {{kind: sink, format: parquet, path: out}}
edges:
  - [read, one]
  - [one, two]
  - [two, three]
  - [three, sink]
""".strip()
READ, ONE, TWO, THREE, SINK = YAML.splitlines()[2:7]
FUNCTION = f'"{HERE}:one"'


def one(row):
    return row


def none_at_all():
    return None


def two(row, more):
    return row, more


async def waits(row):
    return row


def makes(row):
    yield row


async def waits_and_makes(row):
    yield row


def writes(frame, number):
    return frame, number


async def writes_later(frame, number):
    return frame, number


def writes_never(frame, number):
    yield frame, number


class Caller:
    def __call__(self, row):
        return row


class Needs(Caller):
    def __init__(self, needed):
        self.needed = needed


class ClosesLater(Caller):
    async def close(self):
        """Of a session that the calls share."""


class Silent:
    pass


def refused(text, **wanted):
    flow = parse_dataflow(text, file="f.yaml")
    stages_of(flow)
    check_ends(flow, **wanted)
    check_functions(flow)
    only_source(flow)


def test_the_description_without_a_mistake_is_taken():
    refused(YAML)
    refused(YAML, exactly_once=True)
    refused(YAML.replace(f'row, function: "{HERE}:one"', f'row, function: "{HERE}:Caller"'))
    refused(YAML.replace(f'row, function: "{HERE}:one"', f'row, function: "{HERE}:waits"'))
    refused(YAML.replace(f'row, function: "{HERE}:one"', f'row, function: "{HERE}:makes"'))
    refused(YAML.replace("{kind: sink, format: parquet, path: out}", f'{{kind: sink, function: "{HERE}:writes"}}'))


def function(line, name):
    return line.replace(FUNCTION, f'"{name if ":" in name else f"{HERE}:{name}"}"')


def sink(text):
    return SINK.replace("format: parquet, path: out", text)


def read(text):
    return READ.replace("format: parquet, path: in", text)


KAFKA = "format: kafka, options: {kafka.bootstrap.servers: 'h:1', subscribe: t}"


@pytest.mark.parametrize(
    ("before", "after", "line", "said"),
    [
        # functions
        (ONE, function(ONE, "no_such_module:f"), 4, "the function of 'one': no_such_module:f cannot be loaded"),
        (ONE, function(ONE, "nothing"), 4, "cannot be loaded"),
        (ONE, function(ONE, "HERE"), 4, "is no function and no class"),
        (ONE, ONE.replace(FUNCTION, "one"), 4, "given as module:name, got 'one'"),
        (ONE, function(ONE, "none_at_all"), 4, "is called with a row, and takes other arguments"),
        (ONE, function(ONE, "two"), 4, "is called with a row, and takes other arguments"),
        (ONE, function(ONE, "waits_and_makes"), 4, "is an async generator: let it return a list"),
        (ONE, function(ONE, "Needs"), 4, "made without arguments, and needs some"),
        (ONE, function(ONE, "ClosesLater"), 4, "is a class with an async `close`, which nobody would run"),
        (ONE, function(ONE, "Silent"), 4, "objects are called with a row, and they do not take it"),
        (TWO, function(TWO, "makes"), 5, "is a generator: let it return one batch"),
        (THREE, function(THREE, "waits"), 6, "is an async function or a generator, which nobody would run here"),
        (THREE, function(THREE, "Caller"), 6, "is a class, which only row and batch operators make"),
        (SINK, sink(f'function: "{HERE}:one"'), 7, "called with a DataFrame and the batch's number, and takes other"),
        (SINK, sink(f'function: "{HERE}:writes_later"'), 7, "is an async function or a generator"),
        (SINK, sink(f'function: "{HERE}:writes_never"'), 7, "is an async function or a generator"),
        # what an operator has not
        (ONE, ONE.replace("kind: row", "kind: rows"), 4, "kind must be one of source, operator, row"),
        (ONE, ONE.replace("schema: ", "shema: "), 4, "the operator 'one' has no 'shema'"),
        (ONE, ONE.replace("}", ", threads: 0}"), 4, "threads (or auto) must be a whole number from 1"),
        (ONE, ONE.replace("}", ", path: x}"), 4, "of kind row, which has no `path`"),
        (THREE, THREE.replace("}", ", schema: 'id long'}"), 6, "of kind frame, which has no `schema`"),
        (THREE, THREE.replace("}", ", threads: 3}"), 6, "of kind frame, which has no `threads`"),
        (READ, READ.replace("}", ", exactly_once: true}"), 3, "of kind source, which has no `exactly_once`"),
        (SINK, SINK.replace("}", ", exactly_once: sometimes}"), 7, "exactly_once must be true or false, got 'sometimes'"),
        # edges
        ("  - [one, two]", "  - {from: one, to: two, columns: id}", 10, "has `columns`, which forward does not look at"),
        ("  - [one, two]", "  - {from: one, to: two, instances: 4}", 10, "has `instances`, and forward leaves rows where they"),
        ("  - [one, two]", "  - {from: one, to: two, grouping: key}", 10, "is grouped by key: name its `columns`"),
        ("  - [one, two]", "  - {from: one, to: two, grouping: cost}", 10, "is grouped by cost: name its `columns`"),
        ("  - [one, two]", "  - {from: one, to: two, grouping: cost, columns: id}", 10, "needs `kind: row` at its end"),
        ("  - [one, two]", "  - [one, two]\n  - [one, two]", 11, "is given twice"),
        ("  - [one, two]", "  - [one, two]\n  - [three, one]", 11, "the edges make a cycle: "),
        ("  - [one, two]", "  - [one, twoo]", 10, "names an unknown operator 'twoo'"),
        ("  - [one, two]", "  - [one, two, three]", 10, "an edge in brackets is [from, to], got 3 names"),
        ("  - [three, sink]", "  - [three, sink]\n  - [sink, one]", 13, "a sink emits nothing"),
        ("  - [three, sink]", "  - [three, sink]\n  - [one, read]", 13, "nothing enters a source"),
        ("  - [one, two]\n", "", 4, "nothing leaves 'one'"),
        # sources
        (READ, READ.replace(", path: in", ""), 3, "the source 'read' is of parquet: give it a `path`"),
        (READ, READ.replace("parquet", "Parquet"), 3, "has the format 'Parquet': write 'parquet'"),
        (READ, read("format: tcp"), 3, "cannot be tcp, which is a sink"),
        (READ, read("format: table, path: t, schema: 'id long'"), 3, "is a table, which has a schema"),
        (READ, read("format: kafka"), 3, "give it one of the options subscribe, subscribePattern, assign"),
        (READ, read(KAFKA.replace("kafka.bootstrap.servers: 'h:1', ", "")), 3, "the option 'kafka.bootstrap.servers'"),
        (READ, read(f"{KAFKA}, schema: 'value string'"), 3, "columns of its own (key, value, topic, …)"),
        (READ, read(f'function: "{HERE}:one", path: in'), 3, "is a function, which gets no `path`"),
        (READ, f"{READ}\n  more: {{kind: source, format: rate}}", 4, "nothing leaves 'more'"),
        # sinks
        (SINK, sink("path: out"), 7, "the sink 'sink' needs a `format`, such as parquet, or else a `function`"),
        (SINK, sink('format: parquet, path: "out/*"'), 7, "has the path out/*, a pattern: give the path of one folder"),
        (SINK, sink("format: csv"), 7, "the sink 'sink' is of csv: give it a `path`"),
        (SINK, sink("format: tcp, options: {host: h}"), 7, "give it the option 'port'"),
        (SINK, sink("format: tcp, options: {host: h, port: often}"), 7, "'port' of the sink 'sink' must be a number"),
        (SINK, sink("format: tcp, options: {host: h, port: 1, prot: 2}"), 7, "has no option 'prot': tcp takes host, port"),
        (SINK, sink("format: http"), 7, "give it the option 'url'"),
        (SINK, sink("format: console, options: {rows: all}"), 7, "'rows' of the sink 'sink' must be a number"),
        (SINK, sink("format: kafka, options: {topic: t}"), 7, "give it the option 'kafka.bootstrap.servers'"),
        (SINK, sink("format: parquet, path: out, options: {mode: replace}"), 7, "the mode of the sink 'sink' must be one of"),
        # exactly once
        *(
            (SINK, sink(f"format: {name}, {more}exactly_once: true"), 7, f"exactly once, and {name} cannot")
            for name, more in [
                ("kafka", "options: {kafka.bootstrap.servers: 'h:1', topic: t}, "),
                ("tcp", "options: {host: h, port: 1}, "),
                ("http", "options: {url: 'http://h'}, "),
                ("table", "path: t, "),
                ("console", ""),
                ("noop", ""),
            ]
        ),
        (SINK, sink(f'function: "{HERE}:writes", exactly_once: true'), 7, "exactly once, and a function"),
    ],
)
def test_a_mistake_is_one_error_with_file_line_and_remedy(before, after, line, said):
    assert before in YAML
    with pytest.raises(InvalidDataflow) as error:
        refused(YAML.replace(before, after, 1))
    assert str(error.value).startswith(f"f.yaml, line {line}: "), error.value
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_exactly_once_can_be_asked_of_all_sinks_and_needs_a_source_that_can_be_read_again():
    kafka = YAML.replace(SINK, sink("format: kafka, options: {kafka.bootstrap.servers: 'h:1', topic: t}"))
    refused(kafka)
    with pytest.raises(InvalidDataflow, match=r"f\.yaml, line 7: the sink 'sink' is to hold every row exactly once"):
        refused(kafka, exactly_once=True)
    socket = YAML.replace(READ, read("format: socket, options: {host: h, port: 1}"))
    refused(socket)
    with pytest.raises(InvalidDataflow, match=r"line 3: .*the source 'read' \(socket\) cannot give rows a second time"):
        refused(socket, exactly_once=True)
    losing = YAML.replace(READ, read(KAFKA.replace("subscribe: t", "Subscribe: t, failOnDataLoss: false")))
    refused(losing)
    with pytest.raises(InvalidDataflow, match=r"line 3: .*the source 'read' goes on without messages that are gone"):
        refused(losing, exactly_once=True)


@pytest.mark.parametrize("name", ["mode", "Mode"])
@pytest.mark.parametrize("mode", ["overwrite", "Ignore", "error"])
def test_a_table_that_would_keep_one_batch_of_a_stream_is_refused(name, mode):
    table = parse_dataflow(YAML.replace(SINK, sink(f"format: table, path: t, options: {{{name}: {mode}}}")), file="f.yaml")
    check_ends(table)  # once, as a batch
    with pytest.raises(InvalidDataflow, match=r"f\.yaml, line 7: the sink 'sink' has the mode .* would not keep the rows"):
        check_added(table)
    for spared in ("format: table, path: t, options: {mode: append}", f"format: parquet, path: t, options: {{mode: {mode}}}"):
        check_added(parse_dataflow(YAML.replace(SINK, sink(spared)), file="f.yaml"))


def test_two_sinks_of_a_table_keep_each_others_rows_or_are_refused():
    def tables(one, other):
        flow = Flow("f")
        read = flow.source("read", format="rate")
        read.sink("a", format="table", path="db.t", options=one)
        read.sink("b", format="table", path="DB.T", options=other)
        check_ends(flow.dataflow())

    tables({}, {"mode": "Append"})
    for modes in (({}, {"mode": "overwrite"}), ({"Mode": "ignore"}, {}), ({"mode": "overwrite"}, {"mode": "overwrite"})):
        with pytest.raises(InvalidDataflow, match=r"'a' and 'b' are the same table, DB\.T, .* leave `mode` out of both"):
            tables(*modes)


@pytest.mark.parametrize(
    ("pattern", "at", "found"),
    [
        ("/d/*.json/", "/d/out.json/", True),
        ("/d/*/", "/d/out/deep/", True),
        ("/d/in*/", "/d/out/", False),
        ("/d/{in,out}/", "/d/out/", True),
        ("/d/{in,old}/", "/d/out/", False),
        ("/d/[^a-n]ut/", "/d/out/", True),
        ("/d/*/in/", "/d/out/", False),
        ("/d/a,b/", "/d/a,b/", True),
        ("/d.x/*/", "/dyx/out/", False),
        ("/d/\\*/", "/d/out/", False),
        ("/d/[/", "/d/out/", False),
    ],
)
def test_a_pattern_of_a_source_finds_folders_as_hadoop_does(pattern, at, found):
    assert finds(pattern, at) is found


def test_what_is_asked_of_a_sink_is_written_and_read_back():
    flow = Flow("f")
    flow.source("s", format="rate", options={"rowsPerSecond": 5}).sink("k", format="orc", path="out", exactly_once=True)
    text = dataflow_yaml(flow.dataflow())
    assert "exactly_once: true" in text
    assert parse_dataflow(text).operators == flow.dataflow().operators


def test_two_sources_of_a_stream_are_refused_with_the_line_of_the_second():
    more = YAML.replace(READ, f"{READ}\n  more: {{kind: source, format: rate}}").replace(
        "[read, one]", "[read, one]\n  - [more, one]"
    )
    with pytest.raises(InvalidDataflow, match=r"f\.yaml, line 4: there are 2 sources, read, more"):
        refused(more)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (
            lambda read: read.row(one, schema="id long", threads=0),
            "the threads of 'one' must be from 1 to 1024, or auto, got 0",
        ),
        (lambda read: read.row(one, schema="id long", threads=-3), "or auto, got -3"),
        (lambda read: read.row(one, schema="id long", threads=True), "or auto, got True"),
        (lambda read: read.shuffle(0).row(one, schema="id long"), "must be from 1 to 10000, got 0"),
        (lambda read: read.shuffle(2.5).row(one, schema="id long"), "got 2.5"),
        (lambda read: read.by_key(["a", "b"]).row(one, schema="id long"), "must be names, each once"),
        (lambda read: read.by_key("a").and_also(read).row(one, schema="id long"), "is given twice"),
        (lambda read: read.where("").row(one, schema="id long"), "a condition must be SQL, got ''"),
        (lambda read: read.where("id > 1").where(None).row(one, schema="id long"), "must be SQL, got None"),
        (lambda read: read.row(5, schema="id long", name="five"), "is a int and not a function"),
        (lambda read: read.and_also(Flow("other").source("x", format="rate")).row(one, schema="id"), "of another Flow"),
    ],
)
def test_mistakes_in_python_are_refused_too(build, said):
    def checked():
        flow = Flow("f")
        build(flow.source("read", format="rate")).sink("sink", format="console")
        stages_of(flow.dataflow())
        check_functions(flow.dataflow())

    with pytest.raises(InvalidDataflow, match=said):
        checked()


@pytest.mark.parametrize(
    ("source", "sink", "said"),
    [
        ({"arrival": 5}, {}, "the arrival of 'read' must be text, got 5"),
        ({"options": {1: "x"}}, {}, "the options of 'read' must be named by text, got 1"),
        ({}, {"exactly_once": "yes"}, "exactly_once of 'sink' must be true or false, got 'yes'"),
    ],
)
def test_ends_that_are_built_are_checked(source, sink, said):
    flow = Flow("f")
    flow.source("read", format="rate", **source).sink("sink", format="console", **sink)
    with pytest.raises(InvalidDataflow, match=said):
        flow.dataflow()


def test_edges_by_key_to_one_operator_are_grouped_alike():
    def stages(second):
        flow = Flow("f")
        first = flow.source("a", format="rate").by_key("k", instances=2)
        first.and_also(second(flow.source("b", format="rate"))).row(one, schema="id long").sink("sink", format="console")
        return stages_of(flow.dataflow())

    assert [len(stage.inputs) for stage in stages(lambda read: read.by_key("k", instances=2))] == [0, 0, 2, 1]
    for other in (lambda read: read, lambda read: read.by_key("j", instances=2), lambda read: read.by_key("k", instances=3)):
        with pytest.raises(InvalidDataflow, match=r"b -> one is grouped otherwise than a -> one: rows of a key meet only if"):
            stages(other)


@pytest.mark.parametrize(
    ("said", "path", "told"),
    [
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/in. SQLSTATE: 42K03",
            "in",
            "there is nothing at /in: correct its `path`",
        ),
        ("[PATH_NOT_FOUND] Path does not exist: file:/in*", "in*", "nothing matches the pattern /in*: correct its `path`"),
        (
            "[UNABLE_TO_INFER_SCHEMA] Unable to infer schema for Parquet.",
            "in",
            "give the source a `schema`, or write the first",
        ),
        ("[TABLE_OR_VIEW_NOT_FOUND] The table", "in", "this session has no table or view in"),
        (
            "An error occurred while calling o1.load.\n: org.x.Y: [DATA_SOURCE_NOT_FOUND] Failed\n\tat z",
            "in",
            "no format 'parquet'",
        ),
        (
            "\n: o.S: [FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Error\n\tat z",
            "in",
            "a file at in is not of the format parquet",
        ),
        ("rate is not a valid Spark SQL Data Source.", "", "can be read as a stream only: give a checkpoint"),
        ("An error occurred while calling o1.load.\n: java.io.IOException: no [room]\n\tat a.B", "in", "no [room]"),
        ("", "in", "without a word"),
    ],
)
def test_what_spark_says_of_a_source_becomes_one_sentence_with_a_remedy(said, path, told):
    found = why_unread(Operator("s", kind="source", format="parquet", path=path), said)
    assert told in found
    assert "\n" not in found


def test_conditions_that_end_with_a_comment_are_joined():
    flow = Flow("f")
    read = flow.source("s", format="rate")
    read.where("value > 1 -- large").where("value < 9").sink("k", format="console")
    (edge,) = flow.dataflow().edges
    assert edge.where == "(value > 1 -- large\n) and (value < 9)"
    assert parse_dataflow(dataflow_yaml(flow.dataflow())).edges == (edge,)
