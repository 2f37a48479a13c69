"""How commands speak: people on standard error and in tables, programs in one JSON object on standard output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import evenly

people = Console(stderr=True, highlight=False)


def print_json(command: str, parameters: Mapping[str, object], results: Sequence[Mapping[str, object]]) -> None:
    """The one object that a command prints with --json."""
    typer.echo(
        json.dumps({"command": command, "version": evenly.__version__, "parameters": parameters, "results": list(results)})
    )


def steps_progress() -> Progress:
    """A progress bar over named steps, with the time elapsed."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=people,
        transient=True,
    )


def runs_progress() -> Progress:
    """A progress bar over many runs, with the time left."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<16}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=people,
        transient=True,
    )


def bytes_progress() -> Progress:
    """A progress bar over the bytes of a file, with the time left."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<16}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=people,
        transient=True,
    )
