"""`evenly run`, before Spark starts; what it runs is in tests/spark/test_flows.py."""

from __future__ import annotations

import pytest

from command import told

FLOW = """
dataflow: words
operators:
  lines: {kind: source, format: parquet, path: in}
  split: {kind: row, function: "words:split", schema: "word string"}
  count: {kind: frame, function: "words:count"}
  kept: {kind: sink, format: parquet, path: out}
  also: {kind: sink, format: console}
edges:
  - {from: lines, to: split, grouping: shuffle, instances: 4, where: "id > 1"}
  - {from: split, to: count, grouping: key, columns: word}
  - [count, kept]
  - [count, also]
"""


@pytest.fixture
def flow(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW.lstrip())
    return path


def test_it_says_what_a_dataflow_becomes(monkeypatch, capsys, flow):
    code, printed, _ = told(monkeypatch, capsys, "run", flow, "--show")
    assert code == 0
    said = " ".join(printed.split())
    for line in (
        "split: one Python worker for each partition (split with auto threads (as planned, else 1)); computed",
        "lines -> split: shuffle: repartition(4), the rows where id > 1 count: Spark itself; computed once for all",
        "split -> count: key: by_key: placed by word on spark.sql.shuffle.partitions instances, by a mapping learnt in each",
        "kept: sink, parquet, every row once: a folder for each batch of a stream",
        "count -> kept: forward: no shuffle: rows stay in their partitions",
    ):
        assert line in said


def test_it_writes_a_script_that_says_how_to_call_it(monkeypatch, capsys, flow):
    monkeypatch.chdir(flow.parent)
    (flow.parent / "words.py").write_text("")
    code, _, beside = told(monkeypatch, capsys, "run", flow, "--checkpoint", "c'", "--until-read", "--submit", "job.py")
    assert code == 0
    assert "spark-submit --py-files words.py job.py" in " ".join(beside.split())
    script = (flow.parent / "job.py").read_text()
    compile(script, "job.py", "exec")
    assert """checkpoint="c'",\n        trigger={'availableNow': True},\n""" in script


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give --checkpoint FOLDER to run a streaming query, or --batch"),
        (("--batch", "--checkpoint", "x"), "give --checkpoint FOLDER"),
        (("--batch", "--until-read"), "--until-read is for a streaming query: leave --batch out"),
        (("--checkpoint", "x", "--until-read", "--trigger", "1"), "leave --trigger out"),
        (("--checkpoint", "x", "--trigger", "0"), "--trigger must be seconds, above 0"),
        (("--batch", "--conf", "spark.x"), "--conf must be name=value"),
        (("--batch", "--exactly-once"), "the sink 'also' is to hold every row exactly once"),
        (("--batch", "--submit", "job"), "--submit must name a file that ends in .py"),
        (("--batch", "--submit", "no/such/job.py"), "--submit must name a file in a folder that exists"),
        (("--batch", "--submit", "job.py", "--master", "local"), "are those of spark-submit: give them there"),
    ],
)
def test_options_that_do_not_go_together_are_one_error(monkeypatch, capsys, flow, options, said):
    code, _, beside = told(monkeypatch, capsys, "run", flow, *options)
    assert code == 2
    assert said in beside


def test_a_description_that_is_wrong_is_one_error_with_its_line(monkeypatch, capsys, flow):
    flow.write_text(FLOW.lstrip().replace("columns: word", ""))
    code, _, beside = told(monkeypatch, capsys, "run", flow, "--batch")
    assert code == 2
    assert "flow.yaml, line 10: the edge split -> count is grouped by key: name its `columns`" in beside


def test_a_function_that_is_not_there_and_a_sink_that_cannot_hold_rows_once_are_told_before_spark_starts(
    monkeypatch, capsys, flow
):
    code, _, beside = told(monkeypatch, capsys, "run", flow, "--batch")
    assert code == 2
    assert "line 4: the function of 'split': words:split cannot be loaded" in beside
    flow.write_text(FLOW.lstrip().replace("format: parquet, path: out", "format: console"))
    code, _, beside = told(monkeypatch, capsys, "run", flow, "--batch", "--exactly-once")
    assert code == 2
    assert "line 6: the sink 'kept' is to hold every row exactly once, and console cannot" in beside
