"""What became of a value that a paper states: reproduced, or not and why.

The figures list their verdicts one by one, however alike such lists look: each entry is one sentence of a paper, with its own
test, and can be read beside it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"


@dataclass(frozen=True)
class Verdict:
    """One stated value or sentence beside what was measured. `published` is a number, or the sentence in short."""

    series: str
    x: float | str | None
    published: float | str
    measured: float | str
    verdict: str
    why: str

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
) -> Verdict:
    """Reproduced if the measured value is within `within_pct` % of the published one.

    Where a mean of random runs is compared, a difference of no more than two of its standard errors counts as
    equal too: more runs, not another algorithm, would decide.
    """
    off = abs(measured - published)
    allowed = within_pct / 100.0 * abs(published)
    off_pct = 100.0 * off / abs(published) if published else 0.0
    said = f"differs by {off_pct:.2f} %, and up to {within_pct:g} % is allowed"
    if off > allowed and off <= 2.0 * standard_error:
        said = f"differs by {off_pct:.2f} %, within two standard errors ({standard_error:.2f} each) of these runs"
    holds = off <= max(allowed, 2.0 * standard_error)
    return Verdict(series, x, published, measured, REPRODUCED if holds else NOT_REPRODUCED, _joined(said, why))


def at_least(
    series: str, x: float | str | None, *, published: float, measured: float, within_pct: float, why: str = ""
) -> Verdict:
    """Reproduced if the measured value is the published one or more, or less by no more than `within_pct` %.

    For what a paper says its method gains, where another method or another engine runs here: more is no contradiction.
    """
    holds = measured >= published * (1.0 - within_pct / 100.0)
    said = f"as much or more counts, or up to {within_pct:g} % less"
    return Verdict(series, x, published, measured, REPRODUCED if holds else NOT_REPRODUCED, _joined(said, why))


def sentence(series: str, *, published: str, measured: str, holds: bool, why: str, x: float | str | None = None) -> Verdict:
    """Reproduced if what the sentence says holds by the test that `why` spells out."""
    return Verdict(series, x, published, measured, REPRODUCED if holds else NOT_REPRODUCED, why)


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
