"""Tables and picture of the documents are those of docs/figures, and a benchmark's output becomes a figure."""

from __future__ import annotations

import importlib
import json
import re
import sys
from xml.etree import ElementTree as ET

import pytest

from documents import PAGES, ROOT, called

MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


@pytest.fixture(scope="module")
def figures():
    """The modules of scripts/figures."""
    folder = str(ROOT / "scripts" / "figures")
    sys.path.insert(0, folder)
    try:
        yield {name: importlib.import_module(name) for name in ("write", "taking", "tables", "picture", "choosing")}
    finally:
        sys.path.remove(folder)
        for name in ("write", "taking", "tables", "picture", "choosing"):
            del sys.modules[name]


@pytest.mark.parametrize("page", [page for page in PAGES if "<!-- figure " in page.read_text("utf-8")], ids=called)
def test_tables_of_a_page_are_those_of_the_figures(figures, page):
    text = page.read_text("utf-8")
    assert text == figures["write"].filled(text, figures["write"].measured()), "run: make figures"


def test_every_figure_is_shown_somewhere_and_says_how_it_was_made(figures):
    text = "".join(page.read_text("utf-8") for page in PAGES)
    for name in (*figures["tables"].TABLES, *figures["tables"].SHORT, "results", "which"):
        assert f"<!-- figure {name} -->" in text
    for name in figures["tables"].TABLES:
        kept = json.loads((ROOT / "docs" / "figures" / f"{name}.json").read_text("utf-8"))
        command = re.match(r"python (benchmarks/\w+\.py|-m faults)|evenly [a-z]+", kept["made_by"])
        assert (command[1] or command[0]) in MAKEFILE, "no target runs it"
        assert kept["measured"]
        assert kept["results"]


def test_the_picture_is_that_of_the_demo(figures):
    write = figures["write"]
    text = write.PICTURE.read_text("utf-8")
    assert text == figures["picture"].picture(write.measured()["demo"]), "run: make figures"
    bars = [one for one in ET.fromstring(text) if one.tag.endswith("rect") and one.get("class") != "ground"]
    assert len(bars) == 16


def test_what_a_benchmark_prints_becomes_its_figure(figures, tmp_path):
    before = ROOT / "docs" / "figures" / "flows.json"
    (tmp_path / "flows.json").write_bytes(before.read_bytes())
    case = {"series": "case", "x": "linear-2", "slots": 2, "predicted_rate": 10.0, "observed_rate": 11.0, "ratio": 1.1}
    told = {"command": "flow_peaks", "version": "0", "parameters": {}, "results": [case | {"batch_off_pct": -4.0}]}
    (tmp_path / "printed.json").write_text(json.dumps(told))
    path = figures["taking"].take(tmp_path / "printed.json", tmp_path, "a machine")
    kept = json.loads(path.read_text("utf-8"))
    assert kept["results"] == told["results"]
    assert kept["made_by"] == json.loads(before.read_text("utf-8"))["made_by"]
    assert "| linear, 2 slots | 10 | 11 | 1.10 | 4 % | | |" in figures["tables"].flows(kept["results"])


def test_rounds_of_jobs_become_ratios(figures, tmp_path):
    (tmp_path / "cost.json").write_bytes((ROOT / "docs" / "figures" / "cost.json").read_bytes())
    cell = {"figure": "jobs", "stream": "reach", "rows": 500, "width": "narrow", "instances": 8, "promised": 0.2}
    rounds = [
        cell | {"round": at, "series": way, "seconds": seconds, "completion_ms_mean": 1e3 * seconds}
        for at in range(5)
        for way, seconds in (("repartition(k)", 10.0), ("learnt", 8.0))
    ]
    (tmp_path / "printed.json").write_text(json.dumps({"command": "cost_stage", "parameters": {}, "results": rounds}))
    (one,) = json.loads(figures["taking"].take(tmp_path / "printed.json", tmp_path, "a machine").read_text("utf-8"))["results"]
    assert (one["ratio"], one["speedup_mean"], one["promised_pct"]) == (0.8, 1.25, 20.0)


def test_rounds_of_all_ways_replace_their_cells_and_leave_the_others(figures, tmp_path):
    (tmp_path / "ways.json").write_bytes((ROOT / "docs" / "figures" / "ways.json").read_bytes())
    before = json.loads((tmp_path / "ways.json").read_text("utf-8"))["results"]
    cell = {"figure": "jobs", "stream": "reach", "rows": 500, "width": "narrow", "instances": 8, "completion_ms_mean": 1.0}
    wanted_s = {"32 partitions": 9.0, "128 partitions": 8.0, "first run": 7.0, "learnt": 6.0}
    rounds = [
        cell | {"round": at, "series": way, "seconds": seconds}
        for at in range(3)
        for way, seconds in {"repartition(k)": 10.0, **wanted_s}.items()
    ]
    (tmp_path / "printed.json").write_text(json.dumps({"command": "cost_stage", "parameters": {}, "results": rounds}))
    kept = json.loads(figures["taking"].take(tmp_path / "printed.json", tmp_path, "a machine").read_text("utf-8"))["results"]
    assert len(kept) == len(before)
    there = [one for one in kept if (one["stream"], one["rows"], one["width"]) == ("reach", 500, "narrow")]
    assert {one["series"]: 10.0 * one["ratio"] for one in there} == wanted_s
    assert all(one in before for one in kept if one not in there)


def test_results_of_no_figure_are_refused(figures, tmp_path):
    (tmp_path / "printed.json").write_text('{"command": "micro", "results": []}')
    with pytest.raises(SystemExit, match="micro"):
        figures["taking"].take(tmp_path / "printed.json", tmp_path, "a machine")


def test_outcomes_of_a_campaign_become_a_table_of_operations_and_faults(figures, tmp_path):
    (tmp_path / "faults.json").write_text('{"made_by": "python -m faults --out"}')
    came = {"faults": ["executor", "disk"], "seconds": 1.0}
    outcomes = {
        "10": came | {"operation": "join", "verdict": "right", "happened": ["executor", "disk"]},
        "9": came | {"operation": "join", "verdict": "refused", "happened": ["executor"]},
        "2": came | {"operation": "cost", "verdict": "hangs", "happened": [], "why": "…"},
    }
    (tmp_path / "printed.json").write_text(json.dumps(outcomes))
    kept = json.loads(figures["taking"].take(tmp_path / "printed.json", tmp_path, "a machine").read_text("utf-8"))
    assert (kept["made_by"], kept["parameters"]) == ("python -m faults --out", {"schedules": 3})
    assert [one["seed"] for one in kept["results"]] == [2, 9, 10]
    lines = figures["tables"].faults(kept["results"]).splitlines()
    heading, cost, join = ([cell.strip() for cell in line.split("|")[1:-1]] for line in (lines[0], *lines[2:]))
    of_cost = {"operation": "`cost`", "wrong": "1", "none": "1"}
    of_join = {"operation": "`join`", "right": "1", "refused": "1", "executor": "2", "disk": "1"}
    for told, wanted in ((cost, of_cost), (join, of_join)):
        assert dict(zip(heading, told, strict=True)) == dict.fromkeys(heading, "") | wanted
