"""The live page as a browser shows it: through a burst, a change of the mapping, a restart and a lost connection."""

import socket
from itertools import pairwise

import pytest

from browsing import needs_chromium
from evenly.facts.loads import Loads
from evenly.facts.records import Batch, Decision, Fact, HeavyKey
from evenly.facts.sample import dataflow, drifting_stream, paced_sending
from evenly.watching.live import LiveWatch

pytestmark = needs_chromium

WIDTHS = (390, 1280)
LIVE = "document.getElementById('connection').textContent === 'live'"
LETTERS = "Math.min(99, ...[...document.querySelectorAll('svg text')].map(text => parseFloat(getComputedStyle(text).fontSize)))"
SCRIPT = "<script>document.title = 'broken'</script><img src=x onerror=alert(1)>"
CROWDED = """[...document.querySelectorAll('.chart')].some(chart => {
  const boxes = [...chart.querySelectorAll('.change rect')].map(one => one.getBoundingClientRect())
  boxes.sort((a, b) => a.left - b.left)
  return boxes.some((box, at) => at && box.left < boxes[at - 1].right)
}) || [...document.querySelectorAll('.tiles small')].some(
  one => one.getBoundingClientRect().right > one.closest('div').getBoundingClientRect().right)"""
BARS = "[...document.querySelectorAll('#instances rect.bar title')].map(title => title.textContent)"


def caught_up(page, live):
    """Waits until the page has drawn the last record."""
    page.wait_for(
        f"(JSON.parse(document.getElementById('numbers').textContent).last_id ?? '').endsWith('.{live.history.last}')"
    )
    return page.numbers()


def choose(page, kind):
    page.value(f"[...document.querySelectorAll('#runs button')].find(one => one.textContent.includes('({kind})')).click()")
    page.wait_for(f"JSON.parse(document.getElementById('numbers').textContent).kind === '{kind}'")
    return page.numbers()


@pytest.fixture(scope="module")
def live():
    with LiveWatch(title="three samples") as one:
        for sample in (drifting_stream(batches=70, restart_after=55), dataflow(batches=30), paced_sending(batches=30)):
            for fact in list(sample)[:-1]:
                one.add(fact)
        yield one


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_every_kind_fits_and_asks_nobody_else(browser, live, scheme):
    with browser.page(live.url, dark=scheme == "dark") as page:
        caught_up(page, live)
        for kind in ("keyed", "flow", "send"):
            choose(page, kind)
            for width in WIDTHS:
                page.resize(width, 1000)
                page.wait_for(f"document.querySelector('#lambda svg').clientWidth <= {width}")
                assert page.value("document.documentElement.scrollWidth") <= width, (kind, width)
                assert page.value(LETTERS) >= 11.0
                assert not page.value(CROWDED), (kind, width)
        assert page.errors() == []
        assert {one for one in page.addresses() if not one.startswith((live.url, "data:"))} == set()


def test_what_is_read_is_what_the_records_say(browser, live):
    keyed = [fact for fact in drifting_stream(batches=70, restart_after=55) if fact.batch is not None][-1]
    with browser.page(live.url) as page:
        caught_up(page, live)
        numbers, text, bars = choose(page, "keyed"), page.text(), page.value(BARS)
    assert numbers["loads"]["values"] == list(keyed.batch.rows_by_instance.values)
    assert len(bars) == len(keyed.batch.rows_by_instance.values)
    assert f"instance 0: {round(keyed.batch.rows_by_instance.values[0]):,} rows" in bars[0]
    assert numbers["imbalance_pct"] == keyed.batch.imbalance_pct
    assert f"{keyed.batch.imbalance_pct:.1f} %" in text
    assert [one["key"] for one in numbers["heavy_keys"]] == [one.key for one in keyed.batch.heavy_keys]
    assert keyed.batch.heavy_keys[0].key in text
    assert "the driver was lost" in text
    assert numbers["restarts"] == 1


def test_a_dataflow_is_drawn_and_its_slow_operator_stands_out(browser, live):
    with browser.page(live.url) as page:
        caught_up(page, live)
        choose(page, "flow")
        assert page.value("[...document.querySelectorAll('#graph .late .strong')].map(one => one.textContent)") == ["lookup"]
        assert page.value("document.querySelectorAll('#graph .node').length") == 6
        assert page.value("document.querySelectorAll('#graph .edge').length") == 6
        assert "lookup takes 1.8 times as long" in page.text()
        queues = choose(page, "send")["queues"]
        assert page.value("document.querySelectorAll('#queues .signal').length") == len(queues["may_send"]) == 1
        backlogs = queues["backlogs"]["values"]
        assert backlogs[queues["may_send"][0]] == max(backlogs), "the longest queue is the next to send"


def told(number, loads, *, version=1, **parts):
    spread = Loads.of(loads)
    held = Batch(number=number, rows=sum(loads), rows_by_instance=spread, imbalance_pct=spread.imbalance_pct, **parts)
    return Fact(time=1_000.0 + number, run="q", name="visits", kind="keyed", event="batch", mapping_version=version, batch=held)


def said(event, time, **parts):
    return Fact(time=time, run="q", name="visits", kind="keyed", event=event, **parts)


def test_a_burst_a_change_a_restart_and_a_lost_connection_are_followed(browser):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    live = LiveWatch(title="followed", port=port)
    live.add(said("start", 999.0, mapping_version=1, instances=3))
    live.add(told(0, [10, 10, 10]))
    with browser.page(live.url) as page:
        assert caught_up(page, live)["imbalance_pct"] == 0.0

        live.add(told(1, [10, 70, 10], heavy_keys=(HeavyKey(key=SCRIPT, share_pct=66.0, instance=1),)))
        burst = caught_up(page, live)
        assert burst["imbalance_pct"] == pytest.approx(133.3, abs=0.1)
        assert "133 %" in page.text()
        assert page.value("document.querySelectorAll('#instances .high').length") == 1
        assert "entered in batch 1" in page.text()
        assert page.value("document.querySelectorAll('img, #keys script').length") == 0
        assert page.value("document.title").startswith("visits")

        reason = f"one key came in a burst {SCRIPT}"
        live.add(said("change", 1_001.5, mapping_version=2, decision=Decision(what="mapping", reason=reason, before_pct=133.3)))
        live.add(told(2, [30, 30, 31], version=2))
        changed = caught_up(page, live)
        assert (changed["mapping_version"], changed["changes"]) == (2, 1)
        assert page.value("document.querySelector('#lambda .change title').textContent") == f"mapping 2: {reason}"
        assert reason in page.text()

        live.add(said("end", 1_003.0, error="the driver was lost"))
        assert caught_up(page, live)["status"] == "failed"
        live.add(said("start", 1_010.0, mapping_version=2, instances=3))
        live.add(told(3, [30, 30, 30], version=2))
        again = caught_up(page, live)
        assert (again["status"], again["restarts"], again["batches_kept"]) == ("running", 1, 4)
        assert "running when last heard of" in page.text()  # these times are long ago
        assert page.value("document.querySelectorAll('#lambda .restart').length") == 1

        live.close()
        page.wait_for("document.getElementById('connection').textContent.startsWith('connection lost')")
        assert page.numbers()["batch"] == 3, "what was there stays"
        live = LiveWatch(title="followed", port=port)
        for number, facts in enumerate(pairwise(range(5, 8))):
            live.add(told(facts[0], [20, 20, 20 + number], version=3))
        page.wait_for(LIVE)
        back = caught_up(page, live)
        assert (back["batch"], back["mapping_version"], back["batches_kept"]) == (6, 3, 2)
    live.close()


def test_of_many_runs_the_page_lets_go_of_the_one_that_it_has_heard_of_longest_ago(browser):
    def of(run, event, **parts):
        return Fact(time=1.0, run=run, name=run, kind="batch", event=event, **parts)

    with LiveWatch(title="many") as live, browser.page(live.url) as page:
        for run in ("chosen", "long"):
            live.add(of(run, "start"))
        for number in range(40):
            live.add(of(f"job {number}", "start"))
            live.add(of("long", "batch", batch=Batch(number=number, rows=number)))
        runs = caught_up(page, live)["runs"]
        assert {"chosen", "long", "job 39"} <= set(runs)
        assert len(runs) == 16
        page.value("[...document.querySelectorAll('#runs button')].find(one => one.textContent.includes('long')).click()")
        page.wait_for("JSON.parse(document.getElementById('numbers').textContent).run === 'long'")
        assert page.numbers()["batches_kept"] == 40


def test_a_dataflow_and_the_query_of_its_state_are_two_though_they_have_one_identity(browser):
    with LiveWatch(title="two") as live, browser.page(live.url) as page:
        for number in range(3):
            for kind, rows in (("flow", 1_000), ("keyed", 10)):
                held = Batch(number=number, rows=rows, imbalance_pct=float(rows))
                live.add(Fact(time=2.0 * number, run="q", name="words", kind=kind, event="batch", batch=held))
        caught_up(page, live)
        for kind, rows in (("keyed", 10), ("flow", 1_000)):
            numbers = choose(page, kind)
            assert (numbers["rows"], numbers["imbalance_pct"], numbers["batches_kept"]) == (rows, float(rows), 3)
            assert numbers["rows_per_s"] == rows / 2.0


def test_a_run_can_be_chosen_while_records_come(browser):
    with LiveWatch(title="busy") as live, browser.page(live.url) as page:
        for run in ("one", "two"):
            live.add(Fact(time=1.0, run=run, name=run, kind="keyed", event="start"))
        caught_up(page, live)
        page.value("void (window.before = document.querySelectorAll('#runs button')[1])")
        live.add(Fact(time=2.0, run="one", name="one", kind="keyed", event="batch", batch=Batch(number=0, rows=1)))
        caught_up(page, live)
        assert page.value("window.before.isConnected"), "a press on it would be lost"
        page.value("window.before.click()")
        page.wait_for("JSON.parse(document.getElementById('numbers').textContent).run === 'two'")
        current = "document.querySelector('#runs [aria-current=true]').textContent"
        assert page.value(current) == "two (keyed)"


def test_letters_that_turn_the_direction_of_writing_turn_nothing_but_their_own_text(browser):
    turning, key = "\u202ebackwards", "\u202eeilA"
    left = "(() => { const at = document.createRange(); at.selectNodeContents(%s); return at.getBoundingClientRect().left })()"
    with LiveWatch(title="odd") as live, browser.page(live.url, width=1280) as page:
        live.add(told(0, [1, 2, 3]))
        live.add(told(1, [1, 2, 3], heavy_keys=(HeavyKey(key=key, share_pct=6.0, instance=1),)))
        live.add(said("change", 1_001.5, mapping_version=2, decision=Decision(what=turning, reason=turning)))
        caught_up(page, live)
        entry = "document.querySelector('#decisions .change').childNodes[%d]"
        places = [page.value(left % (entry % at)) for at in (0, 2, 4)]
        assert places == sorted(places), "time, what was changed, and why, in this order"
        assert page.value("document.getElementById('keys-now').textContent") == f"\u2068{key}\u2069 entered in batch 1"


def test_the_page_keeps_a_bounded_history(browser):
    with LiveWatch(title="long") as live, browser.page(live.url) as page:
        for number in range(1_500):
            live.add(told(number, [10, 10, 10 + number % 7]))
        assert caught_up(page, live)["batches_kept"] <= 600
        assert page.numbers()["batch"] == 1_499
        assert page.value("document.querySelectorAll('*').length") < 2_000
