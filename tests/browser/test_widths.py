"""No page is wider than a telephone or a screen: what does not fit is scrolled within itself."""

import html
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import command
import event_logs as made
from browsing import chromium, needs_chromium
from evenly.diagnosis.keys import HeavyKey, KeysAt, KeysDiagnosis
from evenly.diagnosis.state import StateDiagnosis, checkpoint_diagnosis
from evenly.lab.papers.verdicts import number
from evenly.planning.observed.verdict import verdict
from evenly.report.comparison import Comparison, PlacedRun
from evenly.report.comparison_page import comparison_page
from evenly.report.diagnosis_page import checkpoint_page, keys_page
from evenly.report.figures import PaperFigure
from evenly.report.run_page import run_page
from evenly.report.verdict_table import PaperVerdicts, verdict_page
from evenly.streams import zipf
from flow_batches import PLAN, batch, measured

pytestmark = needs_chromium
WIDTHS = (390, 1280)
LEAST_PX = 11.0
LONG = "a_column_name_of_a_table_that_somebody_has_given_without_thinking_of_telephones"


@pytest.fixture
def pages(tmp_path, monkeypatch):
    keys = tmp_path / f"{LONG}.parquet"
    pq.write_table(pa.table({LONG: zipf(1.0, 200).draw(4_000, seed=1), "cost": np.ones(4_000)}), keys)
    log = tmp_path / "app-1"
    log.write_bytes(made.text(made.skewed_job(rows=(100, 110, 90, 200))))
    commands = {
        "simulate keys": (keys, "--key", LONG, "--instances", "4,16", "--grouping", "evenly,universal,w-choices"),
        "simulate shuffle": (
            keys,
            "--key",
            LONG,
            "--cost",
            "cost",
            "--instances",
            "4",
            "--load",
            "50,100",
            "--grouping",
            "evenly,posg-c",
        ),
        "diagnose log": (log,),
        "plan": ("diamond", "--rate", "100"),
    }
    made_pages = {}
    for name, arguments in commands.items():
        page = tmp_path / f"{name}.html"
        assert command.run(monkeypatch, *name.split(), *arguments, "--page", page) == 0, name
        made_pages[name] = page.read_text()
    assert command.run(monkeypatch, "paper", "hone", "--figure", "6", "--runs", "2", "--out", tmp_path / "hone") == 0
    (page,) = (tmp_path / "hone").glob("*.html")
    made_pages["paper hone"] = page.read_text()
    assert command.run(monkeypatch, "paper", "model-driven", "--figure", "slots-micro", "--out", tmp_path / "planned") == 0
    made_pages["paper model-driven"] = (tmp_path / "planned" / "model-driven.html").read_text()
    stated = number(LONG, LONG, published=2.0, measured=1.0, within_pct=20.0, neutral=1.0, why=LONG)
    figure = PaperFigure("2", LONG, verdicts=[stated.row()])
    made_pages["paper all"] = verdict_page([PaperVerdicts("x", LONG, f"evenly paper {LONG}", [figure])], "evenly paper all")
    run = PlacedRun("hash", np.array([100, 100, 100, 300]), np.array([1.0, 1.1, 0.9, 3.0]), 3.1, 4.0)
    compared = Comparison(run, run, learning_s=0.3, least_imbalance_pct=0.0, same_results=True)
    made_pages["demo"] = comparison_page(compared, rows=600, wait_us=5.0)
    at = KeysAt((LONG,), 4, (100, 400, 50, 50), (150, 150, 150, 150), 0.1)
    found = KeysDiagnosis((LONG,), 600, 30, (HeavyKey(LONG, 60, 0.1),), (at,))
    table = [("instances", "hash λ", "Evenly λ", "least λ", "verdict"), ("4", "166.7 %", "0.0 %", "0.0 %", "by_key")]
    made_pages["diagnose keys"] = keys_page(str(keys), found, table)
    state = checkpoint_diagnosis(str(keys), [StateDiagnosis(0, LONG, "default", 7, (100, 1, 1, 1))], ())
    made_pages["diagnose checkpoint"] = checkpoint_page(state, table)
    batches = [batch(at, 1_000, 1.0 + at / 40, measured(LONG, 1_000, 0.5), completion_s=1.5) for at in range(64)]
    made_pages["run"] = run_page(LONG, batches, verdict(batches, PLAN, trigger_s=2.0), [LONG], None)
    return made_pages


def test_nothing_is_wider_than_the_window_and_letters_of_pictures_can_be_read(tmp_path, pages):
    frames = "".join(
        f'<iframe title="{name}" style="width:{width}px;height:900px;border:0" srcdoc="{html.escape(text)}"></iframe>'
        for name, text in pages.items()
        for width in WIDTHS
    )
    script = """
    const scale = at => Math.hypot(at.a, at.b)  // of text that is turned, too
    const letters = one => Math.min(...[...one.contentDocument.querySelectorAll("svg text")].map(
        text => parseFloat(one.contentWindow.getComputedStyle(text).fontSize) * scale(text.getScreenCTM())), 99)
    onload = () => { document.body.dataset.found = JSON.stringify([...document.querySelectorAll("iframe")].map(
        one => [one.title, one.clientWidth, one.contentDocument.documentElement.scrollWidth, letters(one)])) }"""
    together = tmp_path / "together.html"
    together.write_text(f"<!doctype html><body>{frames}<script>{script}</script></body>")
    shown = chromium(tmp_path, together, "--dump-dom")
    found = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', shown)[1]))
    assert len(found) == len(WIDTHS) * len(pages)
    assert {width for _, width, *_ in found} == set(WIDTHS)
    assert [one for one in found if one[2] > one[1]] == []
    assert [one for one in found if one[3] < LEAST_PX] == []
    assert sum(one[3] < 99 for one in found) >= 2 * 8  # pages with pictures
