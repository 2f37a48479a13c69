"""The Hone paper (Li, Liu, Chen, Li, Qi, TPDS 2021): the figures of its simulation, one function each."""

from __future__ import annotations

from evenly.lab.papers.hone.bench import Bench, Link
from evenly.lab.papers.hone.figures import BY_QUEUES, BY_RATE, figure_6, figure_7, figure_8
from evenly.lab.papers.publication import Experiment, Publication

_FOOTNOTE = (
    "lbf takes the largest backlog before the slot's arrivals, as algorithm 1 reads; lbf-a counts them too. rrb also visits "
    "empty queues, as in the paper; skipping-rr does not. Delays count tuples that still wait at the end. Figures 1 to 5 and 9 "
    "are drawings, 10 to 14 measurements of the authors' cluster."
)
PAPER = Publication[Bench](
    name="hone",
    title="Hone: Mitigating Stragglers in Distributed Stream Processing With Tuple Scheduling",
    citation="Li, Liu, Chen, Li, Qi: IEEE TPDS 32(8), 2021, doi 10.1109/TPDS.2021.3051059",
    each="runs of 10,000 slots of 100 µs a point",
    footnote=_FOOTNOTE,
    figures={
        "6": Experiment(figure_6, (*BY_RATE, *BY_QUEUES)),
        "7": Experiment(figure_7, (*BY_RATE, *BY_QUEUES, Link(20, 500))),
        "8": Experiment(figure_8, (*BY_RATE, *BY_QUEUES)),
    },
)
"""Figures 1 to 5 and 9 are drawings; 10 to 14 are measurements of the authors' Storm cluster."""
