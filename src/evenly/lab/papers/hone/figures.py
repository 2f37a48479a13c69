"""Figures 6 and 8 of the Hone paper: largest backlog and delay of a link, by rate and by number of queues."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenly.kernels.types import F64
from evenly.lab.papers.hone.bench import RULES, Bench, Link
from evenly.lab.papers.verdicts import Verdict, number, sentence
from evenly.numbers import plain
from evenly.report.figures import Curve, Curves, PaperFigure

RATES = (500, 1_000, 1_500, 2_000, 3_000, 4_000, 5_000)
QUEUES = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
BY_RATE = tuple(Link(10, rate) for rate in RATES)
BY_QUEUES = tuple(Link(queues, 1_000) for queues in QUEUES)

STRONGER = {"skipping-rr": "a round-robin that skips empty queues", "fcfs": "first come first served"}
"""What the paper does not compare with."""
_WITHIN_PCT = 10.0


def figure_6(bench: Bench) -> PaperFigure:
    """The largest backlog of all queues and all slots."""
    rows = [
        _smaller(bench, "6a", BY_RATE, "max_backlog", "LBF always has a smaller largest backlog than RRB"),
        _best(bench, "6a", BY_RATE, "max_backlog", published=83.3),
        _grows(bench, "6a", BY_RATE, "max_backlog", "both grow with the rate"),
        _shrinks(bench, "6a", "max_backlog", "the gap shrinks as the rate grows"),
        _smaller(bench, "6b", BY_QUEUES, "max_backlog", "LBF is smaller for any number of queues"),
        _levels_off(bench),
    ]
    return _figure(bench, "6", "Largest backlog", "max_backlog", "largest backlog, tuples", rows, (83.3, None))


def figure_8(bench: Bench) -> PaperFigure:
    """The mean delay of all tuples, those that still wait at the end among them."""
    rows = [
        _smaller(bench, "8a", BY_RATE, "delay_ms", "LBF always has a lower mean delay than RRB"),
        _best(bench, "8a", BY_RATE, "delay_ms", published=89.8),
        _grows(bench, "8a", BY_RATE, "delay_ms", "both grow with the rate"),
        _shrinks(bench, "8a", "delay_ms", "the reduction shrinks as the rate grows"),
        _smaller(bench, "8b", BY_QUEUES, "delay_ms", "LBF is lower for any number of queues"),
        _best(bench, "8b", BY_QUEUES, "delay_ms", published=70.1),
        _grows(bench, "8b", BY_QUEUES, "delay_ms", "the delay grows with the number of queues"),
    ]
    return _figure(bench, "8", "Mean queueing delay", "delay_ms", "mean delay, ms", rows, (89.8, 70.1))


def _figure(
    bench: Bench,
    figure: str,
    title: str,
    measure: str,
    y_label: str,
    verdicts: Sequence[Verdict],
    best_pct: tuple[float | None, float | None],
) -> PaperFigure:
    by_rate, by_queues = ({} if best is None else {f"published: up to {best:g} %": best} for best in best_pct)
    panels = [
        Curves("10 queues", "tuples/s a queue", y_label, bench.curves(BY_RATE, RATES, measure), log_y=True),
        Curves("1,000 tuples/s a queue", "queues N", y_label, bench.curves(BY_QUEUES, QUEUES, measure), log_y=True),
        Curves("10 queues: lower by", "tuples/s a queue", "%", _gains(bench, BY_RATE, RATES, measure), levels=by_rate),
        Curves(
            "1,000 tuples/s a queue: lower by", "queues N", "%", _gains(bench, BY_QUEUES, QUEUES, measure), levels=by_queues
        ),
    ]
    points = []
    for part, links, x in ((f"{figure}a", BY_RATE, RATES), (f"{figure}b", BY_QUEUES, QUEUES)):
        against = {
            (link, rule): {
                f"against_{name.replace('-', '_')}_pct": float(-bench.reductions_pct([link], measure, rule, name)[0])
                for name in ("rrb", *STRONGER)
            }
            for link in links
            for rule in ("lbf", "lbf-a")
        }
        for rule in RULES:
            for at, link in zip(x, links, strict=True):
                points.append({**bench.point(rule, at, link), "part": part, **against.get((link, rule), {})})
    rows = [verdict.row() for verdict in verdicts]
    return PaperFigure(figure, title, panels, points, rows, table=_table(bench, measure))


def _gains(bench: Bench, links: Sequence[Link], x: Sequence[float], measure: str) -> list[Curve]:
    """What LBF gains against each other rule; beside the paper's reading the one that counts arrivals, because others do."""
    compared = (("lbf", "rrb"), *(("lbf-a", name) for name in ("rrb", *STRONGER)))
    return [
        Curve(f"{rule} than {name}", x, bench.reductions_pct(links, measure, rule, name).tolist()) for rule, name in compared
    ]


def _table(bench: Bench, measure: str) -> list[list[str]]:
    """The honest extra columns: LBF against rules that the paper leaves out."""
    shown = ("rrb", "lbf", *STRONGER)
    rows = [["N", "tuples/s", *shown, *(f"lbf to {name}, %" for name in ("rrb", *STRONGER))]]
    for link in dict.fromkeys((*BY_RATE, *BY_QUEUES)):
        found = [plain(float(bench.means([link], rule, measure)[0])) for rule in shown]
        # Rounded before its sign is told: less than nothing is not said.
        against = [
            f"{round(-bench.reductions_pct([link], measure, 'lbf', name)[0], 1) + 0.0:+.1f}" for name in ("rrb", *STRONGER)
        ]
        rows.append([str(link.queues), f"{link.rate:,}", *found, *against])
    return rows


def _smaller(bench: Bench, part: str, links: Sequence[Link], measure: str, said: str) -> Verdict:
    found = bench.reductions_pct(links, measure, "lbf", "rrb")
    return sentence(
        f"{part}: lbf",
        published=said,
        measured=_each(links, found),
        holds=bool((found > 0.0).all()),
        why=f"the mean over the runs must be lower at every point; the least it is lower by is {found.min():.2f} %",
    )


def _best(bench: Bench, part: str, links: Sequence[Link], measure: str, *, published: float) -> Verdict:
    """The paper's "up to": the largest reduction of all points, by algorithm 1 to the letter."""
    found = bench.reductions_pct(links, measure, "lbf", "rrb")
    at = links[int(np.argmax(found))]
    every = bench.every_reduction_pct(at, measure, "lbf", "rrb")
    known = every[~np.isnan(every)]
    counting = float(bench.reductions_pct(links, measure, "lbf-a", "rrb").max())
    others = ", ".join(
        f"{-bench.reductions_pct([at], measure, 'lbf', name)[0]:+.1f} % against {text}" for name, text in STRONGER.items()
    )
    return number(
        f"{part}: lbf",
        "at best, %",
        published=published,
        measured=float(found.max()),
        within_pct=_WITHIN_PCT,
        standard_error=float(known.std(ddof=1) / np.sqrt(known.size)),
        why=f"at N = {at.queues}, {at.rate:,} tuples/s; lbf-a, which counts the slot's own arrivals, {counting:.1f} %; there "
        f"{others}",
    )


def _grows(bench: Bench, part: str, links: Sequence[Link], measure: str, said: str) -> Verdict:
    lines = {rule: bench.means(links, rule, measure) for rule in ("lbf", "rrb")}
    return sentence(
        f"{part}: lbf, rrb",
        published=said,
        measured="; ".join(f"{rule} {', '.join(map(plain, line.tolist()))}" for rule, line in lines.items()),
        holds=all(bool((np.diff(line) > 0.0).all()) for line in lines.values()),
        why="every point must lie above the one before",
    )


def _shrinks(bench: Bench, part: str, measure: str, said: str) -> Verdict:
    found = bench.reductions_pct(BY_RATE, measure, "lbf", "rrb")
    first = bool(found[0] >= found[1])
    return sentence(
        f"{part}: lbf",
        published=said,
        measured=_each(BY_RATE, found),
        holds=bool((np.diff(found) <= 0.0).all()),
        why="every reduction must be at most the one before" + ("" if first else "; it is so from 1,000 tuples/s on"),
    )


def _levels_off(bench: Bench) -> Verdict:
    lines = {rule: bench.means(BY_QUEUES, rule, "max_backlog") for rule in ("lbf", "rrb")}
    steps = {rule: np.diff(line) for rule, line in lines.items()}
    return sentence(
        "6b: lbf, rrb",
        published="both first grow and then change little with the number of queues",
        measured="; ".join(f"{rule} {', '.join(map(plain, line.tolist()))}" for rule, line in lines.items()),
        holds=all(bool(step[0] > 10.0 * abs(step[-1])) for step in steps.values()),
        why="from 90 to 100 queues a tenth at most of the step from 10 to 20",
    )


def _each(links: Sequence[Link], reductions_pct: F64) -> str:
    by_rate = len({link.rate for link in links}) > 1
    return ", ".join(
        f"{-value:+.1f} % at {link.rate if by_rate else link.queues:,}"
        for link, value in zip(links, reductions_pct, strict=True)
    )
