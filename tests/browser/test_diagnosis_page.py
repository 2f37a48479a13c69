"""The page of a diagnosis as a browser shows it."""

import numpy as np
import pytest
from matplotlib import image

import command
import event_logs as made
from browsing import chromium, needs_chromium
from evenly.diagnosis.keys import HeavyKey, KeysAt, KeysDiagnosis
from evenly.diagnosis.state import StateDiagnosis, checkpoint_diagnosis
from evenly.files import write_whole
from evenly.report.diagnosis_page import checkpoint_page, keys_page

UNEVEN, EVEN = (0xC2, 0x57, 0x1A), (0x1B, 0x7F, 0x6B)

pytestmark = needs_chromium


def painted(tmp_path, page):
    """How many pixels of the page have the colour of uneven and of even bars."""
    shot = tmp_path / "page.png"
    chromium(tmp_path, page, f"--screenshot={shot}")
    pixels = (image.imread(shot)[:, :, :3] * 255).round().astype(int)
    return [int((np.abs(pixels - colour).sum(axis=2) < 12).sum()) for colour in (UNEVEN, EVEN)]


@pytest.fixture
def log_page(tmp_path, monkeypatch):
    log, page = tmp_path / "app-1", tmp_path / "page.html"
    log.write_bytes(made.text(made.skewed_job(rows=(100, 110, 90, 200))))
    assert command.run(monkeypatch, "diagnose", "log", log, "--page", page) == 0
    return page


def test_the_page_of_a_log_names_the_stage_the_cause_and_the_call(tmp_path, log_page):
    shown = chromium(tmp_path, log_page, "--dump-dom")
    assert "stage 1 FlatMapGroupsInPandas (collect at job.py:7)" in shown
    assert "keys (certain): 1.5 s could be saved" in shown
    assert 'evenly.by_key, key=["user", "day"], instances=4' in shown


def test_long_tasks_stand_out_from_the_others(tmp_path, log_page):
    uneven, even = painted(tmp_path, log_page)
    assert uneven > 5_000
    assert even > 5_000


def test_the_page_of_keys_shows_hash_beside_evenly(tmp_path):
    at = KeysAt(("user",), 4, (100, 400, 50, 50), (150, 150, 150, 150), 0.1)
    page = tmp_path / "keys.html"
    write_whole(
        page, keys_page("orders <b>", KeysDiagnosis(("user",), 600, 30, (HeavyKey("a", 60, 0.1),), (at,)), [("k",), ("4",)])
    )
    shown = chromium(tmp_path, page, "--dump-dom")
    assert "Spark's hash is uneven on 4 instances" in shown
    assert "orders &lt;b&gt;" in shown
    uneven, even = painted(tmp_path, page)
    assert min(uneven, even) > 5_000


def test_the_page_of_a_checkpoint_shows_where_the_state_is(tmp_path):
    store = StateDiagnosis(0, "stateStoreSave", "default", 7, (900, *([20] * 199)))
    page = tmp_path / "state.html"
    write_whole(page, checkpoint_page(checkpoint_diagnosis("/data/c", [store], []), [("operator",), ("0",)]))
    shown = chromium(tmp_path, page, "--dump-dom")
    assert "after batch 7" in shown
    assert "200 of them, the largest first" in shown
    assert min(painted(tmp_path, page)) > 300
