"""One table of verdicts over papers: what is counted, and what the command writes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import documented_json
from command import run
from evenly.cli import paper_all
from evenly.lab.papers.verdicts import Basis, not_rerun, number, sentence
from evenly.report.figures import PaperFigure
from evenly.report.tally import Tally
from evenly.report.verdict_table import PaperVerdicts, markdown, tally_lines, verdict_page
from page_texts import runs_nothing

FOUND = [
    number("a", 1, published=2.0, measured=2.1, within_pct=20.0, neutral=1.0),
    number("a", 2, published=2.0, measured=1.0, within_pct=20.0, neutral=1.0, why="it | does nothing"),
    sentence("b", published="p", measured="m", holds=True, why="w", unsure=True),
    not_rerun("c", published="on a cluster", why="there is none"),
    sentence("d", published="p", measured="m", holds=True, why="w", basis=Basis.INPUT),
    sentence("evenly", published="p", measured="m", holds=True, why="w", basis=Basis.OURS),
]
PAPER = PaperVerdicts("x", "On <x>", "evenly paper x", [PaperFigure("2", "t", verdicts=[one.row() for one in FOUND])])


def test_what_was_put_in_does_not_count_and_ours_is_not_stated():
    assert PAPER.tally == Tally(stated=5, independent=4, reproduced=1, not_reproduced=1, undecided=1, not_rerun=1)
    headings, one, every = tally_lines([PAPER])
    assert dict(zip(headings, one, strict=True))["not rerun"] == "1"
    assert every == ("all", "5", "4", "1", "1", "1", "1")


def test_markdown_names_its_command_and_says_why_not():
    text = markdown([PAPER], "evenly paper all --paper x")
    assert "Written by `evenly paper all --paper x`" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    widths = {line.replace("\\|", "").count("|") for line in lines}
    assert widths == {7, 8}, "a bar in a text does not make a column"
    (failed,) = [line for line in lines if "does nothing" in line]
    assert "| a (2) | 2 | 1 | independent | not reproduced: differs by 100 %" in failed


def test_the_page_has_every_reason_and_no_markup_of_others():
    page = verdict_page([PAPER], "evenly paper all")
    assert "On &lt;x&gt;" in page
    assert page.count('<tr class="why">') == len(FOUND)
    assert runs_nothing(page)


@pytest.fixture
def two_papers(monkeypatch):
    """Two papers with one quick figure each."""
    cut = {}
    for name, figure in (("hone", "7"), ("model-driven", "models")):
        one = paper_all.RERUNS[name]
        cut[name] = replace(one, paper=replace(one.paper, figures={figure: one.paper.figures[figure]}))
    monkeypatch.setattr(paper_all, "RERUNS", cut)


@pytest.mark.usefixtures("two_papers")
def test_the_command_prints_documented_json_and_writes_page_and_markdown(monkeypatch, capsys, tmp_path):
    options = ("--runs", "2", "--json", "--out", str(tmp_path / "new"))
    assert run(monkeypatch, "paper", "all", *options) == 0
    printed = documented_json.check(capsys.readouterr().out)
    assert printed["command"] == "paper all"
    assert printed["parameters"] == {"papers": ["hone", "model-driven"], "runs": 2, "seed": 0}
    tallies = [row for row in printed["results"] if row["series"] == "tally"]
    assert [row["paper"] for row in tallies] == ["hone", "model-driven"]
    for tally in tallies:
        rows = [row for row in printed["results"] if row["paper"] == tally["paper"] and row["series"] != "tally"]
        assert tally["independent"] == sum(row["basis"] == "independent" for row in rows)
        parts = ("reproduced", "not_reproduced", "undecided", "not_rerun")
        assert tally["independent"] == sum(tally[part] for part in parts)
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"papers.html", "papers.md"}
    assert "evenly paper all --runs 2" in (tmp_path / "new" / "papers.md").read_text("utf-8")


@pytest.mark.usefixtures("two_papers")
def test_people_get_the_table_and_the_counts(monkeypatch, capsys):
    assert run(monkeypatch, "paper", "all", "--paper", "hone", "--runs", "2") == 0
    printed = capsys.readouterr().out
    assert "Hone" in printed
    assert "independent" in printed
    assert "Model-driven" not in printed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--runs", "1"], "--runs must be from 2 to 10000, got 1"),
        (["--paper", "storm"], "there is no paper 'storm': choose from dkg, posg, osg, hone, model-driven"),
        (["--out", __file__], "--out must name a folder"),
    ],
)
def test_a_bad_option_gives_one_sentence(monkeypatch, capsys, options, said):
    assert run(monkeypatch, "paper", "all", *options) == 2
    printed = capsys.readouterr()
    assert said in printed.err.replace("\n", " ")
    assert printed.out == ""


def test_dkg_has_a_hundred_runs_at_least_and_plans_have_no_choice():
    assert [paper_all.RERUNS[name].runs_of(5) for name in ("dkg", "posg", "model-driven")] == [100, 5, None]
    assert paper_all.RERUNS["dkg"].runs_of(None) == 1_000


def test_json_holds_no_other_words_than_the_verdicts():
    rows = PAPER.rows()
    assert json.loads(json.dumps(rows)) == rows


def test_the_readme_has_the_counts_of_the_committed_table():
    root = Path(__file__).parents[2]
    table = (root / "docs" / "papers.md").read_text("utf-8")
    readme = (root / "README.md").read_text("utf-8")
    found = re.findall(r"^\| ([a-z-]+) \| \d+ \| (\d+) \| (\d+) \|", table, re.MULTILINE)
    assert [name for name, *_ in found] == [*paper_all.RERUNS, "all"]
    for name, independent, reproduced in found[:-1]:
        (line,) = [line for line in readme.splitlines() if line.startswith("|") and f"`evenly paper {name}" in line]
        assert f"{reproduced} of {independent} independent statements" in line, name
