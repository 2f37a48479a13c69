"""How commands speak: results on standard output, for people or as one JSON object; progress, notes and errors beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
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
from rich.text import Text

import evenly

_ENOUGH = 10_000
_LABEL = 14
results = Console(highlight=False, markup=False)
beside = Console(stderr=True, highlight=False, markup=False)
"""Text is printed as it is: names, paths and messages may have square brackets, which `rich` would take for its markup."""

_HARMLESS = dict.fromkeys((*range(10), *range(11, 32), *range(127, 160)), "\ufffd")
"""Control characters, but for line breaks: from a user's data they would steer the terminal."""


def say(*parts: str | tuple[str, str]) -> None:
    """One paragraph of a result: texts, and pairs of a text and its style."""
    results.print(_text(parts), soft_wrap=True)


def note(*parts: str | tuple[str, str]) -> None:
    """The same for what is no result: an error, or where a page was written."""
    beside.print(_text(parts), soft_wrap=True)


def _text(parts: Sequence[str | tuple[str, str]]) -> Text:
    return Text.assemble(
        *(it.translate(_HARMLESS) if isinstance(it, str) else (it[0].translate(_HARMLESS), it[1]) for it in parts)
    )


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
    folded_at_least: int = 16,
    section: Callable[[Sequence[str]], object] = lambda _: None,
) -> None:
    """Lines of text, a result. The columns `left` begin at the left, the column `folded` takes more lines where it is long
    (but stays `folded_at_least` wide), and there is space between lines for which `section` is not the same.
    """
    lines = [[cell.translate(_HARMLESS) for cell in line] for line in lines]
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place in left else "right", no_wrap=place != folded, overflow="fold")
    previous = section(lines[0]) if lines else None
    for line in lines:
        if section(line) != previous:
            table.add_section()
        table.add_row(*line)
        previous = section(line)
    # A terminal that is too narrow breaks the lines: a number that is cut off would be read as another one.
    least = _width(table) - (0 if folded is None else max(0, _longest(headings, lines, folded) - folded_at_least))
    if least > results.width:
        table.width = least
    results.print(table, crop=False)


def print_in_parts(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """A table of which the terminal may be too narrow: columns that do not fit follow below, with the first one again."""
    label = max(cell_len(part) for line in (headings, *lines) for part in line[0].split("\n"))
    fitting: list[int] = []
    taken = label = min(label, max(results.width // 2, _LABEL))
    for place in range(1, len(headings)):
        wide = 2 + max(cell_len(part) for line in (headings, *lines) for part in line[place].split("\n"))
        if fitting and taken + wide + 2 > results.width:
            _print_part(headings, lines, fitting, label)
            fitting, taken = [], label
        fitting.append(place)
        taken += wide
    _print_part(headings, lines, fitting, label)


def _print_part(headings: Sequence[str], lines: Sequence[Sequence[str]], places: Sequence[int], label: int) -> None:
    part = [[line[0], *(line[place] for place in places)] for line in (headings, *lines)]
    print_table(part[0], part[1:], folded=0, folded_at_least=label)


def print_pairs(lines: Sequence[Sequence[Text]]) -> None:
    """What is short on the left, and beside it what may take several lines."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=_LABEL)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(*line)
    results.print(table)


def _width(table: Table) -> int:
    """How wide a table is that has all the room it wants."""
    return Measurement.get(results, results.options.update(max_width=_ENOUGH), table).maximum


def _longest(headings: Sequence[str], lines: Sequence[Sequence[str]], column: int) -> int:
    return max(cell_len(part) for line in (headings, *lines) for part in line[column].split("\n"))


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
    described = TextColumn(f"{{task.description:<{width}}}", markup=False)
    # Where nobody watches nothing moves, and a bar would leave an empty line behind.
    shown = beside.is_terminal
    return Progress(SpinnerColumn(), described, BarColumn(), *columns, console=beside, transient=True, disable=not shown)
