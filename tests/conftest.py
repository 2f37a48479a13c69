"""For all tests: examples, recorded streams where they are there, and how long each folder took, printed at the end.

Property tests draw the same examples in each run where `CI` is set.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import settings

import quick_java

settings.register_profile("evenly", deadline=None, max_examples=60, print_blob=True, derandomize="CI" in os.environ)
settings.load_profile("evenly")
quick_java.hurry()

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
