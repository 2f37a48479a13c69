"""Operators in one worker: every row reaches every operator that it should, with and without threads."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.dataflow.reports import WorkerReport
from evenly.errors import FunctionFailed, InvalidResult
from evenly.worker.flowing import PIECE_ROWS, Graph, Node, flowing
from evenly.worker.results import Shape

pytest.importorskip("pyspark")
SHAPE = Shape(pa.schema([("v", pa.int64()), ("way", pa.string())]))
INPUT = pa.schema([("v", pa.int64()), ("way", pa.string())])


def times(name, most):
    """An operator that makes nothing, one or several rows of one."""

    def function(row):
        made = [{"v": row.v, "way": f"{row.way}/{name}{at}"} for at in range(row.v % most)]
        return made[0] if len(made) == 1 else iter(made) if len(made) > 1 else None

    return function


def marked(name):
    def function(batch):
        return pa.table({"way": [f"{way}/{name}" for way in batch["way"].to_pylist()], "v": batch["v"]})

    return function


def reference(graph, values):
    """What leaves each exit, by the obvious walk."""
    left = Counter()

    def walk(at, row):
        node = graph.nodes[at]
        if node.by_row:
            made = [(row[0], f"{row[1]}/{node.name}{copy}") for copy in range(row[0] % int(node.name[1:]))]
        else:
            made = [(row[0], f"{row[1]}/{node.name}")]
        for one in made:
            if node.exit is not None:
                left[(node.exit, *one)] += 1
            for after in node.after:
                walk(after, one)

    for value in values:
        for entry in graph.entries:
            walk(entry, (value, ""))
    return left


def ran(graph, values, rows_of_a_batch=7, reports=None):
    reports = [] if reports is None else reports
    parts = [values[at : at + rows_of_a_batch] for at in range(0, len(values), rows_of_a_batch)]
    batches = [pa.record_batch({"_0": pa.array(part, pa.int64()), "_1": [""] * len(part)}) for part in parts]
    left = Counter()
    exits = len(graph.exits)
    for made in flowing(graph)(iter(batches)):
        assert made.schema == graph.output()
        for row in made.to_pylist():
            if row["__evenly_report"] is not None:
                reports.append(WorkerReport.from_bytes(row["__evenly_report"]))
                continue
            place = 0 if exits == 1 else row["exit"]
            held = row if exits == 1 else row[f"e{place}"]
            left[(place, held["v"], held["way"])] += 1
    return left


@st.composite
def graphs(draw):
    """Operators that each read earlier ones or the input; those that nobody reads are exits, and some others too."""
    count = draw(st.integers(1, 5))
    after = [[] for _ in range(count)]
    entries = []
    for at in range(count):
        feeding = draw(st.lists(st.integers(-1, at - 1), min_size=1, max_size=2, unique=True))
        for one in feeding:
            (entries if one < 0 else after[one]).append(at)
    leaves = [at for at in range(count) if not after[at] or draw(st.booleans())]
    nodes = []
    for at in range(count):
        by_row = draw(st.booleans())
        name = f"r{draw(st.integers(1, 4))}" if by_row else f"b{at}"
        function = times(name, int(name[1:])) if by_row else marked(name)
        place = leaves.index(at) if at in leaves else None
        nodes.append(Node(name, function, SHAPE, by_row, draw(st.integers(1, 3)), tuple(after[at]), place))
    return Graph(tuple(nodes), tuple(entries), ("v", "way"))


@given(graphs(), st.lists(st.integers(0, 20), max_size=40))
def test_what_leaves_is_what_the_obvious_walk_gives(graph, values):
    reports = []
    found = ran(graph, values, reports=reports)
    assert found == reference(graph, values)
    (report,) = reports
    assert [one.operator for one in report.operators] == [node.name for node in graph.nodes]
    for node, counted in zip(graph.nodes, report.operators, strict=True):
        fed = [graph.nodes.index(one) for one in graph.nodes if graph.nodes.index(node) in one.after]
        entering = len(values) * (graph.nodes.index(node) in graph.entries) + sum(report.operators[at].rows_out for at in fed)
        assert counted.rows_in == entering
        if node.exit is not None:
            assert counted.rows_out == sum(count for (place, *_), count in found.items() if place == node.exit)


def chain(*functions, threads=1):
    count = len(functions)
    return Graph(
        tuple(
            Node(
                f"op{at}",
                function,
                SHAPE,
                by_row=True,
                threads=threads,
                after=(at + 1,) if at + 1 < count else (),
                exit=0 if at + 1 == count else None,
            )
            for at, function in enumerate(functions)
        ),
        (0,),
        ("v", "way"),
    )


@pytest.mark.parametrize("threads", [1, 4])
def test_a_row_that_fails_is_told_with_its_operator(threads):
    def fails(row):
        if row.v == 3:
            raise ValueError("three")
        return row

    with pytest.raises(FunctionFailed, match=r"the operator 'op1' raised ValueError: three; on \{\"v\": 3"):
        ran(chain(lambda row: row, fails, threads=threads), list(range(10)))
    with pytest.raises(FunctionFailed, match=r"the operator 'op0' raised SystemExit: 3; on \{\"v\": 0"):
        ran(chain(lambda _: sys.exit(3), threads=threads), [0])
    with pytest.raises(InvalidResult, match=r"the operator 'op0' returned 'text'.*on \{\"v\": 0"):
        ran(chain(lambda _: "text", threads=threads), [0])


def test_a_dict_that_a_function_fills_again_is_that_of_each_row():
    filled = {}

    def again(row):
        filled.update(v=row.v, way="")
        return filled

    def twice(row):
        for way in "ab":
            filled.update(v=row.v, way=way)
            yield filled

    assert ran(chain(again), [1, 2, 3]) == Counter({(0, v, ""): 1 for v in (1, 2, 3)})
    assert ran(chain(twice), [1, 2]) == Counter({(0, v, way): 1 for v in (1, 2) for way in "ab"})


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_inside_a_result_and_filled_again_is_that_of_each_row(threads):
    listed, struct, array, text = [], {}, np.zeros(1), bytearray(1)

    def again(row):
        listed[:], array[0], text[0] = [[row.v]], row.v, row.v
        struct.update(a=row.v, b=listed)
        return row.v, listed, struct, array, text

    kinds = {"l": pa.list_(pa.list_(pa.int64())), "a": pa.list_(pa.float64()), "t": pa.binary()}
    held = pa.struct([("a", pa.int64()), ("b", kinds["l"])])
    schema = pa.schema([("v", pa.int64()), ("l", kinds["l"]), ("s", held), ("a", kinds["a"]), ("t", kinds["t"])])
    node = Node("fills", again, Shape(schema), by_row=True, threads=1, exit=0)
    idle = Node("idle", lambda _: None, SHAPE, by_row=True, threads=threads)
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3])], names=["v"])
    batches = list(flowing(Graph((node, idle), (0, 1), ("v",)))(iter([batch])))
    found = [row for it in batches for row in it.to_pylist() if row["v"] is not None]
    assert [(row["l"], row["s"], row["a"], row["t"]) for row in found] == [
        ([[v]], {"a": v, "b": [[v]]}, [float(v)], bytes([v])) for v in (1, 2, 3)
    ]


def test_operators_work_at_the_same_time():
    """The first operator has not ended its batch when the last begins: else both would wait for each other for ever."""
    reached = threading.Event()

    def first(row):
        if row.v == 1_999:
            assert reached.wait(60)
        return row

    def last(row):
        reached.set()
        return row

    assert sum(ran(chain(first, last, threads=2), list(range(2_000)), 2_000).values()) == 2_000


def test_threads_of_one_operator_wait_together():
    together = threading.Barrier(3)

    def meets(row):
        together.wait(60)
        return row

    assert sum(ran(chain(meets, threads=3), list(range(9))).values()) == 9


def test_async_functions_and_classes_are_called():
    class Counting:
        closed = 0

        def __init__(self):
            self.calls = 0

        async def __call__(self, row):
            await asyncio.sleep(0)
            self.calls += 1
            return row.v, str(self.calls)

        def close(self):
            Counting.closed += 1

    found = ran(chain(Counting, threads=1), [5, 5, 5])
    assert found == Counter({(0, 5, "1"): 1, (0, 5, "2"): 1, (0, 5, "3"): 1})
    assert Counting.closed == 1


def test_an_async_row_that_fails_while_others_wait_is_told():
    async def fails(row):
        await asyncio.sleep(0.01 if row.v else 0.2)
        if row.v:
            raise ValueError("one")
        return row

    before = threading.active_count()
    with pytest.raises(FunctionFailed, match=r"the operator 'op0' raised ValueError: one; on \{\"v\": 1"):
        ran(chain(fails, threads=3), [0, 0, 1])
    while threading.active_count() > before:
        time.sleep(0.01)


def test_what_is_on_its_way_is_bounded():
    """No more is read from Spark than the operators can hold: the rest waits there."""
    done, outstanding = [], []

    def slow(row):
        time.sleep(0.0002)  # slower than rows are read: without a bound nearly all of them would wait
        done.append(row.v)
        return row

    def batches():
        for at in range(4_000):
            outstanding.append(at - len(done))
            yield pa.record_batch([pa.array([at]), pa.array([""])], schema=INPUT)

    assert sum(batch.num_rows for batch in flowing(chain(slow, threads=2))(batches())) == 4_000 + 1
    assert max(outstanding) <= PIECE_ROWS


@pytest.mark.parametrize("threads", [1, 2])
def test_inputs_of_one_operator_are_read_by_the_names_of_their_columns(threads):
    """Of two that have their columns in another order, and one of them spelt otherwise."""
    turned = Shape(pa.schema([("WAY", pa.string()), ("v", pa.int64())]))
    graph = Graph(
        (
            Node("one", lambda row: row, SHAPE, by_row=True, threads=threads, after=(2, 3)),
            Node("other", lambda row: (row.way + "/t", row.v), turned, by_row=True, after=(2, 3)),
            Node("rows", lambda row: (row.v, row.way), SHAPE, by_row=True, exit=0, reads=("v", "way")),
            Node("batches", lambda batch: batch, SHAPE, by_row=False, exit=1, reads=("v", "way")),
        ),
        (0, 1),
        ("v", "way"),
    )
    assert ran(graph, [7]) == Counter({(place, 7, way): 1 for place in (0, 1) for way in ("", "/t")})


def test_what_cannot_be_made_or_closed_is_told_with_its_operator_unless_a_row_failed_before():
    closed = []

    class Ill:
        def __call__(self, row):
            if row.v < 0:
                raise KeyError("call")
            return row

        def close(self):
            closed.append(True)
            raise ValueError("close")

    class Unmade:
        def __init__(self):
            raise OSError("init")

    with pytest.raises(FunctionFailed, match="the operator 'op1' could not be closed: ValueError: close"):
        ran(chain(Ill, Ill), [1])
    assert len(closed) == 2
    with pytest.raises(FunctionFailed, match="the operator 'op0' raised KeyError: 'call'"):
        ran(chain(Ill, Ill), [-1])
    with pytest.raises(FunctionFailed, match="the operator 'op1' could not be made: OSError: init"):
        ran(chain(Ill, Unmade), [1])
    assert len(closed) == 5
