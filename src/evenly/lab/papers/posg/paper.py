"""The POSG paper (Rivetti, Anceaume, Busnel, Querzoni, Sericola, 2016): its figures, one function each."""

from __future__ import annotations

from itertools import chain

from evenly.lab.papers.posg.bench import Bench
from evenly.lab.papers.posg.figures import BY_ALPHA, BY_LOAD, BY_MOST, BY_VALUES, figure_4, figure_5, figure_6, figure_7
from evenly.lab.papers.posg.readings import SETTINGS, table_readings
from evenly.lab.papers.posg.scaling import BY_EPSILON, figure_8, figure_9
from evenly.lab.papers.posg.scaling import BY_INSTANCES as SYNTHETIC_BY_INSTANCES
from evenly.lab.papers.posg.shift import SHIFTING, figure_10, figure_11
from evenly.lab.papers.posg.tables import BY_DISTANCE, DEFAULT, PARTS_AT, table_costs, table_latency, table_parts
from evenly.lab.papers.posg.theorems import theorems
from evenly.lab.papers.posg.tweets import BY_INSTANCES as TWEETS_BY_INSTANCES
from evenly.lab.papers.posg.tweets import BY_LOAD as TWEETS_BY_LOAD
from evenly.lab.papers.posg.tweets import figure_12
from evenly.lab.papers.publication import Experiment, Publication

_FOOTNOTE = (
    "S_L is the mean completion time of round-robin over that of the series. posg-a is the text as it stands; posg-b counts "
    "idle time; posg-c lets the first check of stability pass as well; posg-cp sums the instances' matrices too. All verdicts "
    "on POSG are on posg-cp, in every figure, because it reproduces most (table-readings). full-knowledge-late has "
    "exact costs, but round-robin as long as posg-c. evenly is our default. Dashed: the worst run. Figures 1 to 3 are "
    "drawings; 11 and 12 were measured on the authors' cluster and are simulated here."
)
PAPER = Publication[Bench](
    name="posg",
    title="Proactive Online Scheduling for Shuffle Grouping in Distributed Stream Processing Systems",
    citation="Rivetti, Anceaume, Busnel, Querzoni, Sericola: research report hal-01246701, 2015",
    each="streams of 32,768 tuples a point (10 of recorded ones)",
    footnote=_FOOTNOTE,
    figures={
        "theorems": Experiment(theorems, SYNTHETIC_BY_INSTANCES),
        "4": Experiment(figure_4, BY_ALPHA),
        "5": Experiment(figure_5, BY_LOAD),
        "6": Experiment(figure_6, BY_MOST),
        "7": Experiment(figure_7, BY_VALUES),
        "8": Experiment(figure_8, SYNTHETIC_BY_INSTANCES),
        "9": Experiment(figure_9, BY_EPSILON),
        "10": Experiment(figure_10, (SHIFTING,)),
        "11": Experiment(figure_11, (SHIFTING,)),
        "12": Experiment(figure_12, (*TWEETS_BY_INSTANCES, *TWEETS_BY_LOAD), lambda bench: bench.count(TWEETS_BY_INSTANCES[1])),
        "table-readings": Experiment(table_readings, SETTINGS, ours=True),
        "table-parts": Experiment(table_parts, ours=True, own=lambda bench: sum(map(bench.count, PARTS_AT))),
        "table-latency": Experiment(
            table_latency, ours=True, own=lambda bench: sum(map(bench.count, chain(*BY_DISTANCE.values())))
        ),
        "table-costs": Experiment(table_costs, (DEFAULT,), ours=True),
    },
)
