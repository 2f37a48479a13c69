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
edges:
  - {from: lines, to: split, grouping: shuffle, instances: 4, where: "id > 1"}
  - {from: split, to: count, grouping: key, columns: word}
  - [count, kept]
"""


@pytest.fixture
def flow(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW.lstrip())
    return path


def test_it_says_what_a_dataflow_becomes(monkeypatch, capsys, flow):
    code, printed, _ = told(monkeypatch, capsys, "run", flow, "--show")
    assert code == 0
    assert printed.splitlines() == [
        "lines: read",
        "split: one Python worker, from lines (shuffle on 4 instances where id > 1)",
        "count: Spark, from split (key by word)",
        "kept: written, from count (forward)",
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give --checkpoint FOLDER to run a streaming query, or --batch"),
        (("--batch", "--checkpoint", "x"), "give --checkpoint FOLDER"),
        (("--batch", "--until-read"), "--until-read is for a streaming query: leave --batch out"),
        (("--checkpoint", "x", "--until-read", "--trigger", "1"), "leave --trigger out"),
        (("--checkpoint", "x", "--trigger", "0"), "--trigger must be seconds, above 0"),
        (("--batch", "--conf", "spark.x"), "--conf must be name=value"),
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
    assert "flow.yaml, line 9: the edge split -> count is grouped by key: name its `columns`" in beside
