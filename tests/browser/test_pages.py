"""What single pages say and draw, as a browser shows it."""

import json

from browsing import needs_chromium, painted
from evenly.look.palette import PALETTE
from evenly.numbers import plain
from evenly.report.page import shown

pytestmark = needs_chromium

CELLS = "[...document.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))"
TIPS = "[...document.querySelectorAll('svg title')].map(title => title.textContent)"


def test_the_demo_says_what_was_measured_in_words_pictures_and_numbers(browser, pages):
    with browser.page(pages["demo"].as_uri()) as page:
        text, numbers, cells, tips = page.text(), page.numbers(), page.value(CELLS), page.value(TIPS)
    assert "1.82" in text
    assert "100.0 %" in text
    by = {(one["grouping"], one["series"], one.get("x")): one for one in numbers}
    for place in range(4):
        one, other = by["hash", "instance", place], by["evenly", "instance", place]
        told = (place, one["rows"], f"{one['seconds']:.2f}", other["rows"], f"{other['seconds']:.2f}")
        assert cells[place] == [str(value) for value in told]
    assert f"instance 3: {by['hash', 'instance', 3]['seconds']:.2f} s, 300 rows" in tips


def test_pictures_have_the_colours_of_the_page_in_either_scheme(browser, pages, tmp_path):
    for name in ("demo", "diagnose log", "diagnose keys", "diagnose checkpoint"):
        for scheme in ("light", "dark"):
            with browser.page(pages[name].as_uri(), dark=scheme == "dark") as page:
                pixels = page.picture(tmp_path / "page.png")
            for colour in ("uneven", "even"):
                assert painted(pixels, getattr(PALETTE[colour], scheme)) > 300, (name, scheme, colour)


def test_the_page_of_a_log_names_the_stage_the_cause_and_the_call(browser, pages):
    with browser.page(pages["diagnose log"].as_uri()) as page:
        text, tips = page.text(), page.value(TIPS)
    assert "stage 1 FlatMapGroupsInPandas (collect at job.py:7)" in text
    assert "keys (certain): 1.5 s could be saved" in text
    assert 'evenly.by_key, key=["user", "day"], instances=4' in text
    assert "task 3: 200 rows, 1.60 times the mean" in tips


def test_a_key_that_looks_like_a_script_is_a_key(browser, pages):
    with browser.page(pages["diagnose keys"].as_uri()) as page:
        assert "Spark's hash is uneven on 4 instances" in page.text()
        assert "<b>" in page.text()
        assert "</script><script>alert(1)" in page.text()
        assert "</script><script>alert(1)" in json.dumps(page.numbers())


def test_of_very_many_partitions_the_largest_are_drawn(browser, pages):
    with browser.page(pages["diagnose checkpoint"].as_uri()) as page:
        assert "after batch 7" in page.text()
        assert "200 of them, the largest first" in page.value("document.querySelector('svg').textContent")


def test_the_page_of_a_plan_draws_every_slot_and_has_the_numbers_of_its_tables(browser, pages):
    with browser.page(pages["plan"].as_uri()) as page:
        text, numbers, cells, tips = page.text(), page.numbers(), page.value(CELLS), page.value(TIPS)
    assert sum(tip.startswith("slot ") for tip in tips) == 10
    assert "First to break" in text
    assert "MBA+SAM" in text
    assert "spark.executor.instances 3" in text
    chosen = [row for row in numbers if (row["allocation"], row["mapping"]) == ("mba", "sam")]
    told = [
        [row["operator"], shown(row["rate"]), *map(str, (row["threads"], row["slots"])), shown(row["cpu_pct"])]
        for row in chosen
    ]
    assert [line[:5] for line in cells[: len(chosen)]] == told


def test_the_page_of_a_run_has_the_numbers_of_its_bars(browser, pages):
    with browser.page(pages["run"].as_uri()) as page:
        numbers, tips = page.numbers(), page.value(TIPS)
    took = [f"batch {row['batch']}: {plain(row['batch_s'])} s" for row in numbers if row["series"] == "batch"]
    assert len(took) == 64
    assert tips == took


def test_points_of_curves_say_what_they_stand_for(browser, pages):
    with browser.page(pages["simulate keys"].as_uri()) as page:
        numbers, tips = page.numbers(), page.value(TIPS)
    for row in numbers:
        assert f"{row['grouping']}: imbalance λ, {plain(row['imbalance_pct_mean'])} % at instances {row['instances']}" in tips
