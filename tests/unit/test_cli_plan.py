"""The commands `evenly plan` and `evenly paper model-driven`."""

from __future__ import annotations

import json

import pytest

import command
from evenly.dataflow.files import shipped_dataflow
from evenly.planning import plan, shipped_models
from evenly.report.plan_page import machines_svg
from page_texts import runs_nothing


def run(monkeypatch, capsys, *arguments):
    return command.run(monkeypatch, *arguments), *capsys.readouterr()


def test_a_plan_is_one_json_object_with_a_row_for_each_operator(monkeypatch, capsys):
    code, out, err = run(monkeypatch, capsys, "plan", "linear", "--rate", "100", "--json")
    printed = json.loads(out)
    assert (code, err, printed["command"]) == (0, "", "plan")
    rows = printed["results"]
    assert [row["operator"] for row in rows] == ["source", "blob", "table", "pi", "parse", "write", "sink", "total"]
    assert (rows[-1]["slots"], rows[-1]["machines"], rows[-1]["threads"]) == (7, 2, 335)
    assert {row["planned_rate"] for row in rows} == {100.0}
    assert rows[-1]["predicted_rate"] == pytest.approx(100.0)
    assert (rows[1]["threads"], rows[1]["slots"], rows[1]["basis"]) == (170, 4, "measured")
    assert sum(row["threads"] for row in rows[:-1]) == 335
    assert sum(row["share_pct"] for row in rows[:-1]) == pytest.approx(100.0, abs=1.0)


def test_every_pair_is_compared(monkeypatch, capsys):
    _, out, _ = run(monkeypatch, capsys, "plan", "linear", "--rate", "200", "--compare", "--json", "--routing", "shuffle")
    totals = [row for row in json.loads(out)["results"] if row["operator"] == "total"]
    assert {(row["allocation"], row["mapping"]): row["slots"] for row in totals} == {
        ("lsa", "dsm"): 25,
        ("lsa", "rsm"): 28,
        ("mba", "dsm"): 15,
        ("mba", "rsm"): 15,
        ("mba", "sam"): 15,
    }


def test_the_reverse_question_and_a_running_plan(monkeypatch, capsys):
    _, out, _ = run(monkeypatch, capsys, "plan", "linear", "--have", "D3=5", "--step", "10", "--json")
    assert json.loads(out)["results"][-1]["planned_rate"] == 280.0
    _, out, _ = run(monkeypatch, capsys, "plan", "linear", "--rate", "110", "--from-rate", "100", "--rehearse", "--json")
    total = json.loads(out)["results"][-1]
    assert total["moved_threads"] < total["moved_threads_afresh"]
    assert total["stable"]


def test_people_read_a_table_a_drawing_and_what_breaks_first(monkeypatch, capsys, tmp_path):
    page = tmp_path / "plan.html"
    code, out, _ = run(
        monkeypatch,
        capsys,
        "plan",
        "diamond",
        "--rate",
        "100",
        "--compare",
        "--rehearse",
        "--from-rate",
        "90",
        "--page",
        str(page),
    )
    assert code == 0
    shown = " ".join(out.split())
    for said in (
        "10 slots of 3 machines",
        "First to break: ",
        "With shuffle routing: 80 tuples/s",
        "table 60 | 54 % cpu",
        "lsa+rsm",
    ):
        assert said in shown
    text = page.read_text()
    assert runs_nothing(text)
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert text.count("slot ") >= 10


def test_the_spark_settings_are_printed_for_spark_defaults(monkeypatch, capsys):
    _, out, _ = run(monkeypatch, capsys, "plan", "linear", "--rate", "100", "--spark-conf", "--trigger", "5")
    assert "spark.executor.cores 4\n" in out
    assert "# maxOffsetsPerTrigger 550\n" in out


def test_ones_own_files_are_read(monkeypatch, capsys, tmp_path):
    (tmp_path / "flow.yaml").write_text(
        "dataflow: mine\noperators:\n  source: {kind: source}\n  work: {model: slow}\n  sink: {kind: sink}\n"
        "edges:\n  - [source, work]\n  - [work, sink]\n"
    )
    (tmp_path / "models.yaml").write_text(
        "models:\n  slow:\n    points:\n      - {threads: 1, rates: [9, 10, 11], cpu_pct: 80, mem_pct: 20}\n"
    )
    (tmp_path / "machines.yaml").write_text("machines:\n  box: {slots: 2, price_per_hour: 0.25}\n")
    monkeypatch.chdir(tmp_path)
    _, out, _ = run(
        monkeypatch,
        capsys,
        "plan",
        "flow.yaml",
        "--rate",
        "30",
        "--models",
        "models.yaml",
        "--machines",
        "machines.yaml",
        "--json",
    )
    total = json.loads(out)["results"][-1]
    assert (total["slots"], total["machine_sizes"], total["price_per_hour"]) == (4, "2 × box", 0.5)
    assert total["predicted_rate_low"] < 30.0 <= total["predicted_rate"] < total["predicted_rate_high"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["no-such.yaml", "--rate", "1"], "neither a file nor a shipped dataflow"),
        (["linear"], "give --rate for the machines that it needs, or --have"),
        (["linear", "--rate", "-1"], "above 0 tuples/s and finite, got -1"),
        (["linear", "--rate", "1", "--mapping", "x"], "there is no mapping 'x'"),
        (["linear", "--rate", "1", "--routing", "x"], "routing must be one of shuffle, slot-aware, got 'x'"),
        (["linear", "--rate", "1", "--page", "no/such/page.html"], "--page must name a file in a folder that exists"),
        (["linear", "--rate", "900", "--have", "D3=1"], "and the machines have 4"),
        (["examples", "--rate", "1"], "no performance model 'XmlParse'"),
        (["linear", "--have", "D3=5", "--from-rate", "9"], "--from-rate takes the machines that it needs"),
        (
            ["linear", "--rate", "9", "--from-rate", "5", "--allocation", "lsa", "--mapping", "dsm"],
            "allocate with mba, not lsa",
        ),
        (["linear", "--rate", "9", "--trigger", "inf"], "trigger_s must be above 0 and below a day"),
        (["linear", "--rate", "9", "--run", "1"], "evenly plan only plans: run the dataflow on Spark, by evenly run linear"),
    ],
)
def test_a_bad_option_gives_one_sentence(monkeypatch, capsys, options, said):
    code, out, err = run(monkeypatch, capsys, "plan", *options)
    assert (code, out) == (2, "")
    assert said in err.replace("\n", " ")


def test_what_nothing_limits_has_no_highest_rate_and_may_bring_no_tuple(monkeypatch, capsys, tmp_path):
    flow = tmp_path / "flow.yaml"
    flow.write_text(
        "dataflow: f\noperators: {a: {kind: source}, p: {model: pi}, z: {kind: sink}}\n"
        "edges:\n  - {from: a, to: p, selectivity: 0}\n  - [p, z]\n"
    )
    code, _, err = run(monkeypatch, capsys, "plan", flow, "--have", "D3=1")
    assert code == 2
    assert "f has no highest rate, because no tuple reaches an operator" in err.replace("\n", " ")
    _, out, _ = run(monkeypatch, capsys, "plan", flow, "--rate", "10", "--rehearse")
    assert "Predicted: any rate, for nothing in the dataflow has a limit" in out
    assert "Rehearsed at 10 tuples/s: stable, and no tuple reached a sink in the meantime" in out
    _, out, _ = run(monkeypatch, capsys, "plan", flow, "--rate", "10", "--rehearse", "--json")
    assert json.loads(out)["results"][-1]["observed_completion_ms_p99"] is None


def test_a_name_cannot_break_the_drawing():
    made = plan(shipped_dataflow("linear"), shipped_models(), 20.0)
    assert machines_svg(made).count("<rect") >= made.placement.slots
    assert "<title>" in machines_svg(made)
