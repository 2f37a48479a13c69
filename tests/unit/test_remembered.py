"""The file of what runs leave for the next ones."""

import json
from dataclasses import replace

import pytest

from evenly.errors import DamagedData, NewerFormat
from evenly.remembered import MOST_RUNS, PastRun, Remembered, Subject, is_memory
from evenly.sealed import sealed

SUBJECT = Subject("rows", ("user", "`a.b`"), ("string", "int"), 8)
RUN = PastRun("2026-01-01T00:00:00+00:00", "kept", "learnt before", 10.0, 1.0, 30.0, anew=True, judged="λ 30.0 %")
KEPT = Remembered(SUBJECT, "{}", "abc", "2026-01-01T00:00:00+00:00", "nothing was remembered")


def test_it_is_read_back_as_it_was():
    told = KEPT.after(RUN).after(replace(RUN, promised_pct=None))
    assert Remembered.from_json(told.to_json()) == told


def test_the_last_runs_stay_and_a_reason_to_learn_anew_until_that_is_done():
    told = KEPT.after(RUN)
    for at in range(MOST_RUNS + 5):
        told = told.after(replace(RUN, rows=float(at), anew=False, judged="as promised"))
    assert told.anew == "λ 30.0 %"
    assert [run.rows for run in told.runs] == [float(at) for at in range(5, MOST_RUNS + 5)]


def test_another_question_has_another_file():
    others = [
        replace(SUBJECT, use="join-left"),
        replace(SUBJECT, use="join-right"),
        replace(SUBJECT, columns=("`a.b`", "user")),
        replace(SUBJECT, types=("string", "bigint")),
        replace(SUBJECT, instances=9),
        replace(SUBJECT, use="times"),
        replace(SUBJECT, use="times-of-parts"),
        replace(SUBJECT, weight="size"),
        replace(SUBJECT, weight="length(text)"),
    ]
    names = {it.file_name for it in (SUBJECT, *others)}
    assert len(names) == 10
    assert all(map(is_memory, names))
    assert not is_memory("rows-users.json")
    assert str(SUBJECT) == "rows by user string, `a.b` int over 8 instances"
    assert str(Subject("costs", ())) == "costs by the column that tells them best"


def test_without_a_weight_it_is_what_releases_wrote_that_knew_of_none():
    told = json.loads(KEPT.to_json())
    assert "weight" not in told["subject"]
    assert SUBJECT.file_name == "rows-ac0dc8ab910fcd68.json"  # which they read, and this one theirs


def test_a_weight_is_read_back():
    told = replace(KEPT, subject=replace(SUBJECT, weight="length(`a.b`)"))
    assert Remembered.from_json(told.to_json()) == told
    assert str(told.subject) == "rows by user string, `a.b` int with weight length(`a.b`) over 8 instances"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        KEPT.to_json()[:-9],
        KEPT.to_json().replace("user", "item"),
        sealed({}, kind="evenly.remembered", version=1),
    ],
)
def test_what_is_damaged_is_refused(text):
    with pytest.raises(DamagedData, match="damaged"):
        Remembered.from_json(text, source="rows.json")


def test_what_a_later_release_wrote_is_told():
    with pytest.raises(NewerFormat, match="version 9"):
        Remembered.from_json(sealed({}, kind="evenly.remembered", version=9))
