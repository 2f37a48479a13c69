"""What a live page keeps, where its records come from, and who may read it: without a server."""

import json
import os
from itertools import islice

import pytest

from evenly.errors import DamagedData, InvalidParameter, MissingFile, UnreadableFile
from evenly.facts.records import Batch, Fact
from evenly.facts.sample import drifting_stream, paced_sending
from evenly.watching.access import Access, Asked, is_loopback
from evenly.watching.history import MOST_BATCHES, MOST_EVENTS, MOST_RUNS, History
from evenly.watching.sources import check_readable, demonstration, files_of, follow, replay


def batch(number, run="a", **parts):
    return Fact(time=float(number), run=run, kind="keyed", event="batch", batch=Batch(number=number, **parts))


def lines(facts):
    return b"".join(fact.to_json() + b"\n" for fact in facts)


def test_history_gives_what_came_since_and_all_to_who_knows_nothing():
    history = History()
    for fact in drifting_stream(batches=5):
        history.add(fact)
    assert [entry.number for entry in history.since(0)] == list(range(1, 8))
    assert [json.loads(entry.line)["event"] for entry in history.since(5)] == ["batch", "end"]
    assert history.since(7) == history.since(99) == []


def test_an_hour_of_records_takes_no_more_than_its_first_minutes():
    history, sizes = History(), []
    history.add(Fact(time=0.0, run="a", kind="keyed", event="start", instances=4))
    for number in range(20_000):
        history.add(batch(number, rows=number))
        history.add(Fact(time=1.0, run="a", kind="keyed", event="end"))
        if number % 2_000 == 1_999:
            sizes.append((len(history.since(0)), history.size_bytes))
    assert {count for count, _ in sizes} == {1 + MOST_BATCHES + MOST_EVENTS}
    assert max(size for _, size in sizes) < 1.05 * min(size for _, size in sizes)
    assert json.loads(history.since(0)[0].line)["event"] == "start"


def test_large_records_and_many_runs_keep_within_the_bound():
    history, most = History(most_bytes=200_000), 0
    for number in range(3_000):
        history.add(batch(number, run=f"run {number % 40}", operator="x" * 40, rows_by_instance=None))
        history.add(next(paced_sending(seed=number % 50, instances=200)))
        most = max(most, history.size_bytes)
    assert most <= 200_000
    runs = {json.loads(entry.line)["run"] for entry in history.since(0)}
    assert len(runs) <= MOST_RUNS


def test_a_file_is_followed_as_it_grows_and_when_it_is_begun_anew(tmp_path):
    path = tmp_path / "facts.jsonl"
    whole = lines(batch(number) for number in range(4))
    path.write_bytes(whole[:-10])
    followed = follow(path)

    def come():
        found = []
        for wait_s, told in followed:
            if wait_s:
                return [fact.batch.number for fact in found]
            found += told
        return None

    assert come() == [0, 1, 2]
    with path.open("ab") as file:
        file.write(whole[-10:])
    assert come() == [3]
    path.write_bytes(lines([batch(7)]))
    assert come() == [7]
    with path.open("ab") as file:
        file.write(lines([batch(8)]))
    path.rename(tmp_path / "facts.jsonl.1")
    path.write_bytes(lines([batch(9), batch(10)]))
    assert come() == [8, 9, 10]
    path.unlink()
    assert come() == []


@pytest.mark.parametrize("later", [3, 5])
def test_a_file_that_another_has_replaced_under_its_number_is_read_from_its_beginning(tmp_path, later):
    """It may be as long as the one before, or longer."""
    path = tmp_path / "facts.jsonl"
    path.write_bytes(lines(batch(number) for number in range(3)))
    followed = follow(path)
    told = [*next(followed)[1], *next(followed)[1]]
    path.write_bytes(lines(batch(number) for number in range(5, 5 + later)))
    told += next(followed)[1]
    assert [fact.batch.number for fact in told] == [0, 1, 2, *range(5, 5 + later)]


def test_a_file_that_a_link_leads_to_is_followed_when_it_is_begun_anew_and_when_the_link_leads_elsewhere(tmp_path):
    (tmp_path / "data").mkdir()
    link, file = tmp_path / "facts.jsonl", tmp_path / "data" / "one.jsonl"
    file.write_bytes(lines([batch(1)]))
    link.symlink_to(file)
    followed = follow(link)
    told = [*next(followed)[1], *next(followed)[1]]
    with file.open("ab") as writing:
        writing.write(lines([batch(2)]))
    file.rename(tmp_path / "data" / "one.jsonl.1")
    file.write_bytes(lines([batch(3)]))
    told += [fact for _, some in islice(followed, 3) for fact in some]
    (tmp_path / "data" / "two.jsonl").write_bytes(lines([batch(4)]))
    link.unlink()
    link.symlink_to(tmp_path / "data" / "two.jsonl")
    told += next(followed)[1]
    assert [fact.batch.number for fact in told] == [1, 2, 3, 4]


def test_a_file_of_a_folder_that_is_renamed_is_not_read_twice(tmp_path):
    path = tmp_path / "facts.jsonl"
    path.write_bytes(lines([batch(1)]))
    followed = follow(tmp_path)
    told = [next(followed), next(followed)]
    with path.open("ab") as file:
        file.write(lines([batch(2)]))
    path.rename(tmp_path / "facts.jsonl.1")
    path.write_bytes(lines([batch(3)]))
    told += [next(followed), next(followed)]
    assert sorted(fact.batch.number for _, facts in told for fact in facts) == [1, 2, 3]


def test_what_is_no_file_is_refused_without_a_look_into_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableFile, match="is no file"):
        check_readable(tmp_path / "pipe")


def test_a_line_that_is_no_record_is_told_and_the_other_files_are_read_on(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(lines([batch(1)]) + b"not a record\n")
    (tmp_path / "b.jsonl").write_bytes(lines([batch(2)]))
    (tmp_path / "notes.txt").write_text("nothing for us")
    told = [one for _, some in islice(follow(tmp_path), 4) for one in some]
    assert 2 in {one.batch.number for one in told if isinstance(one, Fact)}
    (said,) = [one for one in told if isinstance(one, str)]
    assert "line 2 of" in said
    assert "a.jsonl" in said


def test_nothing_outside_a_folder_is_read(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside.jsonl"
    inside.mkdir()
    outside.write_bytes(lines([batch(1)]))
    (inside / "link.jsonl").symlink_to(outside)
    (inside / "own.jsonl").write_bytes(lines([batch(2)]))
    (inside / "again.jsonl").symlink_to(inside / "own.jsonl")
    (inside / "folder.jsonl").mkdir()
    (inside / "loop.jsonl").symlink_to(inside / "loop.jsonl")
    (inside / "lost.jsonl").symlink_to(inside / "nothing.jsonl")
    (read,) = files_of(inside)
    assert read.name in {"own.jsonl", "again.jsonl"}


def test_what_cannot_be_watched_is_refused_with_its_name(tmp_path):
    with pytest.raises(MissingFile, match="gone"):
        files_of(tmp_path / "gone")
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b"{}\n")
    with pytest.raises(DamagedData, match="line 1 of"):
        check_readable(bad)
    with pytest.raises(InvalidParameter, match="--speed"):
        next(replay(bad, speed=0.0))


def test_a_replay_keeps_the_order_and_the_pace_of_several_files(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(lines([batch(0), batch(4)]))
    (tmp_path / "b.jsonl").write_bytes(lines([batch(1, run="b"), batch(1_000, run="b")]))
    told = [(wait_s, fact.batch.number) for wait_s, (fact,) in replay(tmp_path, speed=2.0)]
    assert told == [(0.0, 0), (0.5, 1), (1.5, 4), (3.0, 1_000)]


def test_the_demonstration_shows_three_runs_in_the_order_of_time():
    told = list(islice(demonstration(1_000.4), 120))
    facts = [fact for _, (fact,) in told]
    assert facts[0].kind == "keyed"
    assert {fact.kind for fact in facts} == {"keyed", "flow", "send"}
    assert [fact.time for fact in facts] == sorted(fact.time for fact in facts)
    assert 1_000.0 + sum(wait_s for wait_s, _ in told) == pytest.approx(facts[-1].time)


HERE = Asked(host="127.0.0.1:8477")


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (HERE, None),
        (Asked(host="localhost:9999"), None),
        (Asked(host="[::1]:8477"), None),
        (Asked(host="evil.example:8477"), 421),
        (Asked(host="127.0.0.1.evil.example"), 421),
        (Asked(host="10.0.0.7:8477"), 421),
        (Asked(host=""), 421),
        (Asked(host="localhost/../x"), 421),
        (Asked(host="localhost:8477", origin="http://localhost:8477", site="same-origin"), None),
        (Asked(host="localhost:8477", origin="http://evil.example"), 403),
        (Asked(host="localhost:8477", origin="null"), 403),
        (Asked(host="localhost:8477", origin="http://localhost:8888"), 403),
        (Asked(host="localhost:8477", site="cross-site", mode="no-cors"), 403),
        (Asked(host="localhost:8477", site="same-site", mode="cors"), 403),
    ],
)
def test_only_this_machine_by_its_own_names_and_its_own_page_may_read(asked, status):
    refused = Access().refusal(asked, document=False)
    assert (refused and refused[0]) == status


def test_a_link_elsewhere_may_lead_to_the_page_and_not_to_its_records():
    linked = Asked(host="localhost:8477", site="cross-site", mode="navigate")
    assert Access().refusal(linked, document=True) is None
    assert Access().refusal(linked, document=False)[0] == 403


def test_a_token_is_asked_for_by_every_name():
    access = Access(frozenset({"box"}), "a token of some length")
    assert access.refusal(Asked(host="box:1"), document=True)[0] == 401
    assert access.refusal(Asked(host="box:1", token="another"), document=True)[0] == 401
    assert access.refusal(Asked(host="box:1", token="ä"), document=True)[0] == 401
    assert access.refusal(Asked(host="10.0.0.7:1", token="a token of some length"), document=False) is None
    assert access.refusal(Asked(host="evil.example", token="a token of some length"), document=False)[0] == 421


def test_which_addresses_are_this_machines_alone():
    assert [is_loopback(one) for one in ("localhost", "127.0.0.1", "127.9.9.9", "::1")] == [True] * 4
    assert [is_loopback(one) for one in ("0.0.0.0", "::", "10.1.2.3", "box", "")] == [False] * 5
