"""Python workers as tests want them: ready when they are forked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DAEMON = "ready_workers"
"""The module for Spark to start as `spark.python.daemon.module`. It has a folder of its own, where workers find no tests."""


def find_daemon(environment: pytest.MonkeyPatch) -> None:
    """Let the Python of every process that is started from here find the daemon."""
    environment.setenv("PYTHONPATH", str(Path(__file__).with_name(DAEMON)), prepend=os.pathsep)
