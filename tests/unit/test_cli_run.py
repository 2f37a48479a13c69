"""`evenly run`, before Spark starts; what it runs is in tests/spark/test_flows.py."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import documented_json
from command import told
from evenly.cli.output import print_json
from evenly.cli.run_output import batch_line, print_run, run_results
from evenly.dataflow.reports import Counted, WorkerReport, by_instance
from evenly.dataflow.tuning import Tuning
from evenly.planning.observed.peak import Peak, Trial
from evenly.planning.observed.replanning import Replanner
from evenly.planning.observed.verdict import verdict
from evenly.report.run_page import run_page
from flow_batches import FLOW as FLOW_OF_BATCHES
from flow_batches import PLAN, batch, measured
from page_texts import runs_nothing

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
        "split -> count: key: by_key: placed by word on spark.sql.shuffle.partitions instances, by a mapping learnt now and",
        "kept: sink, parquet, every row once: a folder for each batch of a stream",
        "count -> kept: forward: no shuffle: rows stay in their partitions",
    ):
        assert line in said


def test_what_a_dataflow_becomes_is_one_object_too(monkeypatch, capsys, flow):
    code, printed, _ = told(monkeypatch, capsys, "run", flow, "--show", "--json")
    assert code == 0
    found = {(it["series"], it["operator"]): it["becomes"] for it in json.loads(printed)["results"]}
    assert found["edge", "lines -> split"] == "shuffle: repartition(4), the rows where id > 1"
    assert found["stage", "also"] == "sink, console, at least once"


def test_it_writes_a_script_that_says_how_to_call_it(monkeypatch, capsys, flow):
    monkeypatch.chdir(flow.parent)
    flow.write_text(FLOW.lstrip().replace("words:", "scripted:"))
    (flow.parent / "scripted.py").write_text("def split(row):\n    return row\n\n\ncount = split\n")
    code, _, beside = told(monkeypatch, capsys, "run", flow, "--checkpoint", "c'", "--until-read", "--submit", "job.py")
    assert code == 0
    assert "spark-submit --py-files scripted.py job.py" in " ".join(beside.split())
    script = (flow.parent / "job.py").read_text()
    compile(script, "job.py", "exec")
    assert """checkpoint="c'",\n        trigger={'availableNow': True},\n""" in script
    code, printed, _ = told(monkeypatch, capsys, "run", flow, "--batch", "--submit", "job.py", "--json")
    assert (code, json.loads(printed)["results"][0]["series"]) == (0, "script")
    assert json.loads(printed)["results"][0]["becomes"] == "spark-submit --py-files scripted.py job.py"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give --checkpoint FOLDER to run a streaming query, or --batch"),
        (("--batch", "--checkpoint", "x"), "give --checkpoint FOLDER"),
        (("--batch", "--until-read"), "--until-read is for a streaming query: leave --batch out"),
        (("--checkpoint", "x", "--until-read", "--trigger", "1"), "leave --trigger out"),
        (("--checkpoint", "x", "--trigger", "0"), "--trigger must be seconds, from 0.001"),
        (("--batch", "--conf", "spark.x"), "--conf must be name=value"),
        (("--batch", "--master", "nosuch"), "--master must be local, local[8], yarn, or an address"),
        (("--batch", "--conf", "spark.master=local[2"), "--master must be local"),
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--checkpoint", "x", "--plan"), "--plan and --models FILE go together"),
        (("--checkpoint", "x", "--replan"), "--replan compares with a plan"),
        (("--batch", "--until-unstable", "--seconds", "3"), "--until-unstable and --seconds are for a streaming query"),
        (("--checkpoint", "x", "--until-read", "--until-unstable"), "leave --until-read out"),
        (("--checkpoint", "x", "--seconds", "0"), "--seconds must be above 0"),
        (("--checkpoint", "x", "--until-unstable", "--seconds", "5"), "leave --seconds and --replan out"),
        (("--checkpoint", "x", "--seconds", "5", "--submit", "job.py"), "runs the dataflow alone: leave --seconds out"),
        (("--checkpoint", "x", "--rate", "5"), "--rate is of a source of `format: replay`"),
        (("--checkpoint", "x", "--slots", "0"), "--slots must be at least 1"),
        (("--batch", "--page", "no/folder/page.html"), "--page must name a file"),
    ],
)
def test_options_of_plans_and_rates_that_do_not_go_together(monkeypatch, capsys, flow, options, said):
    code, _, beside = told(monkeypatch, capsys, "run", flow, *options)
    assert code == 2
    assert said in beside


def test_a_replay_that_cannot_be_meant_is_one_error_with_its_line(monkeypatch, capsys, flow):
    flow.write_text(FLOW.lstrip().replace("format: parquet, path: in", "format: replay, path: in, options: {rate: fast}"))
    code, _, beside = told(monkeypatch, capsys, "run", flow, "--checkpoint", "x")
    assert code == 2
    assert "flow.yaml, line 3: the source 'lines': the option `rate` of a replay must be rows per second" in beside


def run_of(held):
    """Batches, a verdict, changes and a peak, made up."""
    took_s = 0.8 if held else 1.6
    batches = [
        batch(at, 1_000, took_s, measured("waits", 1_000, 0.3), measured("works", 1_000, 1.2), completion_s=1.5)
        for at in range(8)
    ]
    machine = Replanner(FLOW_OF_BATCHES, PLAN, Tuning(dict(PLAN.threads)), patience=3)
    changes = [event for at, it in enumerate(batches * 2) for event in machine.observe(replace(it, began_s=1_000.0 + at))]
    judged = verdict(batches, PLAN, trigger_s=1.0)
    return batches, judged, changes, Peak(900.0, 1_100.0, (Trial(900.0, judged), Trial(1_100.0, judged)))


@pytest.mark.parametrize("held", [True, False])
def test_every_field_of_a_run_is_documented(capsys, held):
    batches, judged, changes, peak = run_of(held)
    assert changes or held
    instances = by_instance([WorkerReport(3, 0.0, 2.0, 1.0, 2**20, (Counted("waits", 5, 5, 1.0),))])
    print_json("run", {}, run_results(batches, judged, changes, peak, instances))
    found = documented_json.check(capsys.readouterr().out)["results"]
    by = {one["series"]: one for one in found}
    assert by.keys() >= {"operator", "batch", "instance", "trial", "peak", "compared", "verdict"}
    assert held or by["change"]["change"] in ("threads", "instances", "slots")
    assert by["verdict"]["held"] is held
    assert by["verdict"]["operator"] == ("" if held else "works")
    assert by["instance"] | {"x": 3, "rate": 2.5, "cpu_pct": 50.0, "peak_mib": 1.0} == by["instance"]


def test_a_run_is_told_to_people(capsys):
    batches, judged, changes, peak = run_of(held=False)
    print_run(batches, judged, changes, None)
    printed = " ".join(capsys.readouterr().out.split())
    assert "Verdict: did not hold: works broke first at 1,000 rows/s: batches take 1.6 s" in printed
    assert "a batch predicted to take" in printed
    assert "Complete after 1.5 s on average" in printed
    print_run(batches, judged, changes, peak)
    assert "Highest rate that held: 900 rows/s; the lowest that did not: 1,100" in capsys.readouterr().out
    assert batch_line(batches[0], PLAN).startswith("batch 0: 1,000 rows in 1.6 s (predicted ")
    assert "complete after 1.5 s on average: waits 0.3 s, works 1.2 s" in batch_line(batches[0], PLAN)


def test_the_page_of_a_run_says_the_verdict_and_escapes_names():
    batches, judged, changes, peak = run_of(held=False)
    page = run_page("<b>flow</b>", batches, judged, changes, None, numbers=[{"name": "</script>"}])
    assert "&lt;b&gt;flow&lt;/b&gt;" in page
    assert "did not hold: works broke first" in page
    assert page.count('class="late"') == len(batches)
    assert str(changes[0]).partition(",")[0] in page
    assert runs_nothing(page)
    assert "Rates that were tried" in run_page("flow", batches, judged, (), peak, numbers=[])
    assert "Planned, predicted" not in run_page("flow", [], None, (), None, numbers=[])


def test_the_page_of_a_run_without_a_plan_shows_only_what_was_observed():
    batches = [batch(at, 1_000, 0.8, measured("works", 1_000, 0.6)) for at in range(8)]
    page = run_page("flow", batches, verdict(batches, trigger_s=1.0), (), None, numbers=[])
    assert ">Observed<" in page
    assert "seconds of a batch" in page
    assert [word for word in ("planned", "predicted", "first to break", "completion") if word in page.lower()] == []
