"""The command `evenly` itself: its commands, each loaded when it is called, and how errors reach people."""

from __future__ import annotations

import errno
import inspect
import io
import os
import sys
from collections.abc import Collection
from importlib import import_module
from typing import Annotated, NamedTuple

import typer

import evenly
from evenly.cli.output import note
from evenly.errors import EvenlyError


class _Command(NamedTuple):
    module: str
    name: str
    """Of the function, or of the `Typer` where it is a group of commands."""
    summary: str
    """What the list of commands says of it, without loading it."""


COMMANDS = {
    "demo": _Command(
        "evenly.cli.demo", "demo", "Run a skewed PySpark job twice, by Spark's hash and with Evenly, and show who was busy."
    ),
    "diagnose": _Command("evenly.cli.diagnose", "app", "Say what is uneven, why, and what would fix it."),
    "mapping": _Command("evenly.cli.mapping", "app", "Look at the versions of a streaming query's mapping, or go back to one."),
    "plan": _Command(
        "evenly.cli.plan",
        "plan_command",
        "Say how many threads, slots and machines a dataflow needs for a rate, what breaks first, and how sure that is.",
    ),
    "profile": _Command(
        "evenly.cli.profile",
        "profile",
        "Measure what threads of an operator carry on one slot: the peak stable rate, cpu and memory for each number of them.",
    ),
    "remember": _Command(
        "evenly.cli.remember", "app", "Look at what runs with remember= have left for the next ones, or have it learnt anew."
    ),
    "run": _Command("evenly.cli.run", "run_command", "Run a dataflow on Spark: as a streaming query, or once over tables."),
    "paper": _Command("evenly.cli.paper", "app", "Rerun a published paper and compare."),
    "simulate": _Command("evenly.cli.simulate", "app", "Try groupings on your own data, without Spark."),
    "watch": _Command(
        "evenly.cli.watch",
        "watch",
        "Show what runs in the browser, while it runs: instances, λ, heavy keys, batches, backlogs and every decision.",
    ),
}


def command_line(loaded: Collection[str]) -> typer.Typer:
    """The command, with these of its commands loaded: the others can be listed, not run."""
    app = typer.Typer(
        name="evenly",
        help="Keeps the parallel instances of a Spark stage equally busy.",
        epilog="Start with: evenly demo",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name, (module, attribute, summary) in COMMANDS.items():
        if name not in loaded:
            app.command(name, help=summary)(_not_loaded)
            continue
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    _unwrap_help(app)
    return app


def _not_loaded() -> None:
    """Never run: a command that is named is loaded."""


def _unwrap_help(commands: typer.Typer) -> None:
    """Paragraphs of help as long as the terminal is wide, and not as the lines of the source are."""
    for command in commands.registered_commands:
        paragraphs = inspect.cleandoc(command.help or getattr(command.callback, "__doc__", None) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _unwrap_help(group.typer_instance)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenly {evenly.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keeps the parallel instances of a Spark stage equally busy."""


def main() -> None:
    """Run the command; an error of ours is one sentence, not a traceback."""
    completing = "_EVENLY_COMPLETE" in os.environ
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Not every terminal or file has a λ, or what a user's names are written in: better a mark than no result.
        sys.stdout.reconfigure(errors="replace")
    try:
        command_line(COMMANDS if completing else sys.argv[1:])()
    except EvenlyError as error:
        note(("error:", "bold red"), f" {error}")
        sys.exit(2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        note(("error:", "bold red"), f" the result could not be written: {error}. Send it to a file on another disk")
        sys.stdout = None  # what it still holds cannot be written either
        sys.exit(2)
