"""The model-driven scheduling paper (Shukla and Simmhan, 2017): its figures, one function each."""

from __future__ import annotations

from evenly.lab.papers.model_driven.applications import figure_applications
from evenly.lab.papers.model_driven.bench import FIXED_PLANS, REHEARSED_PLANS, SHORT_PLANS, Bench
from evenly.lab.papers.model_driven.operator_models import figure_models
from evenly.lab.papers.model_driven.ours import figure_rehearsed, figure_scale
from evenly.lab.papers.model_driven.rates import figure_rates
from evenly.lab.papers.model_driven.shortfalls import figure_shortfalls
from evenly.lab.papers.model_driven.slots import figure_micro
from evenly.lab.papers.model_driven.usage import figure_latency, figure_usage
from evenly.lab.papers.publication import Experiment, Publication

PAPER = Publication[Bench](
    name="model-driven",
    title="Model-driven Scheduling for Distributed Stream Processing Systems",
    citation="Shukla, Simmhan: Journal of Parallel and Distributed Computing, 2018 (arXiv 1702.01785)",
    each="rehearsals of plans",
    footnote=(
        "Slots: cores with their share of memory. LSA and MBA say how many threads, DSM, RSM and SAM where they sit. rsm-alone "
        "is R-Storm as the text has it, and the reading of the paper in all verdicts: a thread counts what it uses alone. rsm "
        "counts its part of what is allocated, and stands beside it. Observed rates are those of the simulator, whose threads "
        "take what the performance models say, more or less by chance. The models' points are the authors'; dataflows whose "
        "operators are not published are synthetic. Values that begin with ours are bars of this project."
    ),
    figures={
        "models": Experiment(figure_models),
        "slots-micro": Experiment(figure_micro),
        "slots-applications": Experiment(figure_applications),
        "shortfalls": Experiment(figure_shortfalls, SHORT_PLANS),
        "rates": Experiment(figure_rates, FIXED_PLANS),
        "usage": Experiment(figure_usage, FIXED_PLANS),
        "latency": Experiment(figure_latency, FIXED_PLANS),
        "rehearsed": Experiment(figure_rehearsed, REHEARSED_PLANS, ours=True),
        "scale": Experiment(figure_scale, ours=True),
    },
)
"""The numbers of the figures are lost in the text, so they have names."""
