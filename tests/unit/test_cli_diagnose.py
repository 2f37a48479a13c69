"""`evenly diagnose log`: what it prints for people and for programs, and its errors."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

import event_logs as made
from command import told
from page_texts import runs_nothing


@pytest.fixture
def run(monkeypatch, capsys):
    return partial(told, monkeypatch, capsys, "diagnose")


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "app-1"
    path.write_bytes(made.text(made.skewed_job(rows=(100, 110, 90, 200))))
    return path


def test_a_log_is_told_to_people_with_stage_cause_and_call(run, log, tmp_path):
    page = tmp_path / "page.html"
    code, out, _ = run("log", log, "--page", page)
    assert code == 0
    shown = " ".join(out.split())
    assert "stage 1 FlatMapGroupsInPandas (collect at job.py:7)" in shown
    assert "cause: keys (certain): the largest task read 200 rows, the mean is 125 (λ 60 %), by user, day" in shown
    assert 'df.transform(evenly.by_key, key=["user", "day"], instances=4).groupBy("user", "day", "slot")' in shown
    assert "the application would save at most 1.5 s of 11.0 s: what runs at the same time counts once" in shown
    text = page.read_text()
    assert text.count('<div class="picture">') == 1
    assert "evenly.by_key" in text
    assert runs_nothing(text)
    assert not re.search(r'(?:src|href)="http', text)


def test_a_log_is_told_to_programs_as_one_object(run, log):
    code, out, _ = run("log", log, "--json")
    assert code == 0
    printed = json.loads(out)
    assert printed["command"] == "diagnose log"
    application, stage_row = printed["results"]
    assert (application["series"], application["application"], application["slots"]) == ("application", "app-1", 4)
    assert application["saved_s"] == pytest.approx(1.5)
    assert (stage_row["cause"], stage_row["key"], stage_row["instances"]) == ("keys", "user,day", 4)
    assert stage_row["confidence"] == "certain"
    assert stage_row["imbalance_pct_rows"] == pytest.approx(60.0)
    assert stage_row["saved_s"] == pytest.approx(4.0 - 10.0 / 4)


def test_what_is_sparks_own_work_is_counted_apart(run, tmp_path):
    path, page = tmp_path / "app-1", tmp_path / "page.html"
    reading = [
        made.submitted(7, 1, name="csv at NativeMethodAccessorImpl.java:0"),
        made.task_end(7, 0, run_ms=60_000, launch_ms=20_000),
        made.completed(7, 1, name="csv at NativeMethodAccessorImpl.java:0"),
    ]
    path.write_bytes(made.text([*made.skewed_job(rows=(100, 110, 90, 200)), *reading]))
    code, out, _ = run("log", path, "--page", page)
    assert code == 0
    assert "1 of the stages is Spark's or Evenly's own work, not judged: reading schemas (1, 60.0 s)" in " ".join(out.split())
    assert "reading schemas (1, 60.0 s)" in page.read_text()
    _, out, _ = run("log", path, "--json")
    application, only, own = json.loads(out)["results"]
    assert (application["own_stages"], only["stage"], own) == (
        1,
        1,
        {"series": "own", "kind": "reading schemas", "stages": 1, "seconds": 60.0},
    )


def test_a_log_of_even_stages_says_that_there_is_nothing_to_do(run, tmp_path):
    path = tmp_path / "app-1"
    path.write_bytes(made.text(made.skewed_job(rows=(100, 100, 100, 101))))
    page = tmp_path / "page.html"
    code, out, err = run("log", path, "--page", page)
    assert code == 0
    assert "Nothing to do" in out
    assert err == f"Page: {page}"
    assert "there is nothing to do" in page.read_text()


def test_a_log_of_a_job_that_hangs_in_its_first_stage_tells_that(run, tmp_path):
    path, page = tmp_path / "app-1", tmp_path / "page.html"
    stage = [made.submitted(0, 2), made.task_start(0, 0), made.task_start(0, 1), made.task_end(0, 0, run_ms=90_000)]
    path.write_bytes(made.text([*made.start(), *stage]))
    code, out, _ = run("log", path, "--json", "--page", page)
    assert code == 0
    _, unfinished = json.loads(out)["results"]
    assert (unfinished["series"], unfinished["running"], unfinished["longest_s"]) == ("unfinished", 1, 90.0)
    assert "No stage had finished" in page.read_text()
    assert "the longest of the 1 others had run for 90 s" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["log", "nowhere"], "nowhere is neither a file nor a folder"),
        (["log", "LOG", "--stages", "0"], "--stages must be at least 1, got 0"),
        (["log", "LOG", "--least-seconds", "nan"], "--least-seconds must be 0 or more, got nan"),
        (["log", "LOG", "--page", "no/such/p.html"], "--page must name a file in a folder that exists, got no/such/p.html"),
        (["keys", "LOG", "--key", ","], "--key names no column"),
        (["keys", "LOG", "--key", "user"], "is not a parquet file, or is damaged"),
        (["keys", "LOG", "--key", "user", "--instances", "8,x"], "--instances must be whole numbers with commas between"),
        (["keys", "LOG", "--key", "user", "--instances", "0"], "instances must be a whole number from 1 to 10000, got 0"),
        (["keys", "LOG", "--key", "user", "--heaviest", "-1"], "--heaviest must be from 0 to 1000, got -1"),
        (["checkpoint", "nowhere"], "nowhere is not a folder"),
    ],
)
def test_bad_input_gives_one_sentence(run, log, arguments, said):
    code, out, err = run(*(str(log) if word == "LOG" else word for word in arguments))
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
