"""A paper as it is rerun: its words, its figures, and what each of them takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from evenly.errors import InvalidParameter
from evenly.report.figures import PaperFigure
from evenly.report.paper_page import Paper

_TABLE = re.compile(r"(table[ -]?|t(?=\d))")


class Bench(Protocol):
    """Runs what a paper's figures show and keeps the results, so that figures of the same runs share them."""

    @property
    def seed(self) -> int:
        """Another seed draws other streams."""

    progress: Callable[[int], None] | None
    """Hears of every run that is done."""

    def count(self, setting: Any) -> int:
        """How many runs a setting gets."""


@dataclass(eq=False)
class RunsBench:
    """A bench that makes so many `runs` of every setting, by so many `workers` (None: one for each core)."""

    runs: int
    seed: int = 0
    workers: int | None = None
    progress: Callable[[int], None] | None = None

    def count(self, _: Any) -> int:
        """How many runs a setting gets."""
        return self.runs

    def advance(self) -> None:
        """Another run is done."""
        if self.progress is not None:
            self.progress(1)


B = TypeVar("B", bound=Bench)


@dataclass(frozen=True)
class Experiment(Generic[B]):
    """A figure's function, the settings whose runs it shares with other figures, and how many runs it makes alone; `ours` if it
    has no statement of the paper.
    """

    make: Callable[[B], PaperFigure]
    settings: Sequence[Hashable] = ()
    own: Callable[[B], int] = lambda _: 0
    ours: bool = False


@dataclass(frozen=True)
class Publication(Generic[B]):
    """One paper: `each` is what a run is, `footnote` explains words, `name` is that of its command and files."""

    name: str
    title: str
    citation: str
    each: str
    footnote: str
    figures: Mapping[str, Experiment[B]]
    on_spark: bool = False

    def chosen(self, names: Sequence[str]) -> list[str]:
        """The figures of these names, all if none is named, in the order of the paper."""
        wanted = {_TABLE.sub("table-", name.lower(), count=1) if _TABLE.match(name.lower()) else name for name in names}
        unknown = sorted(wanted - self.figures.keys())
        if unknown:
            verb = "run on Spark" if self.on_spark else "rerun"
            raise InvalidParameter(f"there is no figure {unknown[0]!r} to {verb}: choose from {', '.join(self.figures)}")
        return [name for name in self.figures if name in wanted or not wanted]

    @property
    def stated(self) -> list[str]:
        """The figures with statements of the paper."""
        return [name for name, figure in self.figures.items() if not figure.ours]

    def work(self, names: Sequence[str], bench: B) -> int:
        """How many runs the figures need; those that share a setting share its runs."""
        figures = [self.figures[name] for name in names]
        shared = {setting for figure in figures for setting in figure.settings}
        return sum(map(bench.count, shared)) + sum(figure.own(bench) for figure in figures)

    def about(self, runs: int, seed: int, seconds: float) -> Paper:
        """What its page says of it and of a campaign."""
        return Paper(self.title, self.citation, runs, seed, seconds, each=self.each, footnote=self.footnote)
