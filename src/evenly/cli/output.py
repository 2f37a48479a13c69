"""How commands speak: people on standard error and in tables, programs in one JSON object on standard output."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

import evenly

people = Console(stderr=True, highlight=False)


def print_json(command: str, parameters: Mapping[str, object], results: Sequence[Mapping[str, object]]) -> None:
    """The one object that a command prints with --json."""
    typer.echo(
        json.dumps({"command": command, "version": evenly.__version__, "parameters": parameters, "results": list(results)})
    )


def print_table(
    headings: Sequence[str],
    lines: Sequence[Sequence[str]],
    *,
    left: Collection[int] = (0,),
    folded: int | None = None,
    section: Callable[[Sequence[str]], object] = lambda _: None,
) -> None:
    """Lines of text for people. The columns `left` begin at the left, the column `folded` takes more lines where it is long,
    and there is space between lines for which `section` is not the same.
    """
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place in left else "right", no_wrap=place != folded, overflow="fold")
    previous = section(lines[0]) if lines else None
    for line in lines:
        if section(line) != previous:
            table.add_section()
        table.add_row(*map(escape, line))
        previous = section(line)
    people.print(table)


def steps_progress() -> Progress:
    """A progress bar over named steps, with the time elapsed."""
    return _progress(34, MofNCompleteColumn(), TimeElapsedColumn())


def runs_progress() -> Progress:
    """A progress bar over many runs, with the time left."""
    return _progress(16, MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())


def bytes_progress() -> Progress:
    """A progress bar over the bytes of a file, with the time left."""
    return _progress(16, DownloadColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())


def _progress(width: int, *columns: ProgressColumn) -> Progress:
    described = TextColumn(f"{{task.description:<{width}}}")
    return Progress(SpinnerColumn(), described, BarColumn(), *columns, console=people, transient=True)
