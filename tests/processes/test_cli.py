"""The command: help and errors."""

import subprocess
import sys

import pytest

import evenly


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "evenly", *arguments], capture_output=True, text=True, timeout=900)


def test_help_names_every_command_and_where_to_start():
    printed = run("--help")
    assert printed.returncode == 0
    assert "demo" in printed.stdout
    assert "evenly demo" in printed.stdout


def test_the_version_is_the_packages():
    assert run("--version").stdout.strip() == f"evenly {evenly.__version__}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--instances", "0"], "instances must be a whole number from 1 to 10000, got 0"),
        (["--rows", "0"], "--rows must be at least 1, got 0"),
        (["--wait-us", "-1"], "--wait-us must be from 0 to 1000000, got -1.0"),
        (["--page", "no/such/folder/page.html"], "--page must name a file in a folder that exists, got no/such/folder"),
    ],
)
def test_a_bad_option_gives_one_sentence_and_no_traceback(options, said):
    printed = run("demo", *options)
    assert printed.returncode == 2
    assert said in printed.stderr.replace("\n", " ")
    assert "Traceback" not in printed.stderr
    assert printed.stdout == ""
