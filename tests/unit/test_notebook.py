"""What notebooks show: well-formed, escaped, with every instance's load or the busiest of several."""

from xml.etree import ElementTree as ET

import pytest

from evenly.dataflow.files import shipped_dataflow
from evenly.diagnosis.keys import HeavyKey, KeysAt, KeysDiagnosis
from evenly.diagnosis.state import CheckpointDiagnosis, StateDiagnosis
from evenly.keys.dkg import DKG
from evenly.keys.hot_keys import split_hot_keys
from evenly.notebook import shown
from evenly.planning import plan, shipped_models
from evenly.streams import zipf

HEIGHT = 36.0


def parsed(html):
    return ET.fromstring(html)


def facts(page):
    return {row[0].text: row[1].text for row in page.iter("tr")}


def heights(page):
    return [[float(bar.get("height")) for bar in svg.iter("rect")] for svg in page.iter("svg")]


def test_names_and_values_are_text_and_never_markup():
    page = parsed(shown("<b>&", {"a<script>": '"x" & <y>'}, {"<i>": [1.0, 2.0]}))
    assert page.find("b").text == "<b>&"
    assert facts(page) == {"a<script>": '"x" & <y>'}
    assert heights(page) == [[HEIGHT / 2, HEIGHT]]


def test_what_cannot_be_shown_is_marked():
    page = parsed(shown("a\x00b", {"\x1b[31m": "\ud83d \U0001f600\n"}, {"\x07": [1.0]}).encode())
    assert page.find("b").text == "a\ufffdb"
    assert facts(page) == {"\ufffd[31m": "\ufffd \U0001f600\n"}


@pytest.mark.parametrize(("instances", "bars"), [(1, 1), (200, 200), (201, 101), (1_000, 200)])
def test_the_busiest_instance_is_drawn_however_many_there_are(instances, bars):
    loads = [1.0] * instances
    loads[-1] = 4.0
    page = parsed(shown("loads", {}, {"rows": loads}))
    ((*others, last),) = heights(page)
    assert len(others) + 1 == bars
    assert last == HEIGHT
    assert set(others) <= {HEIGHT / 4}
    told = f"{instances} instances, the busiest has {4.0 * instances / sum(loads):.2f} times the mean"
    assert told in "".join(page.itertext())


@pytest.mark.parametrize("nothing", [[], [0.0, 0.0]])
def test_nothing_measured_is_said(nothing):
    page = parsed(shown("loads", {}, {"rows": nothing}))
    assert heights(page) == []
    assert "nothing yet" in "".join(page.itertext())


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 1e308])
def test_loads_that_are_no_numbers_are_said_and_not_drawn(odd):
    page = parsed(shown("loads", {}, {"rows": [odd, odd, 1.0]}))
    assert heights(page) == []
    assert "not all numbers" in "".join(page.itertext())


def test_a_mapping_shows_its_key_and_the_load_of_every_instance():
    keys = zipf(1.0, 1_000).draw(10_000, seed=1)
    mapping = DKG.automatic(16).fit(keys).mapping(columns=("user",))
    page = parsed(mapping._repr_html_())
    assert facts(page)["key"] == "user"
    assert facts(page)["λ of the rows it was learnt from"] == f"{mapping.fitted_imbalance_pct:.2f} %"
    assert facts(page)["λ to expect of new rows"] == "not known: no rows were held back"
    told = mapping.held_against(keys)
    assert facts(parsed(told._repr_html_()))["λ to expect of new rows"] == str(told.expectation)
    (bars,) = heights(page)
    loads = mapping.fitted_loads
    assert bars == pytest.approx((HEIGHT * loads / loads.max()).tolist(), abs=0.06)


def test_a_split_mapping_shows_how_many_keys_are_on_several_instances():
    keys = zipf(2.0, 1_000).draw(10_000, seed=1)
    plan_of_hot = split_hot_keys(DKG.automatic(16).fit(keys).mapping())
    page = parsed(plan_of_hot._repr_html_())
    assert facts(page)["keys on several instances"] == str(plan_of_hot.split_keys().size) != "0"
    assert len(heights(page)[0]) == 16


def test_a_diagnosis_of_keys_shows_both_groupings_and_why():
    at = KeysAt(("user",), 4, (70, 10, 10, 10), (40, 20, 20, 20), 0.4)
    found = KeysDiagnosis(("user",), 100, 30, (HeavyKey("<anna>", 40, 0.4),), (at,))
    page = parsed(found._repr_html_())
    assert facts(page)["4 instances"] == at.why
    assert facts(page)["heavy: <anna>"] == "40 rows, 40.0%"
    by_hash, by_evenly = heights(page)
    assert by_hash[1] < by_evenly[1]


def test_a_diagnosis_of_state_shows_stores_and_advice():
    store = StateDiagnosis(0, "count", "default", 7, (100, 1, 1, 1))
    found = CheckpointDiagnosis("/data/visits", (store,), ())
    page = parsed(found._repr_html_())
    assert facts(page)["advice"] == found.advice
    assert heights(page)[0][0] == HEIGHT


def test_operators_of_the_same_name_are_shown_each():
    stores = tuple(StateDiagnosis(number, "dedupe", "default", 7, (100, 1)) for number in (0, 1))
    page = parsed(CheckpointDiagnosis("/data/visits", stores, ())._repr_html_())
    assert {"operator 0, dedupe default", "operator 1, dedupe default"} <= facts(page).keys()
    assert len(heights(page)) == 2


def test_a_plan_shows_what_it_holds_and_the_use_of_every_slot():
    made = plan(shipped_dataflow("linear"), shipped_models(), 100.0)
    page = parsed(made._repr_html_())
    assert facts(page)["planned rate"] == "100 tuples/s"
    assert facts(page)["slots"] == str(made.placement.slots)
    (bars,) = heights(page)
    assert len(bars) == len(made.slot_usage)
