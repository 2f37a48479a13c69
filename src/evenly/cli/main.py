"""The command `evenly` itself: its commands, and how errors reach people."""

from __future__ import annotations

import inspect
import sys
from typing import Annotated

import typer

import evenly
from evenly.cli import demo, diagnose, paper, paper_shuffle, plan, profile, simulate, simulate_batches, simulate_shuffle
from evenly.cli.output import say
from evenly.errors import EvenlyError

app = typer.Typer(
    name="evenly",
    help="Keeps the parallel instances of a Spark stage equally busy.",
    epilog="Start with: evenly demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.add_typer(diagnose.app)
paper.app.command("posg")(paper_shuffle.posg)
paper.app.command("osg")(paper_shuffle.osg)
app.command("plan")(plan.plan_command)
app.command("profile")(profile.profile)
app.add_typer(paper.app)
simulate.app.command("shuffle")(simulate_shuffle.shuffle)
simulate.app.command("batches")(simulate_batches.batches)
app.add_typer(simulate.app)


def _unwrap_help(commands: typer.Typer) -> None:
    """Paragraphs of help as long as the terminal is wide, and not as the lines of the source are."""
    for command in commands.registered_commands:
        paragraphs = inspect.cleandoc(command.help or getattr(command.callback, "__doc__", None) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _unwrap_help(group.typer_instance)


_unwrap_help(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenly {evenly.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keeps the parallel instances of a Spark stage equally busy."""


def main() -> None:
    """Run the command; an error of ours is one sentence, not a traceback."""
    try:
        app()
    except EvenlyError as error:
        say(("error:", "bold red"), f" {error}")
        sys.exit(2)
