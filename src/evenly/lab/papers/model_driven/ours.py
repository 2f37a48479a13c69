"""Bars of our own for planning: predictions against the simulator on every dataflow, and a large dataflow."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from evenly.dataflow.graph import Dataflow, Edge, Operator
from evenly.lab.papers.model_driven.bench import CASES, PUBLISHED, SHUFFLE, SIMULATED, SLOT_AWARE, Bench, r_squared
from evenly.lab.papers.verdicts import Basis, Verdict, sentence
from evenly.planning.plan import PAIRS, plan
from evenly.planning.rehearsal import rehearse
from evenly.report.figures import Curve, Curves, PaperFigure


def figure_rehearsed(bench: Bench) -> PaperFigure:
    """Ours: every pair on every dataflow, planned, predicted and observed, with equal shares and slot-aware."""
    panels, points, verdicts = [], [], []
    for assumed in (SHUFFLE, SLOT_AWARE):
        told, seen = [], []
        for name, rate in CASES:
            for pair in PAIRS:
                one = bench.plan(name, pair, rate)
                told.append(bench.predicted(one, assumed))
                seen.append(bench.observed(name, pair, assumed, rate=float(rate)))
                points.append(
                    bench.point(one, seen[-1], routing=assumed.routing, predicted_rate=told[-1], observed_rate=seen[-1])
                )
        order = np.argsort(seen)
        panels.append(
            Curves(
                f"{assumed.routing} routing",
                "observed tuples/s",
                "tuples/s",
                [
                    Curve("predicted", [seen[place] for place in order], [told[place] for place in order]),
                    Curve("observed", sorted(seen), sorted(seen)),
                ],
            )
        )
        fit = r_squared(told, seen)
        verdicts.append(
            sentence(
                assumed.routing,
                published="ours: R² of predicted against observed rates of at least 0.95",
                measured=f"R² {fit:.4f} over {len(told)} plans",
                holds=fit >= 0.95,
                why=SIMULATED,
                basis=Basis.OURS,
            )
        )
    verdicts.append(_held(bench))
    title = "Ours: predicted against simulated rates, all pairs and dataflows"
    return PaperFigure("rehearsed", title, panels, points, [one.row() for one in verdicts])


def _held(bench: Bench) -> Verdict:
    runs = {
        (name, rate): rehearse(
            bench.plan(name, ("mba", "sam"), rate).placement,
            bench.models,
            float(rate),
            assumptions=SLOT_AWARE,
            options=bench.options,
        ).stable
        for name, rate in CASES
    }
    lost = [f"{name} at {rate}" for (name, rate), stable in runs.items() if not stable]
    return sentence(
        "mba+sam",
        published="ours: with slot-aware routing MBA+SAM holds the planned rate in every case",
        measured=f"{len(runs) - len(lost)} of {len(runs)} cases" + (f", not {', '.join(lost)}" if lost else ""),
        holds=not lost,
        why=SIMULATED,
        basis=Basis.OURS,
    )


def figure_scale(bench: Bench) -> PaperFigure:
    """Ours: a dataflow of 1,000 operators on 10,000 slots."""
    flow = large_dataflow(1_000)
    started = perf_counter()
    found = plan(flow, bench.models, 712.0, assumptions=PUBLISHED)
    seconds = perf_counter() - started
    verdict = sentence(
        "mba+sam",
        published="ours: 1,000 operators on 10,000 slots are planned in under 5 s",
        measured=f"{len(flow.operators) - 2:,} operators on {found.placement.slots:,} slots in {seconds:.1f} s",
        holds=seconds < 5.0,
        why="one run on this machine",
        basis=Basis.OURS,
    )
    point = bench.point(found, 1_000, seconds=seconds)
    return PaperFigure("scale", "Ours: how long a large dataflow takes to plan", (), [point], [verdict.row()])


def large_dataflow(operators: int, *, chains: int = 50) -> Dataflow:
    """So many operators of the five kinds, in chains side by side."""
    kinds = ("azure_blob", "azure_table", "pi", "xml_parse", "batch_file_write")
    names = [f"operator {place}" for place in range(operators)]
    edges = [Edge("source", name) for name in names[:chains]]
    edges += [Edge(before, after) for before, after in zip(names, names[chains:], strict=False)]
    edges += [Edge(name, "sink") for name in names[-chains:]]
    middle = [Operator(name, kinds[place % len(kinds)]) for place, name in enumerate(names)]
    return Dataflow("large", (Operator("source", kind="source"), *middle, Operator("sink", kind="sink")), tuple(edges))
