"""`evenly mapping`: the versions of a query's mapping from the shell, without Spark."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import command
import documented_json
from evenly.keys.dkg import DKG
from evenly.keys.versions import (
    ANSWER,
    FORMAT,
    FORMAT_VERSION,
    LOG,
    REQUEST,
    Request,
    RequestAnswer,
    Version,
    VersionLog,
    digest_of,
    mapping_file,
)
from evenly.sealed import sealed

INSTANCES = 4


def mappings():
    first = DKG.automatic(INSTANCES, ids="xxhash64").mapping(columns=("user",))
    ids = np.repeat(np.arange(1, 400, dtype=np.uint64) * np.uint64(2**40 + 7), np.arange(399, 0, -1))
    learnt = DKG.automatic(INSTANCES, ids="xxhash64").fit_ids(ids).mapping(columns=("user",))
    return [first, replace(learnt, version=2), replace(learnt, version=3, buckets=(learnt.buckets + 1) % INSTANCES)]


@pytest.fixture
def checkpoint(tmp_path):
    """That of a query with three versions, as a query writes it."""
    folder = tmp_path / "checkpoint" / "evenly"
    folder.mkdir(parents=True)
    texts = {mapping.version: mapping.to_json() for mapping in mappings()}
    for number, text in texts.items():
        (folder / mapping_file(number)).write_text(text)
    figures = {"before_pct": 40.0, "expected_pct": 5.0, "moved_load_pct": 3.0, "move_s": 1.0}
    versions = [
        Version(1, "by hash: nothing was known yet", ((1, None),), "2025-01-01T00:00:00+00:00"),
        Version(2, "λ was 40.0 %", ((2, None),), "2025-01-02T00:00:00+00:00", {**figures, "after_pct": 6.0}),
        Version(3, "asked for", ((3, None),), "2025-01-03T00:00:00+00:00"),
    ]
    content = {
        "key": ["user"],
        "instances": INSTANCES,
        "slot": "slot",
        "window": None,
        "types": ["string"],
        "mappings": {str(number): digest_of(text.encode()) for number, text in texts.items()},
        "versions": [{**asdict(it), "spans": [list(span) for span in it.spans]} for it in versions],
    }
    (folder / LOG).write_text(sealed(content, kind=FORMAT, version=FORMAT_VERSION, indent=1))
    return tmp_path / "checkpoint"


def results(monkeypatch, capsys, *arguments):
    code, out, err = command.told(monkeypatch, capsys, "mapping", *arguments, "--json")
    assert (code, err) == (0, "")
    return documented_json.check(out)["results"]


def test_list_has_every_version_with_its_figures(monkeypatch, capsys, checkpoint):
    found = results(monkeypatch, capsys, "list", checkpoint)
    assert [(it["series"], it["mapping_version"], it["in_force"]) for it in found] == [
        ("version", 1, False),
        ("version", 2, False),
        ("version", 3, True),
    ]
    assert (found[1]["before_pct"], found[1]["expected_pct"], found[1]["after_pct"]) == (40.0, 5.0, 6.0)
    code, out, err = command.told(monkeypatch, capsys, "mapping", "list", checkpoint)
    assert (code, err) == (0, "")
    assert "by hash:" in out
    assert "40.0 %" in out


def test_show_has_the_version_in_force_or_another_one(monkeypatch, capsys, checkpoint):
    last, learnt = mappings()[2], mappings()[1]
    shown = results(monkeypatch, capsys, "show", checkpoint)
    assert (shown[0]["mapping_version"], shown[0]["own_entries"]) == (3, last.heavy_keys.size)
    assert [it["load"] for it in shown[1:]] == pytest.approx(last.fitted_loads.tolist())
    assert results(monkeypatch, capsys, "show", checkpoint, "--version", "2")[0]["fitted_pct"] == learnt.fitted_imbalance_pct
    for version, words in (
        (1, "before any row was known"),
        (2, "not in force any more"),
        (3, "3 of user over 4 instances, in force"),
    ):
        code, out, _ = command.told(monkeypatch, capsys, "mapping", "show", checkpoint, "--version", version)
        assert code == 0
        assert words in " ".join(out.split())


def test_diff_counts_what_is_elsewhere(monkeypatch, capsys, checkpoint):
    earlier, later = mappings()[1:]
    (found,) = results(monkeypatch, capsys, "diff", checkpoint)
    assert found["buckets_moved"] == found["buckets"] == later.buckets.size
    assert (found["keys_moved"], found["keys_new"], found["keys_gone"]) == (0, 0, 0)
    assert found["moved_load_pct"] == pytest.approx(100.0 * later.bucket_weights.sum() / later.fitted_loads.sum())
    (same,) = results(monkeypatch, capsys, "diff", checkpoint, "--version", 2, "--to", 2)
    assert (same["buckets_moved"], same["moved_load_pct"]) == (0, 0.0)
    (first,) = results(monkeypatch, capsys, "diff", checkpoint, "--version", 1, "--to", 2)
    assert first["keys_new"] == earlier.heavy_keys.size > 0
    (unknown,) = results(monkeypatch, capsys, "diff", checkpoint, "--version", 2, "--to", 1)
    assert unknown["moved_load_pct"] is None
    code, out, _ = command.told(monkeypatch, capsys, "mapping", "diff", checkpoint)
    assert code == 0
    assert "From version 2 to version 3: asked for." in out


def test_rollback_asks_the_query_and_changes_nothing_itself(monkeypatch, capsys, checkpoint):
    folder = checkpoint / "evenly"
    before = (folder / LOG).read_bytes()
    (asked,) = results(monkeypatch, capsys, "rollback", checkpoint)
    assert (asked["series"], asked["mapping_version"]) == ("request", 2)
    assert Request.from_json((folder / REQUEST).read_bytes(), source="it").version == 2
    assert (folder / LOG).read_bytes() == before
    assert results(monkeypatch, capsys, "list", checkpoint)[-1] == asked
    code, out, err = command.told(monkeypatch, capsys, "mapping", "rollback", checkpoint, "--to", 1)
    assert (code, out) == (2, "")
    assert "has not answered: wait, or take that back with --cancel" in err
    results(monkeypatch, capsys, "rollback", checkpoint, "--cancel")
    assert not (folder / REQUEST).exists()
    code, out, err = command.told(monkeypatch, capsys, "mapping", "rollback", f"file://{checkpoint}", "--to", 1)
    assert code == 0
    assert "Asked for version 1" in out
    assert "evenly mapping list" in err


def test_what_is_taken_back_may_have_been_done_or_begun_by_a_driver_that_died(monkeypatch, capsys, checkpoint):
    """It said that the version was not asked for any more, and it was in force."""
    folder = checkpoint / "evenly"

    def taken_back(*options):
        request = Request(1, "it", "2025-01-04T00:00:00+00:00")
        (folder / REQUEST).write_text(request.to_json())
        code, out, _ = command.told(monkeypatch, capsys, "mapping", "rollback", checkpoint, "--cancel", *options)
        assert (code, (folder / REQUEST).exists()) == (0, False)
        return json.loads(out)["results"] if options else " ".join(out.split())

    assert taken_back() == "Taken back: version 1 is not asked for any more."
    begun = replace(mappings()[0], version=4).to_json()
    (folder / mapping_file(4)).write_text(begun)
    assert "not asked for any more. But a change to a version 4 has been begun" in taken_back()
    log = json.loads((folder / LOG).read_text())
    for name in ("format", "format_version", "checksum"):
        log.pop(name, None)
    log["mappings"]["4"] = digest_of(begun.encode())
    log["versions"].append({**log["versions"][-1], "number": 4, "spans": [[4, None]], "reason": "back to version 1"})
    (folder / LOG).write_text(sealed(log, kind=FORMAT, version=FORMAT_VERSION, indent=1))
    assert "the mapping of version 1 is in force already, as version 4, and stays" in taken_back()
    assert [(it["series"], it["mapping_version"]) for it in taken_back("--json")] == [("request", 1), ("version", 4)]


def test_of_two_shells_that_ask_at_once_one_is_told_that_the_other_came_first(monkeypatch, capsys, checkpoint):
    path = Path(checkpoint) / "evenly" / REQUEST
    monkeypatch.setattr("evenly.cli.mapping.datetime", _Meanwhile(lambda: path.write_text("another's")))
    code, _, err = command.told(monkeypatch, capsys, "mapping", "rollback", checkpoint)
    assert code == 2
    assert "somebody else has just asked" in " ".join(err.split())
    assert path.read_text() == "another's"
    assert [it.name for it in path.parent.iterdir() if it.name.startswith(f".{REQUEST}")] == []


class _Meanwhile:
    """A clock at which somebody else does something."""

    def __init__(self, happens):
        self._happens = happens

    def now(self, zone):
        self._happens()
        return datetime.now(zone)


@pytest.mark.parametrize(
    ("refused", "words"), [("", "went back to version 1, as version 4"), ("it cannot", "refused to go back")]
)
def test_list_tells_what_became_of_a_request(monkeypatch, capsys, checkpoint, refused, words):
    answer = RequestAnswer("identity", 4, 1, refused, "2025-01-04T00:00:00+00:00")
    (checkpoint / "evenly" / ANSWER).write_text(answer.to_json())
    told = results(monkeypatch, capsys, "list", checkpoint)[-1]
    assert (told["series"], told["asked_version"], told["why"]) == ("answer", 1, refused or None)
    _, out, _ = command.told(monkeypatch, capsys, "mapping", "list", checkpoint)
    assert words in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "--version", 9), "there is no version 9 of the mapping: there are 1 to 3"),
        (("diff", "--to", 1), "there is no version before version 1"),
        (("rollback", "--to", 3), "version 3 is in force"),
        (("rollback", "--to", 0), "there is no version 0"),
        (("rollback", "--cancel"), "there is nothing to cancel"),
        (("rollback", "--cancel", "--to", 1), "give it without --to"),
    ],
)
def test_mistakes_are_one_sentence(monkeypatch, capsys, checkpoint, arguments, words):
    code, out, err = command.told(monkeypatch, capsys, "mapping", arguments[0], checkpoint, *arguments[1:])
    assert (code, out) == (2, "")
    assert words in err


def test_a_folder_that_is_none_and_a_damaged_file_are_refused(monkeypatch, capsys, checkpoint, tmp_path):
    for given, words in (
        (tmp_path / "none", "there is no folder"),
        (tmp_path, "has no evenly/versions.json"),
        ("hdfs://name/checkpoint", "not on this machine"),
    ):
        code, _, err = command.told(monkeypatch, capsys, "mapping", "list", given)
        assert code == 2
        assert words in err
    folder = checkpoint / "evenly"
    (folder / mapping_file(2)).write_text(mappings()[0].to_json())
    code, _, err = command.told(monkeypatch, capsys, "mapping", "rollback", checkpoint)
    assert code == 2
    assert "is not what versions.json says" in err
    assert not (folder / REQUEST).exists()
    (folder / LOG).write_text((folder / LOG).read_text().replace("asked for", "asked fur"))
    code, _, err = command.told(monkeypatch, capsys, "mapping", "list", checkpoint)
    assert code == 2
    assert "is damaged (its checksum does not fit): restore it from a backup" in err


def test_a_request_that_cannot_be_read_hides_no_versions_and_can_be_taken_back(monkeypatch, capsys, checkpoint):
    request = checkpoint / "evenly" / REQUEST
    request.write_text("{}")
    code, out, err = command.told(monkeypatch, capsys, "mapping", "list", checkpoint)
    assert code == 0
    assert "by hash" in out
    assert "is damaged" in err
    assert "rollback --cancel" in err
    code, _, err = command.told(monkeypatch, capsys, "mapping", "rollback", checkpoint)
    assert code == 2
    assert "take that back with --cancel" in " ".join(err.split())
    assert command.told(monkeypatch, capsys, "mapping", "rollback", checkpoint, "--cancel")[0] == 0
    assert not request.exists()
    assert command.told(monkeypatch, capsys, "mapping", "rollback", checkpoint)[0] == 0


def test_a_mapping_that_has_gone_and_an_empty_path_are_told_as_such(monkeypatch, capsys, checkpoint):
    (checkpoint / "evenly" / mapping_file(2)).unlink()
    code, _, err = command.told(monkeypatch, capsys, "mapping", "rollback", checkpoint)
    assert (code, "mapping-000002.json has gone: restore it" in " ".join(err.split())) == (2, True)
    assert "there is no folder ''" in command.told(monkeypatch, capsys, "mapping", "list", "")[2]


def test_requests_and_answers_are_read_back_or_refused():
    request, answer = Request(2, "a", "now"), RequestAnswer("a", 4, 2, "", "now")
    assert Request.from_json(request.to_json().encode(), source="it") == request
    assert RequestAnswer.from_json(answer.to_json().encode(), source="it") == answer
    wrong = sealed({"version": "2", "identity": "a", "asked_at": "now"}, kind="evenly.mapping-request", version=1)
    with pytest.raises(ValueError, match="another type"):
        Request.from_json(wrong.encode(), source="it")
    empty = sealed({"key": ["user"], "instances": 4, "mappings": {}, "versions": []}, kind=FORMAT, version=FORMAT_VERSION)
    with pytest.raises(ValueError, match="names no version"):
        VersionLog.from_json(empty.encode(), source="it")
    assert json.loads(request.to_json())["version"] == 2
