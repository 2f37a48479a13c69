"""What each reading of the POSG paper reproduces: the ground on which one is chosen for the whole paper."""

from __future__ import annotations

from evenly.lab.papers.posg.bench import NEAREST, READINGS, Bench
from evenly.lab.papers.posg.figures import BY_ALPHA, BY_LOAD, BY_MOST, BY_VALUES, Stated, stated_4, stated_5, stated_6, stated_7
from evenly.lab.papers.posg.scaling import BY_EPSILON, BY_INSTANCES, stated_8, stated_9
from evenly.lab.papers.posg.shift import SHIFTING, stated_10, stated_11
from evenly.lab.papers.posg.tweets import BY_INSTANCES as TWEETS
from evenly.lab.papers.posg.tweets import stated_12
from evenly.lab.papers.verdicts import REPRODUCED
from evenly.report.figures import PaperFigure

STATED: dict[str, Stated] = {
    "4": stated_4,
    "5": stated_5,
    "6": stated_6,
    "7": stated_7,
    "8": stated_8,
    "9": stated_9,
    "10": stated_10,
    "11": stated_11,
    "12": stated_12,
}
SETTINGS = (*BY_ALPHA, *BY_LOAD, *BY_MOST, *BY_VALUES, *BY_INSTANCES, *BY_EPSILON, *TWEETS, SHIFTING)


def table_readings(bench: Bench) -> PaperFigure:
    """How many verdicts of each figure say reproduced, of those on a reading; the rest are on other series."""
    table = [("reproduced", *(f"figure {name}" for name in STATED), "all")]
    points: list[dict[str, object]] = []
    for reading in READINGS:
        cells, counted = [], [0, 0]
        for name, stated in STATED.items():
            found = [verdict for verdict in stated(bench, reading) if verdict.series == reading]
            good = sum(verdict.verdict == REPRODUCED for verdict in found)
            counted = [counted[0] + good, counted[1] + len(found)]
            cells.append(f"{good} of {len(found)}")
            points.append({"series": reading, "x": f"figure {name}", "reproduced": good, "stated": len(found)})
        table.append(
            (reading + (" (the one of all verdicts)" if reading == NEAREST else ""), *cells, "{} of {}".format(*counted))
        )
    title = "What each reading of the text reproduces: one is chosen for the whole paper, not for each figure"
    return PaperFigure("table-readings", title, points=points, table=table)
