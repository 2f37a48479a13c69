"""The DKG paper (Rivetti, Querzoni, Anceaume, Busnel, Sericola, DEBS 2015): its figures, one function each."""

from __future__ import annotations

from evenly.lab.papers.dkg.bench import Bench
from evenly.lab.papers.dkg.instances import QUADRATIC, ZIPF_2, figure_2, figure_3, figure_4, figure_5, table_1
from evenly.lab.papers.dkg.parameters import BY_BOTH, BY_LENGTH, BY_MU, BY_THETA, figure_6, figure_7, figure_8, figure_9
from evenly.lab.papers.dkg.prototype import PITCH, figure_10, figure_11, figure_12
from evenly.lab.papers.dkg.related import BY_ALPHA, SPLITTING, figure_13, figure_14
from evenly.lab.papers.dkg.theorems import FLAT, MODULO, NEAR, OPTIMAL, text, theorems
from evenly.lab.papers.publication import Experiment, Publication

PAPER = Publication[Bench](
    name="dkg",
    title="Efficient Key Grouping for Near-Optimal Load Balancing in Stream Processing Systems",
    citation="Rivetti, Querzoni, Anceaume, Busnel, Sericola: DEBS 2015, doi 10.1145/2675743.2771827",
    each="streams of 100,000 tuples a point",
    footnote=(
        "λ = (max load / mean load − 1) · 100 %; σ is the standard deviation of the instances' loads. Full lines are means "  # noqa: RUF001
        "over the runs, dashed lines the worst run. Worst cases grow with the number of runs. Figure 1 is a drawing. "
        "Figures 10 to 12 were measured on the authors' cluster with a trace that is not public: here they follow from the "
        "loads that simulated instances get of streams with the share that the paper states of its most frequent key."
    ),
    figures={
        "theorems": Experiment(theorems, OPTIMAL),
        "text": Experiment(text, (*NEAR, *FLAT, MODULO)),
        "table-1": Experiment(table_1, (ZIPF_2,)),
        "2": Experiment(figure_2, (ZIPF_2,)),
        "3": Experiment(figure_3, (ZIPF_2,)),
        "4": Experiment(figure_4, (ZIPF_2,)),
        "5": Experiment(figure_5, (QUADRATIC,)),
        "6": Experiment(figure_6, BY_MU),
        "7": Experiment(figure_7, BY_THETA),
        "8": Experiment(figure_8, BY_BOTH),
        "9": Experiment(figure_9, BY_LENGTH),
        "10": Experiment(figure_10, (PITCH,)),
        "11": Experiment(figure_11, (PITCH,)),
        "12": Experiment(figure_12, (PITCH,)),
        "13": Experiment(figure_13, BY_ALPHA),
        "14": Experiment(figure_14, (SPLITTING,)),
    },
)
