"""The theorems of the DKG paper, put to numbers, and what its abstract and text say without a figure."""

from __future__ import annotations

import math

import numpy as np

from evenly.kernels.types import F64, I64
from evenly.lab.papers.dkg.bench import Bench, Sample
from evenly.lab.papers.verdicts import Verdict, not_rerun, sentence
from evenly.lab.simulation.keys import Setting, Summary, memory_bytes
from evenly.report.figures import PaperFigure

COUNTERS = 20
"""1 / ε. The rarest heavy key has a share of Θ, and all other tuples have keys of their own, which is the hardest stream."""
RATIOS = (1.02, 1.1, 1.25, 1.5, 2.0)
"""Θ / ε; the paper's experiments have 2."""
LEARNT = (250, 1_000, 4_000)
RARE = 1_000_000
ERROR_RUNS = 400

OPTIMAL = tuple(
    Sample(alpha, tuple(Setting(name, k, theta=1.0 / k, mu=float(max(4, k))) for name in ("dkg", "o-apx") for k in (2, 5, 10)))
    for alpha in (0.5, 1.0, 2.0, 3.0)
)
"""Θ = 1 / k and μ ≥ 1 / Θ, as theorem 4.2 has it."""

UNIVERSAL_K = (2, 5, 10)
FLAT = tuple(
    Sample(alpha, tuple(Setting(name, k) for name in ("dkg", "universal") for k in UNIVERSAL_K)) for alpha in (0.0, 0.5, 2.0)
)
MODULO = Sample(2.0, tuple(Setting(name, k) for name in ("modulo", "universal") for k in UNIVERSAL_K))
NEAR = tuple(Sample(alpha, tuple(Setting(name, 10) for name in ("dkg", "o-apx", "universal"))) for alpha in (1.0, 2.0, 3.0))
NEAR_PCT = 5.0


def space_saving_errors(ratio: float, learnt: int, runs: int, seed: int) -> F64:
    """Of `runs` streams, by how much Space Saving with `COUNTERS` counters has a key of share ratio / COUNTERS too high.

    The algorithm of the paper, tuple by tuple: `evenly.sketches.SpaceSaving` keeps more counters and lets them go many at a
    time. A key that is not held counts with the smallest counter, as a query does.
    """
    rng = np.random.default_rng(seed)
    heavy = rng.random((runs, learnt)) < ratio / COUNTERS
    keys: I64 = np.where(heavy, 0, rng.integers(1, RARE, (runs, learnt)))
    held = np.full((runs, COUNTERS), -1)
    counts = np.zeros((runs, COUNTERS))
    rows = np.arange(runs)
    for tuple_keys in keys.T:
        hit = held == tuple_keys[:, None]
        place = np.where(hit.any(axis=1), hit.argmax(axis=1), counts.argmin(axis=1))
        held[rows, place] = tuple_keys
        counts[rows, place] += 1.0
    ours = held == 0
    estimate = np.where(ours.any(axis=1), (counts * ours).sum(axis=1), counts.min(axis=1))
    return np.asarray(estimate - heavy.sum(axis=1))


def theorems(bench: Bench) -> PaperFigure:
    """Theorems 3.1 to 4.2."""
    verdicts = [
        not_rerun(
            "theorem 3.1",
            published="O(log 1/ε) for each update, O(1) to route",
            why="a bound without constants; make bench-micro measures tuples/s of our learner, which is built otherwise",
        ),
        _memory(),
        *_mean_error(bench),
        *_accuracy(bench),
    ]
    return PaperFigure("theorems", "Theorems", verdicts=[verdict.row() for verdict in verdicts])


def _memory() -> Verdict:
    stream = NEAR[1].stream
    few, many = (memory_bytes(Setting("dkg", 10, learnt=learnt), stream)[0] for learnt in (8_000, 80_000))
    coarse, fine = (memory_bytes(Setting("dkg", 10, theta=theta), stream)[0] for theta in (0.01, 0.0025))
    growth = fine / coarse
    return sentence(
        "theorem 3.2",
        published="memory grows with k μ + 1/ε, and with the tuples learnt only by the digits of a count",
        measured=f"{few:,} B after 8,000 tuples, {many:,} B after 80,000; {coarse:,} B at Θ = 0.01, {fine:,} B at 0.0025",
        holds=few == many and 2.0 <= growth <= 6.0,
        why=f"ten times the tuples must need the same (our counts have 8 bytes), four times 1/ε 2 to 6 times: {growth:.1f}",
    )


def _mean_error(bench: Bench) -> list[Verdict]:
    runs = min(bench.runs, ERROR_RUNS)
    errors = {ratio: space_saving_errors(ratio, LEARNT[-1], runs, bench.seed) for ratio in RATIOS}
    bound = 1.0 - 1.0 / COUNTERS
    mean = {ratio: float(values.mean()) for ratio, values in errors.items()}
    unsure = {ratio: 2.0 * float(values.std() / math.sqrt(runs)) for ratio, values in errors.items()}
    beyond = [ratio for ratio in RATIOS if mean[ratio] > bound + unsure[ratio]]
    least = min(float(values.min()) for values in errors.values())
    most = max(float(values.max()) for values in errors.values())
    relative = [
        float(space_saving_errors(1.1, learnt, runs, bench.seed).mean()) / (learnt * 1.1 / COUNTERS) for learnt in LEARNT
    ]
    listed = ", ".join(f"{mean[ratio]:.2f} at Θ/ε = {ratio:g}" for ratio in RATIOS)
    return [
        sentence(
            "theorem 4.1",
            published="for any ε < Θ the mean error of a heavy key's count is from 0 to 1 - ε",
            measured=f"{listed}; 1 - ε is {bound:.2f}",
            holds=not beyond and least >= 0.0,
            why="a key with a share of Θ, all other tuples of keys of their own"
            + (
                f": it fails up to Θ/ε = {max(beyond):g}, because the proof takes the time of the last insertion for "
                "independent of how often the key had come by then; a key is put out after it has come too seldom"
                if beyond
                else ""
            ),
        ),
        sentence(
            "theorem 4.1",
            x="Θ = 2 ε",
            published="the mean error is at most 1 - ε",
            measured=f"{mean[2.0]:.2f}",
            holds=mean[2.0] <= bound,
            why="with Θ / ε as in all of the paper's experiments",
            unsure=abs(mean[2.0] - bound) < unsure[2.0],
        ),
        sentence(
            "theorem 4.1",
            x="quoted",
            published="an error is never above ε m",
            measured=f"at most {most:.0f} of {LEARNT[-1] / COUNTERS:.0f}",
            holds=most <= LEARNT[-1] / COUNTERS,
            why="over all runs and Θ / ε",
        ),
        sentence(
            "theorem 4.1",
            x="Θ = 1.1 ε",
            published="the relative error tends to 0 as m grows",
            measured=", ".join(f"{value:.4f} at {learnt:,}" for value, learnt in zip(relative, LEARNT, strict=True)),
            holds=relative[-1] < relative[0] / 4.0,
            why=f"a quarter or less at {LEARNT[-1]:,} tuples of that at {LEARNT[0]:,}",
        ),
    ]


def _accuracy(bench: Bench) -> list[Verdict]:
    """Δ of theorem 4.2 as a share; k = 2 is left out of its bound, which one instance for all tuples keeps there, too."""
    worst: dict[int, float] = {}
    isolated = 0.0
    for sample in OPTIMAL:
        runs = bench.measure(sample)
        for k in (2, 5, 10):
            dkg, exact = (runs.at(Setting(name, k, theta=1.0 / k, mu=float(max(4, k))))[0] / 100.0 for name in ("dkg", "o-apx"))
            if k > 2:
                worst[k] = max(worst.get(k, 0.0), float((dkg - exact).mean()))
            if sample.alpha >= 2.0:
                isolated = max(isolated, float((dkg - exact).max()))
    return [
        sentence(
            "theorem 4.2",
            published="λ is on average at most 1 + Θ above the optimum if μ ≥ 1/Θ ≥ k",
            measured=", ".join(f"{value:.3f} of {1.0 + 1.0 / k:.1f} at k = {k}" for k, value in worst.items()),
            holds=all(value <= 1.0 + 1.0 / k for k, value in worst.items()),
            why="the largest mean over zipf-0.5 to zipf-3, against O-apx, with Θ = 1/k; one instance for all is 4 and 9 above",
        ),
        sentence(
            "theorem 4.2, case 1",
            published="with a key above the mean load and Θ ≤ 1/k DKG is optimal",
            measured=f"at most {100.0 * isolated:.2f} points above O-apx in any run",
            holds=isolated <= 0.005,
            why="half a point of λ is allowed in the worst run, of zipf-2 and zipf-3 at k = 2, 5 and 10",
        ),
    ]


def text(bench: Bench) -> PaperFigure:
    """Statements of the abstract, the introduction and section 5 that have no figure."""
    verdicts = [_near(bench, sample) for sample in NEAR]
    verdicts += [_flat(bench, sample) for sample in FLAT[:2]]
    gains = {sample.stream.name: _gain(bench, sample) for sample in FLAT}
    flat, skewed = max(list(gains.values())[:2]), list(gains.values())[2]
    verdicts.append(
        sentence(
            "dkg",
            published="there the absolute gain is less sizeable",
            measured=", ".join(f"{gain:.1f} points ({name})" for name, gain in gains.items()),
            holds=flat < skewed / 2.0,
            why="mean λ below Universal's, averaged over k = 2, 5 and 10: at most half of that of zipf-2",
        )
    )
    both = {name: _mean_lambda(bench, MODULO, name) for name in ("modulo", "universal")}
    verdicts.append(
        sentence(
            "modulo",
            published="Modulo often performs similarly to Universal",
            measured=f"mean λ {both['modulo']:.1f} against {both['universal']:.1f} % (zipf-2, k = 2, 5, 10)",
            holds=abs(both["modulo"] / both["universal"] - 1.0) <= 0.1,
            why="within a tenth",
        )
    )
    verdicts.append(
        not_rerun("dkg", published="Normal distributions show nothing unexpected", why="no parameter and no value is stated")
    )
    return PaperFigure("text", "Abstract and text", verdicts=[verdict.row() for verdict in verdicts])


def _near(bench: Bench, sample: Sample) -> Verdict:
    dkg, exact = (bench.imbalance_pct(sample, Setting(name, 10)) for name in ("dkg", "o-apx"))
    busier = ((100.0 + dkg.mean) / (100.0 + exact.mean) - 1.0) * 100.0
    return sentence(
        "dkg",
        x=sample.stream.name,
        published="abstract: near-optimal for skewed streams",
        measured=f"the busiest of 10 instances has {busier:.1f} % more than under O-apx",
        holds=busier <= NEAR_PCT,
        why=f"{NEAR_PCT:g} % on average, with the paper's Θ = 0.1 and μ = 2"
        + (
            ": the most frequent key has 0.102 of the tuples, and 2 buckets an instance are coarse" if busier > NEAR_PCT else ""
        ),
    )


def _flat(bench: Bench, sample: Sample) -> Verdict:
    means = {k: tuple(bench.imbalance_pct(sample, Setting(name, k)).mean for name in ("dkg", "universal")) for k in UNIVERSAL_K}
    return sentence(
        "dkg",
        x=sample.stream.name,
        published="with uniform streams and α < 1 DKG is still better than Universal",
        measured="λ " + ", ".join(f"{dkg:.1f} against {universal:.1f} at k = {k}" for k, (dkg, universal) in means.items()),
        holds=all(dkg < universal for dkg, universal in means.values()),
        why="the mean must be below at each k",
    )


def _gain(bench: Bench, sample: Sample) -> float:
    return _mean_lambda(bench, sample, "universal") - _mean_lambda(bench, sample, "dkg")


def _mean_lambda(bench: Bench, sample: Sample, name: str) -> float:
    return float(np.mean([Summary.of(bench.measure(sample).at(Setting(name, k))[0]).mean for k in UNIVERSAL_K]))
