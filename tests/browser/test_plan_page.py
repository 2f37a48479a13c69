"""The page of a plan as a browser shows it."""

from browsing import chromium, needs_chromium
from evenly.dataflow.files import shipped_dataflow
from evenly.files import write_whole
from evenly.planning import Assumptions, compare_pairs, plan, shipped_models
from evenly.planning.spark_settings import spark_settings
from evenly.report.plan_page import plan_page

pytestmark = needs_chromium


def test_the_page_draws_every_slot_and_says_what_breaks_first(tmp_path):
    models, flow, assumed = shipped_models(), shipped_dataflow("diamond"), Assumptions("slot-aware")
    best = plan(flow, models, 100.0, assumptions=assumed)
    page = tmp_path / "plan.html"
    write_whole(page, plan_page(best, compare_pairs(flow, models, 100.0, assumptions=assumed), spark_settings(best)))
    shown = chromium(tmp_path, page, "--dump-dom")
    assert shown.count("<title>slot ") == best.placement.slots == 10
    assert "First to break" in shown
    assert "MBA+SAM" in shown
    assert "spark.executor.instances 3" in shown
