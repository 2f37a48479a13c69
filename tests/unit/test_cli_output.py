"""What commands say reaches people whole: brackets, long tables in narrow terminals, errors of the machine."""

from __future__ import annotations

import errno
import io
import sys
from dataclasses import replace

import pytest
from rich.text import Text

import event_logs as made
from command import run, told
from evenly.cli import output
from evenly.cli.diagnose import _LOG_HEADINGS, _STAGE, _log_line
from evenly.cli.main import COMMANDS, command_line
from evenly.diagnosis.causes import diagnose_stage
from evenly.diagnosis.findings import Cause, Repeated
from evenly.errors import UnwritableFile
from evenly.files import write_whole
from evenly.report.page import rendered
from past_stages import stage


@pytest.fixture(params=[40, 80])
def narrow(request, monkeypatch):
    monkeypatch.setattr(output.results, "_width", request.param)
    assert output.results.width == request.param


@pytest.mark.parametrize("name", ["[bold]rows.parquet", "[/x].parquet", "run[1].csv"])
def test_brackets_in_what_a_user_gave_are_printed_as_they_are(monkeypatch, capsys, name):
    code, _, said = told(monkeypatch, capsys, "simulate", "keys", name, "--key", "user")
    assert code == 2
    assert said.startswith(f"error: {name} is not a file")


@pytest.mark.parametrize("command", [("simulate", "keys"), ("diagnose", "keys")])
def test_headings_that_are_not_utf_8_are_told_in_a_sentence(monkeypatch, capsys, tmp_path, command):
    (tmp_path / "rows.csv").write_bytes("größe,user\n1,2\n".encode("latin-1"))
    code, out, said = told(monkeypatch, capsys, *command, tmp_path / "rows.csv", "--key", "user", "--json")
    assert (code, out) == (2, "")
    assert "rows.csv are not UTF-8: save it again as UTF-8" in said


def test_styles_are_no_part_of_the_text(capsys):
    output.say("saved ", ("12 s", "bold"), " [at best]")
    assert capsys.readouterr().out == "saved 12 s [at best]\n"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_where_a_letter_cannot_be_written_the_rest_is(encoding, monkeypatch, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(made.text(made.skewed_job()))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding, write_through=True))
    assert run(monkeypatch, "diagnose", "log", path) == 0
    assert b"(? 150 %), by user, day" in written.getvalue()


def test_a_full_disk_is_told_in_a_sentence(monkeypatch, capsys, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(made.text(made.skewed_job()))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(output.results, "print", full)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # the command gives it up
    assert run(monkeypatch, "diagnose", "log", path) == 2
    assert "error: the result could not be written" in capsys.readouterr().err


def test_a_path_that_is_no_text_can_stand_on_a_page():
    texts = dict.fromkeys(("title", "headline", "remark", "explained"), "")
    assert "log ?" in rendered("diagnosis", numbers=[], lead="log \udcff", sections=[], tables=[], **texts)


def test_data_does_not_steer_the_terminal(capsys):
    output.say("a\x1b[2Jb\r", ("c\x07", "bold"), "\nd\x9b")
    output.print_table(("key", "rows"), [("k\x1b[31m", "1")])
    printed = capsys.readouterr().out
    assert printed.startswith("a\ufffd[2Jb\ufffdc\ufffd\nd\ufffd\n")
    assert "k\ufffd[31m" in printed
    assert "\x1b" not in printed


@pytest.mark.usefixtures("narrow")
def test_no_terminal_is_too_narrow_for_a_number(capsys):
    lines = [("12 mapPartitions at somewhere/in/a/long/path.py:12", "1,234,567", "541,332", "98,765,432", "a hot key [x]")]
    headings = ("stage", "rows of all instances", "bytes", "milliseconds", "cause")
    output.print_table(headings, lines * 2, left=(0, 4), folded=0)
    printed = capsys.readouterr().out
    assert all(printed.count(text) == 2 for text in lines[0][1:])
    assert all(text in printed for text in headings)
    assert "".join(line[:18].strip() for line in printed.splitlines()[3:6]).startswith("12 mapPartitions")


@pytest.mark.usefixtures("narrow")
def test_columns_that_do_not_fit_follow_below_with_their_names(capsys):
    headings = ("S_L", *(f"{at} ms away, 105 %" for at in range(8)))
    lines = [("posg-cp (the one of all verdicts)", *(f"{at}.25" for at in range(8))), ("evenly", *"abcdefgh")]
    output.print_in_parts(headings, lines)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= output.results.width
    assert all(printed.count(text) == 1 for text in (*headings[1:], *lines[0][1:]))
    assert printed.count("evenly") == printed.count("S_L") > 1
    output.print_pairs([[Text("not reproduced"), Text("word " * 40 + "\nwhy: because")]])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= output.results.width
    assert printed.count("word") == 40
    assert f"\n{' ' * 16}why: because" in printed


@pytest.mark.usefixtures("narrow")
def test_help_is_broken_where_the_terminal_ends(monkeypatch, capsys):
    """Not also where a line of the source ends."""
    monkeypatch.setenv("COLUMNS", "60")
    _, printed, _ = told(monkeypatch, capsys, "paper", "posg", "--help")
    paragraph = printed[printed.index("Every value") : printed.index("Options")]
    lines = [line.strip() for line in paragraph.splitlines() if line.strip()]
    assert all(len(line) > 40 for line in lines[:-2])


def test_every_command_says_what_it_does():
    app = command_line(COMMANDS)
    groups = [app, *(group.typer_instance for group in app.registered_groups)]
    assert all(command.help for group in groups for command in group.registered_commands)


def test_the_list_of_commands_says_what_the_commands_themselves_say():
    """It is made without loading them."""
    app = command_line(COMMANDS)
    said = {command.name: command.help.split("\n\n")[0] for command in app.registered_commands}
    said |= {group.name: group.typer_instance.info.help for group in app.registered_groups}
    assert said == {name: command.summary for name, command in COMMANDS.items()}


def test_a_page_that_cannot_be_written_is_told_before_the_work(monkeypatch, capsys, tmp_path):
    for command in (("simulate", "keys", "rows.parquet", "--key", "user"), ("demo",)):
        code, _, said = told(monkeypatch, capsys, *command, "--page", tmp_path)
        assert (code, said) == (2, f"error: --page must name a file in a folder that exists, got {tmp_path}")
    (tmp_path / "file").touch()
    code, _, said = told(monkeypatch, capsys, "demo", "--event-log", tmp_path / "file")
    assert code == 2
    assert said.startswith(f"error: --event-log must name a folder that can be made and written to, got {tmp_path}/file")


def test_a_file_that_cannot_be_written_is_an_error_of_ours(tmp_path):
    with pytest.raises(UnwritableFile, match=r"none/page\.html cannot be written \(there is no folder .*none\)"):
        write_whole(tmp_path / "none" / "page.html", "text")
    with pytest.raises(UnwritableFile, match="cannot be written"):
        write_whole(tmp_path, "text")
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_stages_fits_80_columns_whatever_the_cause(monkeypatch, capsys):
    monkeypatch.setattr(output.results, "_width", 80)
    found = diagnose_stage(stage([60_000] * 17, [20_000] * 17, slots=4))
    lines = [_log_line(Repeated(replace(found, cause=cause), 1, 99.9)) for cause in Cause]
    output.print_table(_LOG_HEADINGS, lines, left=(0, len(_LOG_HEADINGS) - 1), folded=0, folded_at_least=_STAGE)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert all(part in out for cause in Cause for part in cause.value.split())
