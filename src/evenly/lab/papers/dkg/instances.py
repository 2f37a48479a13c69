"""Figures 2 to 5 and table 1 of the DKG paper: what more instances do."""

from __future__ import annotations

import numpy as np

from evenly.kernels.types import F64
from evenly.lab.papers.dkg.bench import PAPER_RUNS, Bench, Sample
from evenly.lab.papers.verdicts import Verdict, number, sentence
from evenly.lab.simulation.keys import EVALUATED, Setting
from evenly.report.figures import Bars, Curve, Curves, PaperFigure

INSTANCES = tuple(range(2, 11))
NAMES = {"o-apx": "o-apx", "universal": "universal", "dkg": "dkg", "sia": "one-instance"}
"""Published name of each series to the name of the grouping."""

ZIPF_2 = Sample(2.0, tuple(Setting(grouping, k) for grouping in NAMES.values() for k in INSTANCES))

MORE_BUCKETS = (4, 16, 32)
QUADRATIC = Sample(
    1.0,
    tuple(Setting(grouping, k, power=2.0) for grouping in NAMES.values() for k in INSTANCES)
    + tuple(Setting("dkg", 2, mu=float(mu), power=2.0) for mu in MORE_BUCKETS),
)

EXACT_PCT = 1.0
"""How far from table 1 the mean lines may be."""
HASHED_PCT = 5.0
"""How far Universal's mean line may be. Its b differs so much from run to run that 1,000 of them are exact to 2.5 %, and the b
that it is told from, O-apx's -100, is 65 % away.
"""
WORST_PCT = 3.0
"""How far from table 1 DKG's worst line may be."""
UNIVERSAL_WORST_PCT = 10.0
"""How far Universal's worst line may be: it is the largest of all runs, and so depends on how many there are."""

APART = 1.1
"""Two σ are apart from this ratio on."""
SIZEABLE = 1.2
"""A gap between two σ is sizeable from this ratio on."""

_PUBLISHED_SIGMA = {2: {"published: least of universal": 2_800.0, "published: most of universal": 9_600.0}}
"""σ of figure 4, by k."""
TIMES_LESS = 10.0
"""A deviation that is so many times smaller is extremely small."""

TABLE_1 = {
    ("o-apx", "mean"): (60.7, -100.0, EXACT_PCT),
    ("universal", "mean"): (60.7, -60.7, HASHED_PCT),
    ("universal", "worst"): (87.3, -73.0, UNIVERSAL_WORST_PCT),
    ("dkg", "mean"): (60.7, -100.0, EXACT_PCT),
    ("dkg", "worst"): (62.0, -100.0, WORST_PCT),
    ("sia", "mean"): (100.0, -100.0, EXACT_PCT),
}
"""Slope a and intercept b of λ over k as published, and the tolerance in %."""


def _setting(series: str, k: int, power: float = 1.0) -> Setting:
    return Setting(NAMES[series], k, power=power)


def _line(values: F64) -> tuple[float, float]:
    """Slope and intercept of the least-squares line over k = 2..10."""
    slope, intercept = np.polyfit(INSTANCES, values, 1)
    return float(slope), float(intercept)


def _points(bench: Bench, sample: Sample, power: float = 1.0) -> list[dict[str, object]]:
    return [bench.point(series, k, sample, _setting(series, k, power)) for series in NAMES for k in INSTANCES]


def _curves(bench: Bench, measure: str, sample: Sample, power: float = 1.0) -> list[Curve]:
    of = bench.imbalance_pct if measure == "λ" else bench.sigma
    drawn: list[Curve] = []
    for series in NAMES:
        both = bench.curves(series, INSTANCES, of, [(sample, _setting(series, k, power)) for k in INSTANCES])
        drawn += both if series in {"universal", "dkg"} else both[:1]
    return drawn


def _means(bench: Bench, series: str, measure: str = "λ", sample: Sample = ZIPF_2, power: float = 1.0) -> F64:
    of = bench.imbalance_pct if measure == "λ" else bench.sigma
    return np.array([of(sample, _setting(series, k, power)).mean for k in INSTANCES])


def _worsts(bench: Bench, series: str, measure: str = "λ", sample: Sample = ZIPF_2, power: float = 1.0) -> F64:
    of = bench.imbalance_pct if measure == "λ" else bench.sigma
    return np.array([of(sample, _setting(series, k, power)).worst for k in INSTANCES])


def table_1(bench: Bench) -> PaperFigure:
    """The lines through figure 2."""
    verdicts: list[Verdict] = []
    for (series, measure), (a, b, within_pct) in TABLE_1.items():
        name = f"{series} {measure}"
        values = _means(bench, series) if measure == "mean" else _worsts(bench, series)
        slope, intercept = _line(values)
        errors = _standard_errors(bench, series) if measure == "mean" else (0.0, 0.0)
        why = "" if measure == "mean" else bench.worst_of
        for x, published, measured, error in (("a", a, slope, errors[0]), ("b", b, intercept, errors[1])):
            verdicts.append(
                number(name, x, published=published, measured=measured, within_pct=within_pct, standard_error=error, why=why)
            )
    return PaperFigure("table-1", "Lines a k + b through the imbalance λ of figure 2", verdicts=[v.row() for v in verdicts])


def _published_lines() -> list[Curve]:
    """The lines of table 1 at every k."""
    return [
        Curve(series, INSTANCES, [a * k + b for k in INSTANCES], worst=measure == "worst", published=True)
        for (series, measure), (a, b, _) in TABLE_1.items()
    ]


def _standard_errors(bench: Bench, series: str) -> tuple[float, float]:
    """Of slope and intercept of the mean: both are means of the slopes and intercepts of single runs."""
    runs = np.array(bench.every_imbalance_pct(ZIPF_2, [_setting(series, k) for k in INSTANCES]))
    slopes, intercepts = np.polyfit(INSTANCES, runs, 1)
    root = np.sqrt(max(1, bench.runs - 1))
    return float(slopes.std() / root), float(intercepts.std() / root)


def figure_2(bench: Bench) -> PaperFigure:
    """Imbalance over the number of instances, Zipf-2."""
    exact, dkg, universal = _means(bench, "o-apx"), _means(bench, "dkg"), _means(bench, "universal")
    dkg_worst, universal_worst = _worsts(bench, "dkg"), _worsts(bench, "universal")
    gap = float(np.abs(dkg - exact).max())
    busiest = float(((100.0 + dkg_worst) / (100.0 + exact)).max() - 1.0) * 100.0
    slope = _line(universal_worst)[0]
    closer = abs(100.0 - slope) < abs(slope - _line(exact)[0])
    rising = all((np.diff(values) > 0).all() for values in (exact, dkg, universal, dkg_worst, universal_worst))
    p1 = float(ZIPF_2.stream.probabilities[0])
    verdicts = [
        number("sia", 10, published=900.0, measured=float(_means(bench, "sia")[-1]), within_pct=0.1),
        number(
            "zipf-2.0",
            "share of the most frequent key",
            published=0.60,
            measured=p1,
            within_pct=2.0,
            why="the paper cuts it to two digits",
        ),
        sentence(
            "all",
            published="every curve rises with k",
            measured="all five rise" if rising else "not all rise",
            holds=rising,
            why="each of the means and worst cases at k + 1 must be above that at k",
        ),
        sentence(
            "dkg",
            published="DKG's mean is O-apx's",
            measured=f"at most {gap:.2f} points apart",
            holds=gap <= 0.5,
            why="the means may be 0.5 percentage points of λ apart",
        ),
        sentence(
            "dkg worst",
            published="the gap between DKG's worst and O-apx is little",
            measured=f"busiest instance up to {busiest:.1f} % above O-apx's",
            holds=busiest <= 5.0,
            why="the busiest instance may have 5 % more than under O-apx",
        ),
        sentence(
            "universal worst",
            published="Universal's worst is closer to SIA than to O-apx",
            measured=f"slope {slope:.1f} between {_line(exact)[0]:.1f} (O-apx) and 100 (SIA)",
            holds=closer,
            why=f"by the slopes of the lines, as in table 1; {bench.worst_of}",
            unsure=bench.fewer and not closer,
        ),
        sentence(
            "universal",
            published="a noteworthy gap between Universal's mean and DKG's",
            measured=f"{float((universal - dkg).min()):.1f} points or more",
            holds=bool((universal - dkg).min() >= 10.0),
            why="at least 10 percentage points at every k",
        ),
    ]
    drawn = [*_curves(bench, "λ", ZIPF_2), *_published_lines()]
    panel = Curves("Zipf-2, Θ = 0.1, μ = 2; published: the lines of table 1", "instances k", "imbalance λ, %", drawn)
    return PaperFigure(
        "2",
        "Imbalance λ over the number of instances",
        [panel],
        _points(bench, ZIPF_2),
        [verdict.row() for verdict in verdicts],
    )


def figure_3(bench: Bench) -> PaperFigure:
    """σ over the number of instances, Zipf-2."""
    exact, single = _means(bench, "o-apx", "σ"), _means(bench, "sia", "σ")
    gap, gain = single - exact, single - _means(bench, "dkg", "σ")
    turns = INSTANCES[int(exact.argmax())]
    verdicts = [
        sentence(
            "sia",
            published="σ of SIA falls as k grows",
            measured=f"{single[0]:,.0f} at k = 2, {single[-1]:,.0f} at k = 10",
            holds=bool((np.diff(single) < 0).all()),
            why="at each k + 1 it must be below that at k",
        ),
        sentence(
            "o-apx",
            published="σ of O-apx grows from k = 2 to k = 4, then falls",
            measured=f"largest at k = {turns}",
            holds=turns == 4 and bool((np.diff(exact[:3]) > 0).all() and (np.diff(exact[2:]) < 0).all()),
            why="the mean must rise up to k = 4 and fall from there on",
        ),
        sentence(
            "sia",
            published="more instances shrink the gap between SIA and O-apx",
            measured=f"{gap[0]:,.0f} at k = 2, {gap[-1]:,.0f} at k = 10",
            holds=bool((np.diff(gap) < 0).all()),
            why="the gap at each k + 1 must be below that at k",
        ),
        sentence(
            "dkg",
            published="and reduce DKG's gain",
            measured=f"{gain[0]:,.0f} at k = 2, {gain[-1]:,.0f} at k = 10 below SIA",
            holds=bool((np.diff(gain) < 0).all()),
            why="what DKG's mean σ is below that of SIA must fall from each k to the next",
        ),
    ]
    panel = Curves("Zipf-2, Θ = 0.1, μ = 2", "instances k", "σ, tuples", _curves(bench, "σ", ZIPF_2))
    return PaperFigure(
        "3",
        "Standard deviation σ over the number of instances",
        [panel],
        _points(bench, ZIPF_2),
        [verdict.row() for verdict in verdicts],
    )


def figure_4(bench: Bench) -> PaperFigure:
    """How often each σ was measured, at 2 and at 5 instances."""
    panels, verdicts, points = [], [], []
    for k in (2, 5):
        values = {series: bench.measure(ZIPF_2).at(_setting(series, k))[1] for series in ("dkg", "universal")}
        panels.append(Bars(f"k = {k}", "σ, rounded to 200", 200.0, values, levels=_PUBLISHED_SIGMA.get(k, {})))
        points += [bench.point(series, k, ZIPF_2, _setting(series, k)) for series in values]
        better = float((values["universal"] < values["dkg"].max()).mean()) * 100.0
        verdicts.append(
            sentence(
                "universal",
                x=k,
                published="Universal never does better than DKG's worst",
                measured=f"better in {better:.2f} % of the runs",
                holds=better == 0.0,
                why="no run of Universal may have a σ below DKG's largest"
                + (": a lucky hash leaves the heaviest key nearly alone" if better else ""),
            )
        )
    universal = bench.measure(ZIPF_2).at(_setting("universal", 2))[1]
    least, most = (round(float(edge) / 200.0) * 200.0 for edge in (universal.min(), universal.max()))
    for x, published, measured in (("smallest, k = 2", 2800.0, least), ("largest, k = 2", 9600.0, most)):
        off = abs(measured - published) > 200.0
        verdicts.append(
            sentence(
                "universal",
                x=x,
                published=f"{published:,.0f}",
                measured=f"{measured:,.0f}",
                holds=not off,
                why=f"rounded to 200, one bar of difference is allowed; an extreme of {bench.runs:,} runs, "
                f"of {PAPER_RUNS:,} there",
                unsure=off and bench.fewer and (measured > published if x.startswith("smallest") else measured < published),
            )
        )
    for k in (2, 5):
        dkg, universal = (bench.measure(ZIPF_2).at(_setting(series, k))[1] for series in ("dkg", "universal"))
        verdicts.append(
            sentence(
                "dkg",
                x=k,
                published="DKG's σ has an extremely small variance, Universal's a large one",
                measured=f"deviation {float(dkg.std() / dkg.mean()) * 100.0:.1f} % of the mean against "
                f"{float(universal.std() / universal.mean()) * 100.0:.0f} %",
                holds=bool(TIMES_LESS * dkg.std() < universal.std()),
                why=f"σ must deviate {TIMES_LESS:g} times less: by {dkg.std():,.0f} against {universal.std():,.0f} tuples",
            )
        )
    return PaperFigure("4", "Distribution of σ over the runs, Zipf-2", panels, points, [verdict.row() for verdict in verdicts])


def figure_5(bench: Bench) -> PaperFigure:
    """σ over the number of instances when a key costs its frequency squared, Zipf-1."""
    means = {series: _means(bench, series, "σ", QUADRATIC, 2.0) for series in NAMES}
    worsts = {series: _worsts(bench, series, "σ", QUADRATIC, 2.0) for series in ("dkg", "universal")}
    ratio = means["dkg"] / means["o-apx"]
    below, above = ratio[:3], ratio[3:]
    spread = worsts["dkg"] / means["dkg"]
    lucky = means["universal"] / worsts["dkg"]
    unlucky = worsts["universal"] / means["sia"]
    finer = [bench.sigma(QUADRATIC, Setting("dkg", 2, mu=float(mu), power=2.0)).mean for mu in MORE_BUCKETS]
    verdicts = [
        sentence(
            "dkg",
            published="for k < 5 DKG's mean does not stick to O-apx",
            measured=f"{below.min():.2f} to {below.max():.2f} times O-apx's σ",
            holds=bool((below > APART).all()),
            why=f"above {APART} times at k = 2, 3, 4",
        ),
        sentence(
            "dkg",
            published="from k = 5 on it does",
            measured=f"{above.min():.2f} to {above.max():.2f} times O-apx's σ",
            holds=bool((above <= APART).all()),
            why=f"at most {APART} times at k = 5..10",
        ),
        sentence(
            "dkg worst",
            published="a sizeable gap between DKG's mean and worst",
            measured=f"worst {spread.min():.2f} to {spread.max():.2f} times the mean",
            holds=bool((spread > SIZEABLE).all()),
            why=f"above {SIZEABLE} times at every k; {bench.worst_of}",
            unsure=bench.fewer and not (spread > SIZEABLE).all(),
        ),
        sentence(
            "universal",
            published="Universal's mean is only slightly better than DKG's worst",
            measured=f"{lucky.min():.2f} to {lucky.max():.2f} times DKG's worst",
            holds=bool((lucky <= 1.0).all() and (lucky >= 0.7).all()),
            why=f"between 0.7 and 1 times at every k; {bench.worst_of}",
        ),
        sentence(
            "universal worst",
            published="Universal's worst is pretty close to SIA",
            measured=f"{unlucky.min():.2f} to {unlucky.max():.2f} times SIA's σ",
            holds=bool((unlucky >= 0.85).all()),
            why=f"at least 0.85 times at every k; {bench.worst_of}",
            unsure=bench.fewer and not (unlucky >= 0.85).all(),
        ),
        sentence(
            "dkg",
            x=2,
            published="more buckets reduce the over-estimate",
            measured=", ".join(
                f"{s / 1e6:.2f} at μ = {mu}" for mu, s in zip((2, *MORE_BUCKETS), (means["dkg"][0], *finer), strict=True)
            )
            + " (σ in millions, k = 2)",
            holds=bool((np.array(finer[1:]) < means["dkg"][0] / SIZEABLE).all()),
            why=f"from μ = 16 on the mean σ at k = 2 must be {SIZEABLE} times smaller than at the paper's μ = 2",
        ),
    ]
    points = _points(bench, QUADRATIC, 2.0)
    points += [bench.point(f"dkg, mu = {mu}", 2, QUADRATIC, Setting("dkg", 2, mu=float(mu), power=2.0)) for mu in MORE_BUCKETS]
    panel = Curves(
        "Zipf-1, quadratic cost, Θ = 0.1, μ = 2", "instances k", "σ of squared frequencies", _curves(bench, "σ", QUADRATIC, 2.0)
    )
    title = f"σ over the number of instances with quadratic cost ({EVALUATED:,} tuples)"
    return PaperFigure("5", title, [panel], points, [verdict.row() for verdict in verdicts])
