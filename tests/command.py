"""The command `evenly`, run in this process."""

from __future__ import annotations

import sys

import pytest

from evenly.cli.main import main


def run(monkeypatch, *arguments):
    """Its exit code."""
    monkeypatch.setattr(sys, "argv", ["evenly", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code


def told(monkeypatch, capsys, *arguments):
    """Its exit code, what it printed as its result, and what it told beside that, on one line."""
    code = run(monkeypatch, *arguments)
    printed = capsys.readouterr()
    return code, printed.out, " ".join(printed.err.split())
