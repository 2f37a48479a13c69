"""The model-driven paper's performance models."""

from __future__ import annotations

from evenly.lab.papers.model_driven.bench import Bench
from evenly.lab.papers.verdicts import Basis, number, sentence
from evenly.report.figures import Curve, Curves, PaperFigure

OPERATORS = ("xml_parse", "pi", "batch_file_write", "azure_blob", "azure_table")
PEAKS = {"xml_parse": 1, "pi": 2, "batch_file_write": 1, "azure_blob": 50, "azure_table": 60}


def figure_models(bench: Bench) -> PaperFigure:
    """Peak rate, cpu and memory over threads, on one slot."""
    panels = []
    points: list[dict[str, object]] = []
    for name in OPERATORS:
        model = bench.models[name]
        threads = [one.threads for one in model.points]
        best = model.best.rate
        panels.append(
            Curves(
                f"{name} (peak {best:,.0f} tuples/s)",
                "threads",
                "% of peak rate, of slot",
                [
                    Curve("rate", threads, [100.0 * one.rate / best for one in model.points]),
                    Curve("cpu", threads, [one.cpu_pct for one in model.points]),
                    Curve("memory", threads, [one.mem_pct for one in model.points]),
                    Curve("rate", [PEAKS[name]], [100.0], published=True),
                ],
            )
        )
        points += [
            {
                "series": name,
                "x": one.threads,
                "threads": one.threads,
                "rate": one.rate,
                "cpu_pct": one.cpu_pct,
                "mem_pct": one.mem_pct,
                "basis": one.origin,
            }
            for one in model.points
        ]
    rates = {name: [one.rate for one in bench.models[name].points] for name in OPERATORS}
    why = "the models are put in: points of the authors' scripts, and between them points chosen to fit the text"
    verdicts = [
        number(
            name,
            "threads at the peak",
            published=float(threads),
            measured=float(bench.models[name].best.threads),
            within_pct=0.0,
            why=why,
            basis=Basis.INPUT,
        )
        for name, threads in PEAKS.items()
    ]
    verdicts += [
        number(
            "azure_table",
            "rate with 2 threads",
            published=5.0,
            measured=bench.models["azure_table"].at(2).rate,
            within_pct=0.0,
            why=why,
            basis=Basis.INPUT,
        ),
        sentence(
            "all",
            published="parse, pi and write carry no more (or hardly) with more threads; blob and table rise to a peak and fall",
            measured=", ".join(f"{name} {'rises' if line[-2] > 2.0 * line[0] else 'does not'}" for name, line in rates.items()),
            holds=all((max(line) > 2.0 * line[0]) == name.startswith("azure") for name, line in rates.items()),
            why=f"rises: more than twice the rate of one thread; {why}",
            basis=Basis.INPUT,
        ),
    ]
    title = "Performance models: rate, cpu and memory of threads on one slot, from the authors' scripts"
    return PaperFigure("models", title, panels, points, [one.row() for one in verdicts], columns=3)
