"""The Hone paper (Li, Liu, Chen, Li, Qi, TPDS 2021): the figures of its simulation, one function each."""

from __future__ import annotations

from evenly.lab.papers.hone.bench import Bench, Link
from evenly.lab.papers.hone.bound import table_bounds
from evenly.lab.papers.hone.fairness import figure_7
from evenly.lab.papers.hone.figures import BY_QUEUES, BY_RATE, figure_6, figure_8
from evenly.lab.papers.hone.testbed import SETTINGS, figure_10
from evenly.lab.papers.publication import Experiment, Publication

_FOOTNOTE = (
    "lbf takes the largest backlog before the slot's arrivals, as algorithm 1 reads: the reading of the paper in all verdicts. "
    "lbf-a counts them too and stands beside it. rrb also visits empty queues, as in the paper; skipping-rr does not. Delays "
    "count tuples that still wait at the end. Where nothing waits under either rule (0/0) there is neither a factor nor a "
    "reduction: such slots and runs are left out, in every figure. Figures 1 to 5 and 9 are drawings; 10 to 14 are "
    "measurements of the authors' cluster, of which one link is simulated."
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
        "10": Experiment(figure_10, own=lambda bench: bench.count(None) * len(SETTINGS)),
        "bounds": Experiment(table_bounds),
    },
)
