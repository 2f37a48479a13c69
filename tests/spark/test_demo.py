"""`evenly demo`, run as a user runs it."""

import json
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    page = tmp_path_factory.mktemp("demo") / "page.html"
    options = ["--rows", "60000", "--instances", "4", "--wait-us", "5", "--page", str(page), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "evenly", "demo", *options], capture_output=True, text=True, timeout=900, check=True
    )
    return json.loads(done.stdout), page.read_text()


def test_it_prints_one_json_object_and_nothing_else(demo):
    printed, _ = demo
    assert printed["command"] == "demo"
    assert printed["parameters"] == {"rows": 60_000, "instances": 4, "wait_us": 5.0}


def test_evenly_balances_the_rows_that_the_hash_does_not(demo):
    imbalance = {row["grouping"]: row["imbalance_pct_mean"] for row in demo[0]["results"] if row["series"] == "stage"}
    assert imbalance["hash"] > 10.0
    assert imbalance["evenly"] < 3.0


def test_no_row_is_lost_under_either_grouping(demo):
    for grouping in ("hash", "evenly"):
        instances = [row for row in demo[0]["results"] if row["series"] == "instance" and row["grouping"] == grouping]
        assert [row["x"] for row in instances] == [0, 1, 2, 3]
        assert sum(row["rows"] for row in instances) == 60_000


def test_the_page_holds_the_picture_and_needs_nothing_from_elsewhere(demo):
    _, page = demo
    assert "<svg" in page
    assert "the same results" in page
    assert "<script" not in page
    assert 'src="http' not in page
