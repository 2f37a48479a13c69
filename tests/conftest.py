"""For all tests: examples, recorded streams where they are there, and how long each folder took, printed at the end.

Property tests draw the same examples in each run where `CI` is set.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import settings

import documented_json
import quick_java
from evenly.cli import output

settings.register_profile("evenly", deadline=None, max_examples=60, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("evenly")
quick_java.hurry()

print_json = output.print_json


def documented_print_json(*arguments) -> None:
    """Every object that a command prints in this process is held against docs/json.md."""
    with redirect_stdout(StringIO()) as printed:
        print_json(*arguments)
    documented_json.check(printed.getvalue())
    sys.stdout.write(printed.getvalue())


output.print_json = documented_print_json

RECORDED = Path(__file__).parents[2] / "shared" / "data"
if RECORDED.is_dir():
    os.environ.setdefault("EVENLY_DATA", str(RECORDED))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    took: dict[str, float] = defaultdict(float)
    tests: dict[str, set[str]] = defaultdict(set)
    for report in (
        report for kind in terminalreporter.stats.values() for report in kind if isinstance(report, pytest.TestReport)
    ):
        folder = PurePosixPath(report.nodeid.partition("::")[0]).parent.as_posix()
        took[folder] += report.duration
        tests[folder].add(report.nodeid)
    terminalreporter.section("seconds by folder, of all workers together")
    for folder, seconds in sorted(took.items()):
        terminalreporter.write_line(f"{seconds:8.1f} s  {len(tests[folder]):5d} tests  {folder}")
