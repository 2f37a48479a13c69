"""Every page at the width of a telephone and of a screen, in light and in dark, and on paper."""

import pytest

from browsing import needs_chromium, painted
from evenly.look.palette import PALETTE

pytestmark = needs_chromium

WIDTHS = (390, 1280)
LEAST_PX = 11.0
SIZES = """(() => {
    const scale = at => Math.hypot(at.a, at.b)  // of text that is turned, too
    const letters = [...document.querySelectorAll("svg text")].map(
        text => parseFloat(getComputedStyle(text).fontSize) * scale(text.getScreenCTM()))
    return [document.documentElement.scrollWidth, Math.min(...letters, 99)]
})()"""
CUT = """[...document.querySelectorAll("svg text")].filter(text => {
    const [its, whole] = [text, text.closest("svg")].map(one => one.getBoundingClientRect())
    return its.left < whole.left - 2 || its.right > whole.right + 2 || its.bottom > whole.bottom + 2
}).map(text => text.textContent)"""
NAMES = (
    *("simulate keys", "simulate shuffle", "diagnose log", "diagnose keys", "diagnose checkpoint", "plan", "run", "demo"),
    *("paper figures", "paper model-driven", "paper all"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_asks_for_nothing_and_complains_of_nothing(browser, pages, tmp_path, name):
    assert set(pages) == set(NAMES)
    for scheme in ("light", "dark"):
        with browser.page(pages[name].as_uri(), dark=scheme == "dark") as page:
            for width in WIDTHS:
                page.resize(width, 900)
                wide, letters_px = page.value(SIZES)
                assert wide <= width, (width, wide)
                assert letters_px >= LEAST_PX, (width, letters_px)
                assert page.value(CUT) == [], "a picture ends within its words"
            pixels = page.picture(tmp_path / "page.png")
            assert painted(pixels, getattr(PALETTE["ground"], scheme)) > pixels.shape[0] * pixels.shape[1] // 3
            assert page.errors() == []
            assert [one for one in page.addresses() if not one.startswith(("data:", pages[name].as_uri()))] == []
            assert page.numbers(), "no numbers for programs"


def test_paper_is_light_and_nothing_is_cut_off(browser, pages, tmp_path):
    with browser.page(pages["plan"].as_uri(), width=794, dark=True, media="print") as page:
        pixels = page.picture(tmp_path / "page.png")
        scrolled = page.value(
            "[...document.querySelectorAll('.wide, .panel, pre')].map(one => getComputedStyle(one).overflowX)"
        )
    assert painted(pixels, PALETTE["ground"].light) > pixels.shape[0] * pixels.shape[1] // 2
    assert painted(pixels, PALETTE["ground"].dark) == 0
    assert set(scrolled) == {"visible"}
