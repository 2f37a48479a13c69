"""The DKG paper (Rivetti, Querzoni, Anceaume, Busnel, Sericola, DEBS 2015): its figures, one function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evenly.errors import InvalidParameter
from evenly.lab.papers.dkg.bench import Bench, Sample
from evenly.lab.papers.dkg.instances import QUADRATIC, ZIPF_2, figure_2, figure_3, figure_4, figure_5, table_1
from evenly.lab.papers.dkg.parameters import BY_BOTH, BY_LENGTH, BY_MU, BY_THETA, figure_6, figure_7, figure_8, figure_9
from evenly.lab.papers.dkg.related import BY_ALPHA, SPLITTING, figure_10, figure_13, figure_14
from evenly.report.figures import PaperFigure

TITLE = "Efficient Key Grouping for Near-Optimal Load Balancing in Stream Processing Systems"
CITATION = "Rivetti, Querzoni, Anceaume, Busnel, Sericola: DEBS 2015, doi 10.1145/2675743.2771827"


@dataclass(frozen=True)
class Experiment:
    """A figure's function and the samples that it needs."""

    make: Callable[[Bench], PaperFigure]
    samples: tuple[Sample, ...]


FIGURES: dict[str, Experiment] = {
    "table-1": Experiment(table_1, (ZIPF_2,)),
    "2": Experiment(figure_2, (ZIPF_2,)),
    "3": Experiment(figure_3, (ZIPF_2,)),
    "4": Experiment(figure_4, (ZIPF_2,)),
    "5": Experiment(figure_5, (QUADRATIC,)),
    "6": Experiment(figure_6, BY_MU),
    "7": Experiment(figure_7, BY_THETA),
    "8": Experiment(figure_8, BY_BOTH),
    "9": Experiment(figure_9, BY_LENGTH),
    "10": Experiment(figure_10, ()),
    "13": Experiment(figure_13, BY_ALPHA),
    "14": Experiment(figure_14, (SPLITTING,)),
}
"""Figures 1, 11 and 12 are left out: a drawing, and measurements of the authors' Storm cluster."""


def chosen(figures: Sequence[str]) -> list[str]:
    """The figures of these names, all if none is named, in the order of the paper."""
    wanted = {"table-1" if name.lower() in {"table1", "table-1", "table 1", "t1"} else name for name in figures}
    unknown = sorted(wanted - FIGURES.keys())
    if unknown:
        raise InvalidParameter(f"there is no figure {unknown[0]!r} to rerun: choose from {', '.join(FIGURES)}")
    return [name for name in FIGURES if name in wanted or not wanted]


def work(figures: Sequence[str], runs: int) -> int:
    """How many runs the figures need; those that share a sample share its runs."""
    return runs * len({sample for name in figures for sample in FIGURES[name].samples})
