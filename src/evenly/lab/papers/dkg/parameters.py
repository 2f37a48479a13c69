"""Figures 6 to 9 of the DKG paper: what μ, Θ and the length of learning do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evenly.kernels.types import F64
from evenly.lab.papers.dkg.bench import Bench, Sample
from evenly.lab.papers.verdicts import Verdict, sentence
from evenly.lab.simulation.keys import Setting, Summary
from evenly.report.figures import Curve, Curves, HeatMap, PaperFigure

ALPHAS = (1.0, 2.0, 3.0)

MUS = (1, 2, 4, 10, 20, 50, 100)
BY_MU = tuple(Sample(alpha, tuple(Setting("dkg", 2, theta=1.0, mu=float(mu)) for mu in MUS)) for alpha in ALPHAS)

THETAS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.01)
BY_THETA = tuple(
    Sample(alpha, (*(Setting("dkg", 2, theta=theta, mu=1.0) for theta in THETAS), Setting("o-apx", 2))) for alpha in ALPHAS
)
DROPS = {1.0: (0.2, 0.1), 2.0: (0.7, 0.6), 3.0: (0.9, 0.8)}
"""The last Θ above and the first at or below the share of the most frequent key, of those tried."""

GRID_MUS = (1, 2, 4, 10, 20, 50, 100)
GRID_THETAS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3, 0.2, 0.1, 0.05, 0.01)
BY_BOTH = tuple(
    Sample(alpha, tuple(Setting("dkg", 5, theta=theta, mu=float(mu)) for theta in GRID_THETAS for mu in GRID_MUS))
    for alpha in ALPHAS
)

LENGTHS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 80_000)
BY_LENGTH = tuple(Sample(alpha, tuple(Setting("dkg", 2, learnt=learnt) for learnt in LENGTHS)) for alpha in ALPHAS)
ENOUGH = {1.0: 10_000, 2.0: 1_000, 3.0: 100}
"""How many tuples the paper says are enough."""


def _both(
    of: Callable[[Sample, Setting], Summary], sample: Sample, settings: Sequence[Setting] | None = None
) -> tuple[F64, F64]:
    """Mean and worst of every setting of a sample."""
    found = [of(sample, setting) for setting in (sample.settings if settings is None else settings)]
    return np.array([one.mean for one in found]), np.array([one.worst for one in found])


def _line(name: str, x: Sequence[float], both: tuple[F64, F64]) -> list[Curve]:
    mean, worst = both
    return [Curve(name, x, mean.tolist()), Curve(name, x, worst.tolist(), worst=True)]


def _points(bench: Bench, samples: Sequence[Sample], x: Sequence[float]) -> list[dict[str, object]]:
    """The first settings of each sample, one for each x."""
    return [
        bench.point(sample.stream.name, at, sample, setting)
        for sample in samples
        for at, setting in zip(x, sample.settings[: len(x)], strict=True)
    ]


def figure_6(bench: Bench) -> PaperFigure:
    """Imbalance over μ with Θ = 1, so that no key is heavy."""
    verdicts: list[Verdict] = []
    curves: list[Curve] = []
    for sample in BY_MU:
        name = sample.stream.name
        mean, worst = _both(bench.imbalance_pct, sample)
        curves += _line(name, MUS, (mean, worst))
        gains = -np.diff(mean)
        verdicts += [
            sentence(
                name,
                published="μ from 1 to 2 lowers the mean λ significantly",
                measured=f"{mean[0]:.1f} to {mean[1]:.1f}",
                holds=bool(gains[0] >= mean[0] / 10.0),
                why="by a tenth of λ or more",
            ),
            sentence(
                name,
                published="beyond that the gain is less evident",
                measured=", ".join(f"{value:.1f} at {mu}" for mu, value in zip(MUS[2:], mean[2:], strict=True)),
                holds=bool((gains[1:] < gains[0]).all()),
                why="every later step must gain less than the first",
            ),
            sentence(
                name,
                published="the worst λ is only slightly affected by μ",
                measured=f"{worst[0]:.1f} at μ = 1, {worst[MUS.index(10)]:.1f} at 10, {worst[-1]:.1f} at 100",
                holds=bool(worst[-1] >= 0.8 * worst[0]),
                why="from μ = 1 to 100 it may fall by a fifth"
                + (": with more buckets the heaviest keys hardly ever meet" if worst[-1] < 0.8 * worst[0] else ""),
            ),
        ]
    points = _points(bench, BY_MU, MUS)
    panel = Curves("Θ = 1, k = 2", "μ, buckets an instance", "imbalance λ, %", curves, log_x=True)
    return PaperFigure("6", "Imbalance λ over μ", [panel], points, [verdict.row() for verdict in verdicts])


def figure_7(bench: Bench) -> PaperFigure:
    """Imbalance over Θ with μ = 1, so that buckets leave no choice."""
    verdicts: list[Verdict] = []
    curves: list[Curve] = []
    for sample in BY_THETA:
        mean, worst = _both(bench.imbalance_pct, sample, sample.settings[:-1])
        curves += _line(sample.stream.name, THETAS, (mean, worst))
        verdicts += _figure_7_verdicts(bench, sample, mean, worst)
    points = _points(bench, BY_THETA, THETAS)
    points += [bench.point(f"{sample.stream.name}, o-apx", 0.0, sample, sample.settings[-1]) for sample in BY_THETA]
    panel = Curves("μ = 1, k = 2", "Θ", "imbalance λ, %", curves)
    return PaperFigure("7", "Imbalance λ over Θ", [panel], points, [verdict.row() for verdict in verdicts])


def _figure_7_verdicts(bench: Bench, sample: Sample, mean: F64, worst: F64) -> list[Verdict]:
    name = sample.stream.name
    above, reached = (THETAS.index(theta) for theta in DROPS[sample.alpha])
    further = float(mean[reached] - mean[reached + 1 :].min())
    verdicts = [
        sentence(
            name,
            x=THETAS[reached],
            published="mean and worst drop once Θ reaches the share of the most frequent key",
            measured=f"mean {mean[above]:.1f} to {mean[reached]:.1f}, worst {worst[above]:.1f} to {worst[reached]:.1f}",
            holds=bool(mean[reached] < 0.9 * mean[above] and worst[reached] < 0.9 * worst[above]),
            why=f"both by a tenth or more from Θ = {THETAS[above]:g} to {THETAS[reached]:g}"
            + (
                f": the key has {sample.stream.probabilities[0]:.3f} of the tuples, so in some runs it is not heavy at 0.1"
                if sample.alpha == 1.0
                else ""
            ),
        ),
        sentence(
            name,
            published="smaller Θ does not improve it significantly",
            measured=f"{mean[reached]:.2f} at {THETAS[reached]:g}, {mean[-1]:.2f} at {THETAS[-1]:g}",
            holds=further <= 1.0,
            why="the mean λ may fall by one more percentage point"
            + (", but more heavy keys leave the only bucket of each instance" if further > 1.0 else ""),
        ),
    ]
    if sample.alpha > 1.0:
        least = bench.imbalance_pct(sample, sample.settings[-1]).mean
        gap = float((worst[reached:] - mean[reached:]).max())
        verdicts += [
            sentence(
                name,
                published="from there on mean and worst are very close",
                measured=f"at most {gap:.1f} points apart",
                holds=gap <= 5.0,
                why="5 percentage points of λ are allowed",
            ),
            sentence(
                name,
                x=THETAS[reached],
                published="DKG's mean equals O-apx's",
                measured=f"{mean[reached]:.2f} against {least:.2f}",
                holds=abs(float(mean[reached]) - least) <= 0.5,
                why="0.5 percentage points of λ are allowed",
            ),
        ]
    return verdicts


def figure_8(bench: Bench) -> PaperFigure:
    """σ over both Θ and μ, at 5 instances."""
    panels: list[HeatMap] = []
    verdicts: list[Verdict] = []
    shape = (len(GRID_THETAS), len(GRID_MUS))
    for sample in BY_BOTH:
        name = sample.stream.name
        mean, worst = (values.reshape(shape) for values in _both(bench.sigma, sample))
        for kind, values in (("mean", mean), ("worst", worst)):
            panels.append(HeatMap(f"{name}, {kind} σ", "μ", "Θ", GRID_MUS, GRID_THETAS, values))
            verdicts.append(_lightly_skewed(name, kind, values) if sample.alpha == 1.0 else _skewed(sample, kind, values))
    points = [
        {**bench.point(sample.stream.name, setting.mu, sample, setting), "theta": setting.theta}
        for sample in BY_BOTH
        for setting in sample.settings
    ]
    return PaperFigure("8", "σ over Θ and μ, k = 5", panels, points, [verdict.row() for verdict in verdicts])


def _lightly_skewed(name: str, kind: str, values: F64) -> Verdict:
    """By what factor σ falls along μ at Θ = 1, and along Θ at μ = 1 and at the largest μ."""
    by_mu = float(values[0, 0] / values[0].min())
    by_theta = float(values[0, 0] / values[:, 0].min())
    return sentence(
        f"{name} {kind}",
        published="μ drives the performance, Θ has a negligible impact",
        measured=f"σ falls {by_mu:.2f} times along μ (at Θ = 1), {by_theta:.2f} times along Θ (at μ = 1)",
        holds=by_mu > by_theta and by_theta <= 1.2,
        why="along μ it must fall more than along Θ, and along Θ by a sixth at most"
        + (": Θ down to 0.01 finds keys that matter, and the paper's grid may not go as far" if by_theta > 1.2 else ""),
    )


def _skewed(sample: Sample, kind: str, values: F64) -> Verdict:
    first = GRID_THETAS.index(DROPS[sample.alpha][1])
    heavy = values[first:]
    spread = float(heavy.max() / heavy.min() - 1.0) * 100.0
    without_one = float(heavy[:, 1:].max() / heavy.min() - 1.0) * 100.0
    return sentence(
        f"{sample.stream.name} {kind}",
        published="once Θ reaches the share of the most frequent key, there is not much to gain",
        measured=f"σ within {spread:.1f} % for all μ and all Θ ≤ {GRID_THETAS[first]:g}; "
        f"at Θ = μ = 1 it is {float(values[0, 0] / heavy.max()):.2f} times as much",
        holds=spread <= 10.0,
        why="10 % are allowed" + (f"; from μ = {GRID_MUS[1]} on it is within {without_one:.1f} %" if spread > 10.0 else ""),
    )


def figure_9(bench: Bench) -> PaperFigure:
    """σ over how many tuples are learnt from."""
    verdicts: list[Verdict] = []
    curves: list[Curve] = []
    for sample in BY_LENGTH:
        mean, worst = _both(bench.sigma, sample)
        curves += _line(sample.stream.name, LENGTHS, (mean, worst))
        enough = LENGTHS.index(ENOUGH[sample.alpha])
        rest = float(np.abs(mean[enough:] / mean[-1] - 1.0).max()) * 100.0
        verdicts.append(
            sentence(
                sample.stream.name,
                x=ENOUGH[sample.alpha],
                published=f"fewer than {ENOUGH[sample.alpha]:,} tuples are enough",
                measured=f"mean σ {mean[enough]:,.0f} there, {mean[-1]:,.0f} at {LENGTHS[-1]:,}",
                holds=rest <= 10.0,
                why=f"from there on the mean must stay within 10 % of that at {LENGTHS[-1]:,}: it is within {rest:.1f} %",
            )
        )
    first = [_first_enough(bench, sample) for sample in BY_LENGTH]
    verdicts.append(
        sentence(
            "all",
            published="DKG learns faster with strongly skewed distributions",
            measured=", ".join(
                f"{learnt:,} tuples ({sample.stream.name})" for sample, learnt in zip(BY_LENGTH, first, strict=True)
            ),
            holds=first == sorted(first, reverse=True) and first[0] > first[-1],
            why="the first length from which on the mean σ stays within 10 %: it must not grow with α, and fall from 1 to 3",
        )
    )
    points = _points(bench, BY_LENGTH, LENGTHS)
    panel = Curves("Θ = 0.1, μ = 2, k = 2", "tuples learnt from, m", "σ, tuples", curves, log_x=True)
    return PaperFigure("9", "σ over the number of tuples learnt from", [panel], points, [verdict.row() for verdict in verdicts])


def _first_enough(bench: Bench, sample: Sample) -> int:
    """The first length from which on the mean σ stays within 10 % of the last."""
    mean, _ = _both(bench.sigma, sample)
    off = np.flatnonzero(np.abs(mean / mean[-1] - 1.0) > 0.1)
    return LENGTHS[int(off[-1]) + 1 if off.size else 0]
