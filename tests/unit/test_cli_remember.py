"""`evenly remember` on local folders, without Spark."""

import json
from dataclasses import replace

import pytest

import documented_json
from command import told
from evenly.remembered import PastRun, Remembered, Subject

RUN = PastRun("2026-01-02T00:00:00+00:00", "kept", "learnt before", 10.0, 1.0, 30.0, anew=True, judged="λ 30.0 % where 1.0 %")
USERS = Remembered(
    Subject("rows", ("[user]",), ("string",), 8), "{}", "a", "2026-01-01T00:00:00+00:00", "nothing was remembered"
)
COSTS = Remembered(Subject("costs", ()), "{}", "b", "2026-01-01T00:00:00+00:00", "nothing was remembered")


@pytest.mark.parametrize(("carried", "shown"), [(1_234_567.0, "1,235,000"), (0.125, "0.125"), (3e-30, "3e-30")])
def test_it_tells_the_weight_and_what_rows_weighed(monkeypatch, capsys, tmp_path, carried, shown):
    weighed = replace(USERS, subject=replace(USERS.subject, weight="length(text)"))
    weighed.after(replace(RUN, rows=carried)).save(tmp_path / weighed.subject.file_name)
    for command in ("list", "show"):
        assert "with weight length(text)" in " ".join(told(monkeypatch, capsys, "remember", command, tmp_path)[1].split())
    assert shown in told(monkeypatch, capsys, "remember", "show", tmp_path)[1]
    memory, run = documented_json.check(told(monkeypatch, capsys, "remember", "show", tmp_path, "--json")[1])["results"]
    assert (memory["weight"], run["rows"]) == ("length(text)", carried)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "users").mkdir()
    USERS.after(RUN).save(tmp_path / "users" / USERS.subject.file_name)
    (tmp_path / "users" / f".{USERS.subject.file_name}.crc").write_bytes(b"crc")
    COSTS.after(replace(RUN, promised_pct=None, anew=False)).save(tmp_path / COSTS.subject.file_name)
    (tmp_path / "join-left-0123456789abcdef.json").write_text("{")
    (tmp_path / "users" / "notes.json").write_text("mine")
    return tmp_path


def test_it_lists_what_is_there(monkeypatch, capsys, folder):
    code, out, _ = told(monkeypatch, capsys, "remember", "list", folder)
    assert code == 0
    for text in ("[user]", "over 8 instances", "learns anew", "keeps it", "cannot be read", "30.0 %"):
        assert text in " ".join(out.split()), text
    code, out, _ = told(monkeypatch, capsys, "remember", "list", f"file://{folder}", "--json")
    found = documented_json.check(out)["results"]
    assert [it["file"].split("-")[0] for it in found] == ["costs", "join", "rows"]
    assert (found[2]["anew"], found[2]["weight"]) == (RUN.judged, None)


def test_it_shows_the_runs(monkeypatch, capsys, folder):
    code, out, _ = told(monkeypatch, capsys, "remember", "show", folder / "users")
    assert code == 0
    assert "The next run learns anew: λ 30.0 % where 1.0 %" in out
    code, out, _ = told(monkeypatch, capsys, "remember", "show", folder, "--json")
    assert [it["series"] for it in documented_json.check(out)["results"]] == [
        "memory",
        "past run",
        "memory",
        "memory",
        "past run",
    ]
    assert told(monkeypatch, capsys, "remember", "show", folder)[0] == 0


def test_it_forgets_its_own_files_alone(monkeypatch, capsys, folder):
    code, out, _ = told(monkeypatch, capsys, "remember", "forget", folder, "--json")
    assert code == 0
    assert len(json.loads(out)["results"]) == 3
    assert sorted(it.name for it in folder.rglob("*") if it.is_file()) == ["notes.json"]
    assert "Nothing is remembered" in told(monkeypatch, capsys, "remember", "forget", folder)[2]
    assert "Nothing is remembered" in told(monkeypatch, capsys, "remember", "list", folder)[1]
    assert "Nothing is remembered" in told(monkeypatch, capsys, "remember", "show", folder)[1]


@pytest.mark.parametrize(
    ("path", "said"), [("hdfs://host/users", "not on this machine"), ("nowhere", "there is no folder nowhere")]
)
def test_what_it_cannot_reach_is_told(monkeypatch, capsys, path, said):
    for command in ("list", "show", "forget"):
        code, out, error = told(monkeypatch, capsys, "remember", command, path)
        assert (code, out) == (2, "")
        assert said in error
