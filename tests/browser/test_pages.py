"""Pages as a browser shows them."""

import numpy as np
import pytest
from matplotlib import image

from browsing import chromium, needs_chromium
from evenly.files import write_whole
from evenly.report.comparison import Comparison, PlacedRun
from evenly.report.comparison_page import comparison_page

pytestmark = needs_chromium


@pytest.fixture
def page(tmp_path):
    by_hash = PlacedRun("hash", np.array([100, 100, 100, 300]), np.array([1.0, 1.1, 0.9, 3.0]), 3.1, 4.0)
    by_evenly = PlacedRun("evenly", np.array([150, 150, 151, 149]), np.array([1.5, 1.5, 1.6, 1.5]), 1.7, 2.4)
    compared = Comparison(by_hash, by_evenly, learning_s=0.3, least_imbalance_pct=0.0, same_results=True)
    path = tmp_path / "page.html"
    write_whole(path, comparison_page(compared, rows=600, wait_us=5.0))
    return path


def test_the_page_says_what_was_measured(tmp_path, page):
    shown = chromium(tmp_path, page, "--dump-dom")
    assert "1.82" in shown
    assert "100.0 %" in shown
    assert "λ" in shown


def test_the_picture_shows_both_groupings_in_their_colours(tmp_path, page):
    shot = tmp_path / "page.png"
    chromium(tmp_path, page, f"--screenshot={shot}")
    pixels = (image.imread(shot)[:, :, :3] * 255).round().astype(int)
    for colour in ((0xC2, 0x57, 0x1A), (0x1B, 0x7F, 0x6B)):
        assert (np.abs(pixels - colour).sum(axis=2) < 12).sum() > 2_000


@pytest.mark.parametrize(("scheme", "ground", "ink"), [("light", 255, 0x22), ("dark", 0x14, 0xDF)])
def test_the_page_follows_the_systems_colours_and_pictures_stay_on_paper(tmp_path, page, scheme, ground, ink):
    shot = tmp_path / "page.png"
    chosen = {"dark": 0, "light": 1}[scheme]
    chromium(tmp_path, page, f"--blink-settings=preferredColorScheme={chosen}", f"--screenshot={shot}")
    pixels = (image.imread(shot)[:, :, :3] * 255).round().astype(int)
    assert abs(pixels[5, 5, 0] - ground) <= 2
    heading = pixels[30:110, 20:600, 0]
    assert abs(heading - ink).min() <= 6
    assert (pixels[:, :, :].min(axis=2) == 255).sum() > 50_000
