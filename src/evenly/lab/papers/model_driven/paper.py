"""The model-driven scheduling paper (Shukla and Simmhan, 2017): its figures, one function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evenly.errors import InvalidParameter
from evenly.lab.papers.model_driven.bench import MICRO, REHEARSED, Bench
from evenly.lab.papers.model_driven.rates import figure_latency, figure_rates, figure_rehearsed, figure_scale, figure_usage
from evenly.lab.papers.model_driven.slots import figure_applications, figure_micro, figure_models
from evenly.planning.plan import PAIRS
from evenly.report.figures import PaperFigure

TITLE = "Model-driven Scheduling for Distributed Stream Processing Systems"
CITATION = "Shukla, Simmhan: Journal of Parallel and Distributed Computing, 2018 (arXiv 1702.01785)"
EACH = "rehearsals of plans"
FOOTNOTE = (
    "Slots: cores with their share of memory. LSA and MBA say how many threads, DSM, RSM and SAM where they sit. Observed "
    "rates are those of the simulator, whose threads take what the performance models say, more or less by chance. The "
    "models' points are the authors'; dataflows whose operators are not published are synthetic. Values that begin with "
    "ours are bars of this project."
)


@dataclass(frozen=True)
class Experiment:
    """A figure's function, and how many rehearsals it needs that others may share."""

    make: Callable[[Bench], PaperFigure]
    fixed: bool = False
    rehearsed: bool = False


FIGURES: dict[str, Experiment] = {
    "models": Experiment(figure_models),
    "slots-micro": Experiment(figure_micro),
    "slots-applications": Experiment(figure_applications),
    "rates": Experiment(figure_rates, fixed=True),
    "usage": Experiment(figure_usage, fixed=True),
    "latency": Experiment(figure_latency, fixed=True),
    "rehearsed": Experiment(figure_rehearsed, rehearsed=True),
    "scale": Experiment(figure_scale),
}
"""The numbers of the figures are lost in the text, so they have names."""


def chosen(figures: Sequence[str]) -> list[str]:
    """The figures of these names, all if none is named, in the order of the paper."""
    unknown = sorted(set(figures) - FIGURES.keys())
    if unknown:
        raise InvalidParameter(f"there is no figure {unknown[0]!r} to rerun: choose from {', '.join(FIGURES)}")
    return [name for name in FIGURES if name in figures or not figures]


def work(figures: Sequence[str]) -> int:
    """How many rehearsals the figures need."""
    fixed = len(MICRO) * len(PAIRS) if any(FIGURES[name].fixed for name in figures) else 0
    return fixed + (REHEARSED if any(FIGURES[name].rehearsed for name in figures) else 0)
