"""The server of a live page, over real sockets: who may read it, what it gives, and how it ends."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing

import pytest

import command
from evenly.errors import InvalidParameter
from evenly.facts.emitting import Teller
from evenly.facts.sample import drifting_stream
from evenly.watching.attached import watch_here
from evenly.watching.live import LiveWatch
from waiting import until

TOKEN = "a-token-of-some-length"


@pytest.fixture
def live():
    with LiveWatch(title="a test") as one:
        for fact in drifting_stream(batches=3):
            one.add(fact)
        yield one


def ask(live, path="/", method="GET", **headers):
    """Status, headers and text of an answer; of the stream of events only its first part."""
    with closing(http.client.HTTPConnection("127.0.0.1", live.port, timeout=30)) as connection:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        body = (
            answer.read1(200_000) if answer.headers.get("content-type", "").startswith("text/event-stream") else answer.read()
        )
        return answer.status, answer.headers, body.decode()


def records(live, **headers):
    """The records that a new reader gets first."""
    with closing(http.client.HTTPConnection("127.0.0.1", live.port, timeout=30)) as connection:
        connection.request("GET", "/events", headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer, text = connection.getresponse(), ""
        while not text.endswith("\n\n") or "id: " not in text:
            text += answer.read1(200_000).decode()
        return re.findall(r"^id: (\S+)\nevent: fact\ndata: (.*)$", text, re.MULTILINE)


def test_the_page_its_files_and_its_records_are_served(live):
    status, headers, text = ask(live)
    assert (status, "live.js" in text) == (200, True)
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers
    assert ask(live, "/live.js")[0] == ask(live, "/live.css")[0] == 200
    found = records(live)
    assert [json.loads(line)["event"] for _, line in found] == ["start", "batch", "batch", "batch", "end"]
    after = records(live, last_event_id=found[2][0])
    assert after == found[3:]
    assert records(live, last_event_id="other.3") == found


def test_names_that_are_not_ours_and_pages_of_others_are_refused(live):
    assert ask(live, Host="evil.example")[0] == 421
    assert ask(live, "/events", Host=f"evil.example:{live.port}")[0] == 421
    assert ask(live, "/events", Origin="http://evil.example")[0] == 403
    assert ask(live, "/events", Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(live, "/live.js", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 403
    _, headers, _ = ask(live, "/events", Origin="http://evil.example")
    assert [name for name in headers if name.lower().startswith("access-control")] == []
    assert ask(live, "/events", method="OPTIONS", Origin="http://evil.example")[0] == 403
    assert ask(live, method="POST")[0] == 405
    assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/%2e%2e/%2e%2e/etc/passwd", "/live.py", "/etc/passwd", "//etc/passwd", "/live.js/"]
)
def test_no_other_path_is_served(live, path):
    assert ask(live, path)[0] == 404


def test_another_address_needs_a_token_and_a_token_is_asked_of_everybody():
    with pytest.raises(InvalidParameter, match=r"0\.0\.0\.0: give a token"):
        LiveWatch(title="a test", host="0.0.0.0")
    with pytest.raises(InvalidParameter, match="at least 16 characters"):
        LiveWatch(title="a test", token="short")
    with pytest.raises(InvalidParameter, match="ASCII"):
        LiveWatch(title="a test", token="€ and letters enough")
    with LiveWatch(title="a test", host="0.0.0.0", token=TOKEN) as live:
        assert f"?token={TOKEN}" in live.url
        assert TOKEN not in repr(live)
        assert ask(live)[0] == ask(live, "/events")[0] == ask(live, "/?token=wrong-token-of-length")[0] == 401
        assert ask(live, f"/events?token={TOKEN}")[0] == 401  # only the page takes it from the address
        status, headers, _ = ask(live, f"/?token={TOKEN}")
        assert (status, headers["location"]) == (303, "/")
        cookie = headers["set-cookie"]
        assert "httponly" in cookie.lower()
        assert "samesite=strict" in cookie.lower()
        assert ask(live, Cookie=cookie.partition(";")[0])[0] == 200
        assert ask(live, Authorization=f"Bearer {TOKEN}")[0] == 200
        assert ask(live, Authorization=f"Bearer {TOKEN}", Host="evil.example")[0] == 421


def test_a_port_that_is_taken_is_one_clear_error(live):
    with pytest.raises(InvalidParameter, match=f"{live.port} cannot be served"):
        LiveWatch(title="another", port=live.port)


def test_it_ends_with_readers_there_and_a_second_end_does_nothing(live):
    with closing(http.client.HTTPConnection("127.0.0.1", live.port, timeout=30)) as reading:
        reading.request("GET", "/events")
        reading.getresponse().read1(100)
        live.close()
        live.close()
    with pytest.raises(OSError, match=r".*"):
        ask(live)
    assert "closed" in repr(live)
    assert "iframe" not in live._repr_html_()


def test_what_runs_in_this_process_is_shown_from_its_last_records_on():
    teller = Teller(kind="keyed", clock=iter(range(100)).__next__)
    other = Teller(kind="keyed", clock=iter(range(100)).__next__)
    teller.begin("mine", "visits", instances=4)
    with watch_here(lambda: teller.recent, runs=lambda: frozenset({"mine"}), title="visits") as live:
        other.begin("another")
        teller.end()
        until(lambda: live.history.last == 2, "both records")
        found = [json.loads(entry.line) for entry in live.history.since(0)]
    assert [(one["run"], one["event"]) for one in found] == [("mine", "start"), ("mine", "end")]
    assert f'src="{live.url}"' not in live._repr_html_()


def _interruptible():
    """A shell has what it runs in the background ignore interrupts, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_command_prints_its_address_and_ends_with_an_interrupt(tmp_path):
    path = tmp_path / "facts.jsonl"
    path.write_bytes(b"".join(fact.to_json() + b"\n" for fact in drifting_stream(batches=2)))
    arguments = [sys.executable, "-m", "evenly", "watch", str(path), "--no-browser", "--port", "0"]
    environment = {**os.environ, "EVENLY_WATCH_TOKEN": TOKEN}
    running = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=_interruptible,  # noqa: PLW1509 - nothing of this process is touched
    )
    try:
        url = running.stdout.readline().strip()
        port = int(re.search(r":(\d+)/", url)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        with closing(connection):
            connection.request("GET", f"/?token={TOKEN}")
            assert connection.getresponse().status == 303
    finally:
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 0
    assert TOKEN not in said


def test_an_interrupt_that_comes_with_the_address_ends_it_well_too(tmp_path, monkeypatch, capsys):
    noted = []

    def interrupted(text):
        noted.append(text)
        if len(noted) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("evenly.cli.watch.note", interrupted)
    (tmp_path / "facts.jsonl").touch()
    assert command.told(monkeypatch, capsys, "watch", tmp_path / "facts.jsonl", "--no-browser", "--port", "0")[0] == 0
    assert noted[1:] == ["Ended."]


def test_mistakes_on_the_command_line_are_one_sentence(tmp_path, monkeypatch, capsys):
    def told(*arguments):
        code, _, said = command.told(monkeypatch, capsys, "watch", "--no-browser", "--port", "0", *arguments)
        assert code == 2
        return said

    assert "evenly watch --demo" in told()
    assert "does not exist" in told(tmp_path / "gone.jsonl")
    assert "leave the path" in told(tmp_path, "--demo")
    assert "give --replay too" in told(tmp_path, "--speed", "3")
    assert "nothing to replay" in told(tmp_path, "--replay")
    assert "give a token" in told(tmp_path, "--host", "0.0.0.0")


def test_without_its_web_server_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("evenly.watching.live.find_spec", lambda _: None)
    code, _, said = command.told(monkeypatch, capsys, "watch", "--demo")
    assert code == 2
    assert "pip install 'evenly[watch]'" in said
