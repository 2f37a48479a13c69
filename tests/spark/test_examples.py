"""Every example in the help of a public name, in the README and in the guides runs on a real session.

Examples presuppose names (`df`, `fetch`, `visits`, …), which are made here; folders, hosts and numbers of instances are
replaced by small ones. Results are computed, queries run until they have read all rows, and whatever fails fails the test.

The blocks of a page run one after the other and share their names. What cannot run says so in front of it:
`<!-- not run: why -->`. Notebooks are run by test_tutorial.py and test_gallery.py, commands are held against the command
line by tests/unit/test_documented_commands.py.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import evenly
from documents import PAGES, blocks, called
from evenly.facts.emitting import Emitting
from evenly.planning.observed.peak import Peak
from evenly.spark.flows import unstable
from evenly.spark.flows.run import checked_flow
from evenly.spark.streaming.running_query import RunningQuery
from http_receiver import HttpReceiver
from line_receiver import LineReceiver

# Functions of "__main__" go to workers by their code, as those of a user's script do.
PRESUPPOSED = """
import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

import evenly
from evenly.keys.hot_keys import split_hot_keys

class Store:
    def put(self, identity, body):
        assert identity and body

def score(group):
    return pd.DataFrame({"user": group.user[:1], "score": [float(group.cents.sum())]})

def fetch(row):
    return len(row.host)

def match(left, right):
    return pd.DataFrame({"user": left.user[:1], "score": [float(len(right))]})

def work(batches):
    for batch in batches:
        yield pa.record_batch({"user": batch["user"], "score": pa.array([1.0] * batch.num_rows)})

def call_service(rows):
    return float(rows.cents.max())

def partial(rows):
    return float(rows.cents.sum())

def merge(partials):
    return pd.DataFrame({"score": [sum(partials)]})

def visits(placed):
    return placed.groupBy("user", "slot").count().writeStream.format("noop").outputMode("update")

def write(results, batch_id):
    results.write.format("noop").mode("overwrite").save()

class Sockets:
    def sendall(self, body):
        assert body

store, token, sink, socket, bodies = Store(), "secret", write, Sockets(), [b"one", b"two"]
"""
BY_COST = {"schema": "size long"}
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BY_KEY = {"schema": "user string, score double"}


@pytest.fixture(scope="module")
def frame(spark):
    user = F.concat(F.lit("user "), F.floor(F.sqrt(F.col("id"))))
    columns = {
        "user": user,
        "country": F.lit("NL"),
        "host": F.concat(F.lit("h"), F.col("id") % 3),
        "item": F.col("id") % 5,
        "cents": F.col("id"),
        "ts": F.timestamp_seconds("id"),
        "payload": F.lit("text"),
        "text": F.lit("some words"),
    }
    return spark.range(60, numPartitions=2).select(*(column.alias(name) for name, column in columns.items())).persist()


@pytest.fixture(scope="module")
def source(frame, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("stream") / "in")
    frame.coalesce(1).write.parquet(path)
    return path


@pytest.fixture(scope="module")
def placed(frame):
    return evenly.by_key(frame, key="user", instances=2)


@pytest.fixture
def run(spark, frame, placed, source, tmp_path, monkeypatch):
    """Run blocks of code, one after the other, with the names that they presuppose."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "facts.jsonl").touch()
    endings = []

    def ran(value):
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, DataFrame) and not one.isStreaming:
                one.write.format("noop").mode("overwrite").save()
            elif isinstance(one, Emitting):
                endings.append(one.close)
            elif isinstance(one, RunningQuery):
                endings.append(one.stop)
                one.processAllAvailable()
        return value

    def ended(query):
        query.processAllAvailable()
        query.stop()
        return query.awaitTermination()

    with LineReceiver() as lines, HttpReceiver() as posts:
        replaced = {
            r'"/(data|checkpoints)/': f'"{tmp_path}/data/',
            r'"collector", 9000': f'"127.0.0.1", {lines.port}',
            r"https://example\.org/rows": posts.url,
            r"instances=\d+": "instances=2",
            r"slots=\d+": "slots=2",
            r"port=\d+": "port=0",
            r"instances=\[.*?\]": "instances=[2, 3]",
            r'format\("console"\)': 'format("noop")',
        }
        names = {"__name__": "__main__", "spark": spark, "df": frame, "orders": frame, "users": frame, "tomorrow": frame}
        exec(PRESUPPOSED, names)
        names |= {"ran": ran, "ended": ended, "path": str(tmp_path / "out"), "letters": str(tmp_path / "letters")}
        names |= dict.fromkeys(["rows", "stream"], spark.readStream.schema(frame.schema).parquet(source))
        names |= {"placed": placed, "queries": []}

        def run_block(text, **more):
            for pattern, by in () if "evenly.lab" in text else replaced.items():  # simulated instances cost nothing
                text = re.sub(pattern, by, text)
            tree = ast.fix_missing_locations(_Computing().visit(ast.parse(text)))
            names.update(more)
            exec(compile(tree, "an example", "exec"), names)

        try:
            yield run_block
        finally:
            for end in endings:
                end()
            spark.conf.unset("spark.sql.streaming.stateStore.providerClass")  # what a page wants set


class _Computing(ast.NodeTransformer):
    """Hands every value that a statement makes to `ran`, and ends a query before it is waited for."""

    def visit_FunctionDef(self, node):
        return node

    def visit_Expr(self, node):
        node = self.generic_visit(node)
        node.value = _call("ran", node.value)
        return node

    def visit_Assign(self, node):
        return self.visit_Expr(node)

    def visit_Call(self, node):
        node = self.generic_visit(node)
        waits = isinstance(node.func, ast.Attribute) and node.func.attr == "awaitTermination"
        return _call("ended", node.func.value) if waits else node


def _call(name, argument):
    return ast.Call(ast.Name(name, ast.Load()), [argument], [])


def in_help(name):
    """The indented code of a docstring; what stands behind prompts is run elsewhere."""
    text = re.sub(r"(?m)^- .*(?:\n {2}.*)*", "", inspect.getdoc(getattr(evenly, name)) or "")
    return textwrap.dedent("".join(re.findall(r"(?:^ {4}.*\n?|^\n)+", text, re.MULTILINE)))


@pytest.mark.parametrize("name", [name for name in evenly.__all__ if in_help(name).strip()])
def test_the_example_in_its_help_runs(run, spark, frame, name, monkeypatch):
    text = in_help(name)
    if name == "find_peak":  # the search itself takes a minute: test_flow_replay.py has it

        def checked(flow, **how):
            inspect.signature(unstable.find_peak).bind(flow, **how)
            checked_flow(flow)
            return Peak(100.0, 110.0, ())

        monkeypatch.setattr(evenly, "find_peak", checked)
    more = BY_COST if "apply_by_cost" in text else BY_KEY
    if name == "failed_rows":
        skip = evenly.CallOptions(on_error="skip")
        more = {"result": evenly.apply_by_cost(frame, len, "size long", instances=2, call=skip)}
    if name == "diagnose_checkpoint":
        run(in_help("stream_by_key"))
    if name == "stream_apply_by_key":
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    if name == "await_any_termination":
        spark.readStream.format("rate").load().writeStream.format("noop").start().stop()
    run(text, **more)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=called)
def test_the_examples_of_a_page_run(run, spark, tmp_path, page):
    if any("stream_apply_by_key" in text for text in blocks(page, "python")):
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    for at, text in enumerate(blocks(page, "python")):
        more = BY_COST if "apply_by_cost" in text or "recommend_cost_key" in text else BY_KEY
        run(text, **more, path=str(tmp_path / f"out-{at}"), letters=str(tmp_path / f"letters-{at}"))
