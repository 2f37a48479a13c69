"""Figure 7 of the Hone paper: how alike backlogs are, by Jain's index.

Where all queues are empty under one of the rules the index is 0/0 and there is no factor: such slots are left out, in every
value and sentence.
"""

from __future__ import annotations

import numpy as np

from evenly.kernels.types import F64
from evenly.lab.papers.hone.bench import SAMPLED, Bench, Link, mean_of_known
from evenly.lab.papers.hone.figures import BY_QUEUES, BY_RATE, QUEUES, STRONGER
from evenly.lab.papers.verdicts import Verdict, number, sentence
from evenly.measures.backlog import jain
from evenly.report.figures import Curve, Curves, PaperFigure

DRAWN = tuple(link for link in BY_QUEUES if link.queues in (10, 20, 30, 50, 100))
_WITHIN_PCT = 10.0


def factors(bench: Bench, link: Link, *, empty: float = np.nan, rule: str = "lbf", baseline: str = "rrb") -> F64:
    """Jain's index of a rule over that of a baseline, runs x sampled slots; not a number where one of them is 0/0."""
    found = bench.measure(link)
    shape = found[rule].backlogs.shape[:2]
    ours, theirs = (
        jain(found[name].backlogs.reshape(-1, link.queues), empty=empty).reshape(shape) for name in (rule, baseline)
    )
    return np.asarray(ours / theirs)


def figure_7(bench: Bench) -> PaperFigure:
    """How much fairer backlogs are under LBF than under RRB, at nine slots."""
    panels = [
        Curves(
            "10 queues, mean of the runs",
            "slot",
            "index of LBF over that of RRB",
            [_factor_curve(bench, link, f"{link.rate:,} tuples/s") for link in BY_RATE],
            levels={"published: 10 at best": 10.0},
        ),
        Curves(
            "1,000 tuples/s a queue, mean of the runs",
            "slot",
            "index of LBF over that of RRB",
            [_factor_curve(bench, link, f"{link.queues} queues") for link in DRAWN],
            levels={"published: 1.9 for 20 queues": 1.9},
        ),
    ]
    points = []
    for part, links in (("7a", BY_RATE), ("7b", BY_QUEUES)):
        for link in links:
            x = link.rate if part == "7a" else link.queues
            found = factors(bench, link)
            points.append(
                {
                    **bench.point("lbf", x, link),
                    "series": f"{part}: lbf / rrb",
                    "factor_mean": mean_of_known(found),
                    "factor_max": float(np.nanmax(found)),
                    "factor_against_skipping_rr": mean_of_known(factors(bench, link, baseline="skipping-rr")),
                    "factor_against_fcfs": mean_of_known(factors(bench, link, baseline="fcfs")),
                }
            )
    verdicts = [verdict.row() for verdict in (*_figure_7a(bench), *_figure_7b(bench))]
    return PaperFigure("7", "Jain's fairness index, LBF over RRB", panels, points, verdicts)


def _factor_curve(bench: Bench, link: Link, name: str) -> Curve:
    return Curve(name, SAMPLED, _by_slot(factors(bench, link)).tolist())


def _share(found: F64, *, above: bool) -> float:
    """In which part of the slots that have a factor it is above (or below) 1."""
    known = found[~np.isnan(found)]
    return float(np.mean(known > 1.0 if above else known < 1.0))


def _figure_7a(bench: Bench) -> list[Verdict]:
    over_one = {link.rate: _share(factors(bench, link), above=True) for link in BY_RATE}
    under_one = _share(factors(bench, BY_RATE[0]), above=False)
    most = max(float(np.nanmax(factors(bench, link))) for link in BY_RATE)
    most_with_empty = max(float(factors(bench, link, empty=1.0).max()) for link in BY_RATE)
    means = np.array([mean_of_known(factors(bench, link)) for link in BY_RATE[1:]])
    return [
        sentence(
            "7a: lbf / rrb",
            published="the factor exceeds 1 most of the time at every rate",
            measured=", ".join(f"{100.0 * share:.0f} % at {rate:,}" for rate, share in over_one.items()),
            holds=min(over_one.values()) > 0.5,
            why="in more than half of the sampled slots of every rate that have a factor",
        ),
        sentence(
            "7a: lbf / rrb",
            published="RRB is fairer than LBF sometimes, at 500 tuples/s for one",
            measured=f"in {100.0 * under_one:.0f} % of the sampled slots at 500 tuples/s",
            holds=under_one > 0.0,
            why="the factor must be below 1 in some slot",
        ),
        number(
            "7a: lbf / rrb",
            "at best",
            published=10.0,
            measured=most,
            within_pct=_WITHIN_PCT,
            neutral=1.0,
            why=f"slots in which all queues are empty (0/0) are left out; if they were fair (1) it would be "
            f"{most_with_empty:.1f}, which compares an empty link with one that has a single tuple",
        ),
        sentence(
            "7a: lbf / rrb",
            published="the factor approaches 1 as the rate grows",
            measured=", ".join(f"{mean:.3f} at {link.rate:,}" for link, mean in zip(BY_RATE[1:], means, strict=True)),
            holds=bool((np.diff(means) < 0.005).all() and means[-1] < 1.05),
            why="means from 1,000 tuples/s on must not rise, and end below 1.05; " + _against(bench, BY_RATE[1]),
        ),
    ]


def _figure_7b(bench: Bench) -> list[Verdict]:
    means = {link.queues: mean_of_known(factors(bench, link)) for link in BY_QUEUES}
    low = min(float(np.nanmin(_by_slot(factors(bench, link)))) for link in BY_QUEUES)
    at_20 = factors(bench, BY_QUEUES[QUEUES.index(20)])
    runs = np.array([mean_of_known(row) for row in at_20])
    half = factors(bench, Link(20, 500))
    return [
        sentence(
            "7b: lbf / rrb",
            published="LBF is fairer at every sampled slot for any number of queues",
            measured=f"the least factor is {low:.3f}",
            holds=low >= 1.0,
            why="the mean over the runs at each sampled slot must be at least 1",
        ),
        number(
            "7b: lbf / rrb",
            20,
            published=1.9,
            measured=mean_of_known(at_20),
            within_pct=_WITHIN_PCT,
            neutral=1.0,
            standard_error=float(np.nanstd(runs, ddof=1) / np.sqrt(runs.size)),
            why="20 queues of 1,000 tuples/s are twice what the link can send, and there backlogs are even under any rule; at "
            f"500 tuples/s, a just full link, it is {mean_of_known(half):.2f} (single slots up to {np.nanmax(half):.2f})",
        ),
        sentence(
            "7b: lbf / rrb",
            published="the factor rises until N = 20, then falls to 1",
            measured=", ".join(f"{mean:.3f} at {queues}" for queues, mean in means.items()),
            holds=means[20] > means[10] and means[100] < 1.05,
            why="the largest mean must be at 20"
            + ("" if means[20] > means[10] else "; it is at 10, where the link is just full, and falls from there on"),
        ),
    ]


def _against(bench: Bench, link: Link) -> str:
    found = ", ".join(
        f"{mean_of_known(factors(bench, link, baseline=name)):.2f} against {text}" for name, text in STRONGER.items()
    )
    return f"at {link.rate:,} tuples/s {found}"


def _by_slot(found: F64) -> F64:
    return np.array([mean_of_known(column) for column in found.T])
