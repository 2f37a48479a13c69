"""Every command that a page shows is one that there is: its name, its options, the target of make, the dataflow in YAML."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml
from typer.main import get_command

from documents import PAGES, ROOT, blocks, called
from evenly.cli.main import COMMANDS, command_line
from evenly.dataflow.files import parse_dataflow

EVENLY = get_command(command_line(COMMANDS))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
OTHERWISE_CALLED = {"py", "python3", "pycon", "bash", "shell", "console", "yml"}


def shown(page, program):
    """Command lines of a program, in fences and in back-quotes; what stands for several (`a|b`) or is cut short is left out."""
    text = page.read_text("utf-8")
    lines = [line.removeprefix("$ ") for block in blocks(page, "", "sh") for line in block.splitlines()]
    lines += re.findall(rf"`({program} [^`\n]+)`", text)
    return [line for line in lines if line.startswith(f"{program} ") and not re.search(r"\||…|\.\.\.", line)]


def unknown(line):
    """What of a command line there is not; None if all is there."""
    words = shlex.split(line.split("  ")[0], comments=True)[1:]
    command = EVENLY
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands") and words and not words[0].startswith("-") and words[0].islower() and words[0].isalpha():
        return words[0]
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    return next((word for word in words if word.startswith("--") and word.partition("=")[0] not in known), None)


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_commands_and_their_options_are_there(page):
    assert {line: unknown(line) for line in shown(page, "evenly") if unknown(line)} == {}
    assert {line for line in shown(page, "make") if shlex.split(line)[1] not in TARGETS} == set()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "yaml")], ids=called)
def test_yaml_is_yaml_and_dataflows_are_understood(page):
    for text in blocks(page, "yaml"):
        assert yaml.safe_load(text)
        if text.startswith("dataflow:"):
            assert parse_dataflow(text, file=called(page)).operators


def test_python_and_commands_are_called_so_that_none_is_left_out():
    found = {
        (called(page), kind) for page in PAGES for kind in re.findall(r"^```(\w+)$", page.read_text("utf-8"), re.MULTILINE)
    }
    assert {one for one in found if one[1] in OTHERWISE_CALLED} == set(), "write python, sh or yaml"


def test_a_command_that_there_is_not_is_seen():
    assert unknown("evenly diagnose logs events/") == "logs"
    assert unknown("evenly diagnose log events/ --pages x.html") == "--pages"
    assert unknown("evenly diagnose log events/ --page x.html   # the picture") is None
