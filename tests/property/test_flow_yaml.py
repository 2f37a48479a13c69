"""A dataflow is the same object whether it was built in Python or read from YAML, whatever its names and texts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from evenly.dataflow.builder import Flow
from evenly.dataflow.files import dataflow_yaml, parse_dataflow

# All of Unicode that a file can hold: YAML's own marks, numbers and dates, line ends, blanks around.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)
NAMES = TEXTS | st.sampled_from(
    ["1", "null", "yes", "2020-01-01", "a: b", "- x", "<<", "=", "~", "&a", "*a", "!x", " a ", "\t.\n"]
)
MAYBE = st.just("") | NAMES
OPTIONS = st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers() | st.booleans(), max_size=3)
KINDS = ["operator", "row", "batch", "frame", "state"]
THREADS = st.sampled_from([None, "auto", 1, 1_024])
INSTANCES = st.none() | st.integers(1, 10_000)
COLUMNS = st.lists(NAMES, min_size=1, max_size=3, unique=True)


@st.composite
def on_its_way(draw, stream):
    """A stream as an edge can have it."""
    grouping = draw(st.sampled_from(["forward", "shuffle", "cost", "key", "duplicate"]))
    match grouping:
        case "shuffle":
            stream = stream.shuffle(draw(INSTANCES))
        case "cost":
            stream = stream.by_cost(*draw(COLUMNS), instances=draw(INSTANCES))
        case "key":
            stream = stream.by_key(*draw(COLUMNS), instances=draw(INSTANCES))
        case "duplicate":
            stream = stream.duplicate(draw(st.integers(1, 10_000)))
    if draw(st.booleans()):
        stream = stream.where(draw(NAMES))
    if draw(st.booleans()):
        stream = stream.selectivity(draw(st.floats(0.0, 1e300)))
    return stream.routed(draw(st.sampled_from(["duplicate", "shuffle", "key"])))


@st.composite
def flows(draw):
    """A source, operators of any kind behind it that fork and meet, and sinks for what is left."""
    names = iter(draw(st.lists(NAMES, min_size=8, max_size=8, unique=True)))
    flow = Flow(draw(NAMES), about=draw(st.text(max_size=20)))
    ends = {"format": draw(MAYBE), "path": draw(MAYBE), "options": draw(OPTIONS), "model": draw(MAYBE)}
    known = {"schema": draw(MAYBE), "function": draw(MAYBE), "arrival": draw(MAYBE)}
    streams = [flow.source(next(names), **known, **ends)]
    for _ in range(draw(st.integers(0, 4))):
        entering = draw(on_its_way(streams[0]))
        for other in streams[1 : draw(st.integers(1, 3))]:
            entering = entering.and_also(draw(on_its_way(other)))
        called, kind = {"name": next(names), "model": draw(MAYBE)}, draw(st.sampled_from(KINDS))
        if kind in ("frame", "state"):
            made = getattr(entering, kind)(draw(NAMES), **called)
        else:
            known = {"function": draw(NAMES), "schema": draw(MAYBE), "threads": draw(THREADS)}
            made = getattr(entering, kind)(**known, **called)
        streams.insert(0, made)
    for at, stream in enumerate(streams):
        if at == 0 or stream.edges[0].start not in {edge.start for edge in flow._edges}:
            leaving = draw(on_its_way(stream))
            leaving = leaving.routed("key", 1.0) if draw(st.booleans()) else leaving
            leaving.sink(next(names), exactly_once=draw(st.booleans()), **ends)
    return flow.dataflow()


@settings(max_examples=60)
@given(flow=flows())
def test_what_was_built_reads_back_from_its_yaml_and_what_was_read_can_be_built(flow):
    read = parse_dataflow(dataflow_yaml(flow))
    assert read == flow
    assert dataflow_yaml(read) == dataflow_yaml(flow)
    assert rebuilt(read) == read


def rebuilt(read):
    """Every field of every operator and edge has a call of the builder."""
    again = Flow(read.name, read.about)
    streams = {}
    for name in read.order:
        one, entering = read.by_name[name], None
        for edge in read.into[name]:
            stream = streams[edge.start]
            match edge.grouping:
                case "shuffle":
                    stream = stream.shuffle(edge.instances)
                case "cost":
                    stream = stream.by_cost(*edge.columns, instances=edge.instances)
                case "key":
                    stream = stream.by_key(*edge.columns, instances=edge.instances)
                case "duplicate":
                    stream = stream.duplicate(edge.instances)
            stream = stream.selectivity(edge.selectivity).routed(edge.routing, edge.share)
            stream = stream.where(edge.where) if edge.where else stream
            entering = stream if entering is None else entering.and_also(stream)
        end = {"format": one.format, "path": one.path, "options": one.options, "function": one.function, "model": one.model}
        made = {"name": name, "function": one.function, "model": one.model}
        match one.kind:
            case "source":
                streams[name] = again.source(name, schema=one.schema, arrival=one.arrival, **end)
            case "sink":
                entering.sink(name, exactly_once=one.exactly_once, **end)
            case "frame" | "state":
                streams[name] = getattr(entering, one.kind)(**made)
            case _:
                streams[name] = getattr(entering, one.kind)(**made, schema=one.schema, threads=one.threads)
    built = again.dataflow()
    in_order = {one.name: one for one in built.operators}, {(edge.start, edge.end): edge for edge in built.edges}
    operators = tuple(in_order[0][one.name] for one in read.operators)
    return replace(built, operators=operators, edges=tuple(in_order[1][edge.start, edge.end] for edge in read.edges))
