"""`evenly plan --on spark`, and what `evenly profile` refuses before Spark starts."""

from __future__ import annotations

import pytest

import documented_json
from command import told
from evenly.planning.micro_batches import CurvePoint, EngineCosts, SlotCurve, SparkModels
from evenly.planning.model_files import models_yaml, read_spark_models
from evenly.planning.models import PerformanceModel, Point

FLOW = """
dataflow: words
operators:
  lines: {kind: source, format: parquet, path: in}
  split: {kind: row, function: "words:split", schema: "word string"}
  look: {kind: row, function: "words:look", schema: "word string", threads: auto}
  count: {kind: frame, function: "words:count"}
  kept: {kind: sink, format: parquet, path: out}
edges:
  - {from: lines, to: split, grouping: shuffle}
  - {from: split, to: look, grouping: shuffle, selectivity: 3}
  - [look, count]
  - [count, kept]
"""
MODELS = SparkModels(
    EngineCosts(2, 0.9, 0.3, 0.05, 0.1, 0.2, 0.01, 1e-6, 1e-6),
    {
        "split": SlotCurve("split", (CurvePoint(1, 5_000.0, 2e-4), CurvePoint(2, 4_900.0, 2e-4)), 2, 0.01, 80.0),
        "look": SlotCurve("look", (CurvePoint(1, 190.0, 1e-5), CurvePoint(8, 1_400.0, 1e-5)), 2, 0.02, 90.0),
    },
)


@pytest.fixture
def paths(tmp_path):
    flow, models = tmp_path / "words.yaml", tmp_path / "models.yaml"
    flow.write_text(FLOW.lstrip())
    models.write_text(models_yaml([], MODELS))
    return flow, "--on", "spark", "--models", models


def test_a_plan_for_spark_is_read_by_people(monkeypatch, capsys, paths):
    code, printed, beside = told(monkeypatch, capsys, "plan", *paths, "--rate", "500", "--slots", "4")
    assert code == 0
    assert max(map(len, printed.splitlines()[1:12])) <= 80
    assert "words at 500 rows/s on Spark: 4 task slots (1 executor of 4 cores and 2.8 GiB), a batch of about 1,000" in printed
    assert "look ×8 + count + kept" in printed
    assert "First to break: look" in printed
    assert "With one thread per task (LSA)" in printed
    assert "Not measured, and counted as nothing: count (evenly profile FLOW --on spark measures it)" in printed
    assert "Measured with 2 slots" in beside


def test_large_rates_are_written_as_people_write_them(monkeypatch, capsys, paths):
    _, printed, _ = told(monkeypatch, capsys, "plan", *paths, "--rate", "123456", "--trigger", "600")
    assert "words at 123,500 rows/s" in printed
    assert "e+0" not in printed


def test_a_plan_for_spark_is_one_json_object(monkeypatch, capsys, paths):
    code, printed, _ = told(monkeypatch, capsys, "plan", *paths, "--rate", "500", "--spark-conf", "--json")
    found = documented_json.check(printed)
    assert code == 0
    rows = {(row["operator"], row.get("allocation")): row for row in found["results"]}
    total, lsa = rows["total", "mba"], rows["total", "lsa"]
    assert (total["planned_rate"], total["holds"], total["binding"], total["trigger_s"]) == (500.0, True, "look", 10.0)
    assert total["predicted_rate"] >= 550.0 > lsa["predicted_rate"]
    assert total["rows_per_batch"] == 5_000.0
    assert rows["look", "mba"]["threads"] == 8
    assert rows["look", "mba"]["rate"] == 1_500.0
    assert rows["look", "mba"]["stage"] == rows["kept", "mba"]["stage"] == 2
    bases = {name: row["basis"] for (name, allocation), row in rows.items() if allocation == "mba" and name != "total"}
    assert bases == {"lines": "static", "split": "measured", "look": "measured", "count": "not measured", "kept": "static"}
    assert rows["spark", None]["spark.sql.shuffle.partitions"] == str(total["slots"])


def test_without_a_rate_it_is_the_highest(monkeypatch, capsys, paths):
    _, printed, _ = told(monkeypatch, capsys, "plan", *paths, "--slots", "2", "--trigger", "20", "--json")
    total = documented_json.check(printed)["results"][-2]
    assert total["planned_rate"] == total["predicted_rate"]
    assert total["batch_s"] == pytest.approx(20.0)


def test_where_nothing_is_known_to_take_longer_with_more_rows_there_is_no_highest_rate(monkeypatch, capsys, tmp_path, paths):
    flow = tmp_path / "frames.yaml"
    flow.write_text(
        "dataflow: frames\noperators:\n  lines: {kind: source, format: parquet, path: in}\n"
        '  count: {kind: frame, function: "words:count"}\n  kept: {kind: sink, format: parquet, path: out}\n'
        "edges:\n  - [lines, count]\n  - [count, kept]\n"
    )
    _, printed, _ = told(monkeypatch, capsys, "plan", flow, *paths[1:], "--rate", "500")
    assert "Highest rate: not known, for nothing was measured that takes longer with more rows" in " ".join(printed.split())
    assert "Not measured, and counted as nothing: count" in printed
    _, printed, _ = told(monkeypatch, capsys, "plan", flow, *paths[1:], "--rate", "500", "--spark-conf", "--json")
    total, *_, settings = documented_json.check(printed)["results"][-3:]
    assert (total["predicted_rate"], "maxOffsetsPerTrigger" in settings) == (None, False)
    code, _, beside = told(monkeypatch, capsys, "plan", flow, *paths[1:])
    assert code == 2
    assert "frames has no highest rate that is known" in beside


def test_settings_for_spark_are_printed_alone(monkeypatch, capsys, paths):
    _, printed, _ = told(
        monkeypatch, capsys, "plan", *paths, "--rate", "500", "--slots", "4", "--trigger", "10", "--spark-conf"
    )
    lines = printed.splitlines()
    assert "spark.sql.shuffle.partitions 4" in lines
    assert lines[-1] == "# trigger 10 seconds"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--on", "storm"), "--on must be spark, got 'storm'"),
        (("--slots", "4"), "--slots is of a plan for Spark: give --on spark too"),
        (("--on", "spark", "--here", "--compare"), "--here, --compare: of a plan for machines"),
        (("--on", "spark", "--rate", "1"), "do not have what Spark itself needs: evenly profile --engine"),
    ],
)
def test_what_does_not_go_together_is_refused(monkeypatch, capsys, paths, options, said):
    code, printed, beside = told(monkeypatch, capsys, "plan", paths[0], *options)
    assert (code, printed) == (2, "")
    assert said in beside


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "name what to measure: MODULE:FUNCTION, FLOW.yaml with --on spark, or --engine"),
        (("--on", "spark"), "name what to measure"),
        (("x:y", "--engine"), "--engine measures Spark itself"),
        (("x:y", "--on", "storm"), "--on must be spark"),
        (("--engine", "--conf", "x"), "--conf must be name=value"),
        (("--engine", "--rows", "0"), "a sample has 1 to 1,000,000 rows"),
    ],
)
def test_profile_says_what_is_wrong_before_spark_starts(monkeypatch, capsys, tmp_path, options, said):
    code, printed, beside = told(monkeypatch, capsys, "profile", *options, "--out", tmp_path / "models.yaml")
    assert (code, printed) == (2, "")
    assert said in beside
    assert not (tmp_path / "models.yaml").exists()


def test_profiling_for_the_paper_keeps_what_was_measured_on_spark(monkeypatch, capsys, paths):
    monkeypatch.setattr("evenly.cli.profile._measure", lambda *_: PerformanceModel("Pi", (Point(1, 100.0, 90.0, 2.0),)))
    code, _, _ = told(monkeypatch, capsys, "profile", "evenly.planning.examples:Pi", "--out", paths[-1])
    assert code == 0
    assert read_spark_models(paths[-1]) == MODELS
