"""The model-driven scheduling paper (Shukla and Simmhan, 2017): its figures, one function each."""

from __future__ import annotations

from evenly.lab.papers.model_driven.bench import FIXED_PLANS, REHEARSED_PLANS, Bench
from evenly.lab.papers.model_driven.rates import figure_latency, figure_rates, figure_rehearsed, figure_scale, figure_usage
from evenly.lab.papers.model_driven.slots import figure_applications, figure_micro, figure_models
from evenly.lab.papers.publication import Experiment, Publication

PAPER = Publication[Bench](
    name="model-driven",
    title="Model-driven Scheduling for Distributed Stream Processing Systems",
    citation="Shukla, Simmhan: Journal of Parallel and Distributed Computing, 2018 (arXiv 1702.01785)",
    each="rehearsals of plans",
    footnote=(
        "Slots: cores with their share of memory. LSA and MBA say how many threads, DSM, RSM and SAM where they sit. Observed "
        "rates are those of the simulator, whose threads take what the performance models say, more or less by chance. The "
        "models' points are the authors'; dataflows whose operators are not published are synthetic. Values that begin with "
        "ours are bars of this project."
    ),
    figures={
        "models": Experiment(figure_models),
        "slots-micro": Experiment(figure_micro),
        "slots-applications": Experiment(figure_applications),
        "rates": Experiment(figure_rates, (FIXED_PLANS,)),
        "usage": Experiment(figure_usage, (FIXED_PLANS,)),
        "latency": Experiment(figure_latency, (FIXED_PLANS,)),
        "rehearsed": Experiment(figure_rehearsed, (REHEARSED_PLANS,)),
        "scale": Experiment(figure_scale),
    },
)
"""The numbers of the figures are lost in the text, so they have names."""
