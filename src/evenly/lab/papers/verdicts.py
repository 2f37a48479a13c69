"""What became of a value that a paper states: reproduced, or not and why.

A verdict can fail: its tolerance is below what is claimed, chance is told from the method by standard errors, and what was put
in does not count as found.

The figures list their verdicts one by one, however alike such lists look: each entry is one sentence of a paper, with its own
test, and can be read beside it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from evenly.errors import InvalidParameter
from evenly.numbers import plain
from evenly.report.tally import NOT_REPRODUCED, NOT_RERUN, REPRODUCED, UNDECIDED, Basis

__all__ = [
    "NOT_REPRODUCED",
    "NOT_RERUN",
    "REPRODUCED",
    "UNDECIDED",
    "Basis",
    "Verdict",
    "at_least",
    "not_rerun",
    "number",
    "sentence",
]

_ROUNDING = 1e-9
"""What the same value may differ by when it is computed in another order."""


@dataclass(frozen=True)
class Verdict:
    """One stated value or sentence beside what was measured. `published` is a number, or the sentence in short."""

    series: str
    x: float | str | None
    published: float | str
    measured: float | str
    verdict: str
    why: str
    basis: Basis = Basis.INDEPENDENT

    def row(self) -> dict[str, object]:
        """The verdict as a flat object."""
        return asdict(self)


def number(
    series: str,
    x: float | str | None,
    *,
    published: float,
    measured: float,
    within_pct: float,
    why: str = "",
    standard_error: float = 0.0,
    neutral: float = 0.0,
    basis: Basis = Basis.INDEPENDENT,
) -> Verdict:
    """Reproduced if the measured value differs from the published one by at most `within_pct` % of what is claimed.

    What is claimed is the distance from `neutral`: the value if there were no effect, 1 for a speed-up, 0 for a time or a
    share. A tolerance that reaches it would accept a paper's opposite and is refused. Where a mean of random runs is
    compared, two of its standard errors to either side have to be within or without the tolerance; else it is undecided, and
    more runs decide.
    """
    claimed = abs(published - neutral)
    allowed, off = within_pct / 100.0 * claimed, abs(measured - published)
    if allowed >= claimed > 0.0:
        raise InvalidParameter(f"within_pct={within_pct:g} accepts {neutral:g} for {published:g}: it must be below 100")
    if claimed:
        differs = off / claimed if off > _ROUNDING * claimed else 0.0
        said = f"differs by {plain(100.0 * differs)} %{_of(neutral)}, and up to {within_pct:g} % is allowed"
    else:
        said = "no effect is stated, so that it must be met exactly"
    unsure = abs(off - allowed) < 2.0 * standard_error
    return _judged(
        series,
        x,
        published,
        measured,
        holds=off <= allowed + _ROUNDING,
        said=said,
        why=why,
        error=(unsure, standard_error),
        basis=basis,
    )


def at_least(
    series: str,
    x: float | str | None,
    *,
    published: float,
    measured: float,
    within_pct: float,
    why: str = "",
    standard_error: float = 0.0,
    neutral: float = 0.0,
    basis: Basis = Basis.INDEPENDENT,
) -> Verdict:
    """Reproduced if the measured value is the published one or more, or less by no more than `within_pct` % of what is claimed
    (see `number`, also for `standard_error`).

    For what a paper gives as the least, and for what it says its method gains, where another engine runs here: more is no
    contradiction.
    """
    if within_pct >= 100.0:
        raise InvalidParameter(f"within_pct={within_pct:g} accepts no gain at all: it must be below 100")
    least = published - within_pct / 100.0 * abs(published - neutral)
    said = "as much or more counts" + (f", or up to {within_pct:g} %{_of(neutral)} less" if within_pct else "")
    unsure = abs(measured - least) < 2.0 * standard_error
    return _judged(
        series, x, published, measured, holds=measured >= least, said=said, why=why, error=(unsure, standard_error), basis=basis
    )


def sentence(
    series: str,
    *,
    published: str,
    measured: str,
    holds: bool,
    why: str,
    x: float | str | None = None,
    basis: Basis = Basis.INDEPENDENT,
    unsure: bool = False,
) -> Verdict:
    """Reproduced if what the sentence says holds by the test that `why` spells out; undecided if it is `unsure`: two standard
    errors more or less would have it the other way.
    """
    if unsure:
        return Verdict(
            series, x, published, measured, UNDECIDED, _joined(why, "within two standard errors: more runs decide"), basis
        )
    return Verdict(series, x, published, measured, _verdict(holds), why, basis)


def not_rerun(series: str, *, published: float | str, why: str, x: float | str | None = None) -> Verdict:
    """A statement that is not measured here, and why not."""
    return Verdict(series, x, published, "not measured", NOT_RERUN, why)


def _judged(
    series: str,
    x: float | str | None,
    published: float,
    measured: float,
    *,
    holds: bool,
    said: str,
    why: str,
    error: tuple[bool, float],
    basis: Basis,
) -> Verdict:
    """A compared number; `error` is whether chance may have decided, and the standard error."""
    unsure, standard_error = error
    if unsure:
        said += f", with a standard error of {plain(standard_error, 2)}: more runs decide"
    return Verdict(series, x, published, measured, UNDECIDED if unsure else _verdict(holds), _joined(said, why), basis)


def _of(neutral: float) -> str:
    return f" of its distance from {neutral:g}" if neutral else ""


def _verdict(holds: bool) -> str:  # noqa: FBT001 - what is judged
    return REPRODUCED if holds else NOT_REPRODUCED


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
