"""`evenly run` as a user starts it: in the folder of its file and functions."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

import documented_json

pytest.importorskip("pyspark")

FLOW = """
dataflow: words
operators:
  lines: {kind: source, format: csv, path: in, schema: "id long, text string"}
  split: {kind: row, function: "words:split", schema: "id long, word string"}
  kept: {kind: sink, format: parquet, path: out}
edges:
  - {from: lines, to: split, grouping: shuffle, instances: 2}
  - [split, kept]
"""


def test_a_query_with_functions_beside_its_file(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines.csv").write_text("1,a b c\n2,d e\n")
    (tmp_path / "words.py").write_text("def split(row):\n    return [(row.id, word) for word in row.text.split()]\n")
    (tmp_path / "flow.yaml").write_text(FLOW)
    ran = subprocess.run(
        [sys.executable, "-m", "evenly", "run", "flow.yaml", "--checkpoint", "kept", "--until-read", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    documented_json.check(ran.stdout)
    (told,) = (row for row in json.loads(ran.stdout)["results"] if row["series"] == "operator")
    assert (told["operator"], told["batch"], told["rows_in"], told["rows_out"]) == ("split", 0, 2, 5)
    found = pq.read_table(tmp_path / "out").select(["id", "word"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [(1, "a"), (1, "b"), (1, "c"), (2, "d"), (2, "e")]
