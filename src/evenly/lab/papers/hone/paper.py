"""The Hone paper (Li, Liu, Chen, Li, Qi, TPDS 2021): the figures of its simulation, one function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evenly.errors import InvalidParameter
from evenly.lab.papers.hone.bench import Bench, Link
from evenly.lab.papers.hone.figures import BY_QUEUES, BY_RATE, figure_6, figure_7, figure_8
from evenly.report.figures import PaperFigure

TITLE = "Hone: Mitigating Stragglers in Distributed Stream Processing With Tuple Scheduling"
CITATION = "Li, Liu, Chen, Li, Qi: IEEE TPDS 32(8), 2021, doi 10.1109/TPDS.2021.3051059"
EACH = "runs of 10,000 slots of 100 µs a point"
FOOTNOTE = (
    "lbf takes the largest backlog before the slot's arrivals, as algorithm 1 reads; lbf-a counts them too. rrb also visits "
    "empty queues, as in the paper; skipping-rr does not. Delays count tuples that still wait at the end. Figures 1 to 5 and 9 "
    "are drawings, 10 to 14 measurements of the authors' cluster."
)


@dataclass(frozen=True)
class Experiment:
    """A figure's function and the links that it needs."""

    make: Callable[[Bench], PaperFigure]
    links: tuple[Link, ...]


FIGURES: dict[str, Experiment] = {
    "6": Experiment(figure_6, (*BY_RATE, *BY_QUEUES)),
    "7": Experiment(figure_7, (*BY_RATE, *BY_QUEUES, Link(20, 500))),
    "8": Experiment(figure_8, (*BY_RATE, *BY_QUEUES)),
}
"""Figures 1 to 5 and 9 are drawings; 10 to 14 are measurements of the authors' Storm cluster."""


def chosen(figures: Sequence[str]) -> list[str]:
    """The figures of these names, all if none is named, in the order of the paper."""
    unknown = sorted(set(figures) - FIGURES.keys())
    if unknown:
        raise InvalidParameter(f"there is no figure {unknown[0]!r} to rerun: choose from {', '.join(FIGURES)}")
    return [name for name in FIGURES if name in figures or not figures]


def work(figures: Sequence[str], runs: int) -> int:
    """How many runs the figures need; those that share a link share its runs."""
    return runs * len({link for name in figures for link in FIGURES[name].links})
