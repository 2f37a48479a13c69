"""What became of a value that a paper states: reproduced, or not and why.

The figures list their verdicts one by one, however alike such lists look: each entry is one sentence of a paper, with its own
test, and can be read beside it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum

from evenly.errors import InvalidParameter

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
UNDECIDED = "undecided"
NOT_RERUN = "not rerun"


class Basis(StrEnum):
    """What a measured value rests on, and so what its agreement with a paper is worth."""

    INDEPENDENT = "independent"
    """Computed from the method alone: nothing of this statement was put in."""
    RECOVERED = "recovered"
    """A number that is lost from the text of the paper, recovered so that others agree: agreement was chosen."""
    INPUT = "input"
    """The paper gives it as a setting, and it is used as one."""
    FIT = "fit"
    """Parameters were fitted to this statement or its figure."""
    OURS = "ours"
    """No statement of the paper: a bar of our own, or our own algorithm beside the paper's."""


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
    off_pct = 100.0 * off / claimed if claimed else 0.0
    of = f" of its distance from {neutral:g}" if neutral else ""
    said = f"differs by {off_pct:.2f} %{of}, and up to {within_pct:g} % is allowed"
    unsure = 2.0 * standard_error
    if abs(off - allowed) < unsure:
        said += f", with standard errors of {standard_error:.2g}: more runs decide"
        return Verdict(series, x, published, measured, UNDECIDED, _joined(said, why), basis)
    return Verdict(series, x, published, measured, _verdict(off <= allowed), _joined(said, why), basis)


def at_least(
    series: str,
    x: float | str | None,
    *,
    published: float,
    measured: float,
    within_pct: float,
    why: str = "",
    neutral: float = 0.0,
    basis: Basis = Basis.INDEPENDENT,
) -> Verdict:
    """Reproduced if the measured value is the published one or more, or less by no more than `within_pct` % of what is claimed
    (see `number`).

    For what a paper says its method gains, where another method or another engine runs here: more is no contradiction.
    """
    if within_pct >= 100.0:
        raise InvalidParameter(f"within_pct={within_pct:g} accepts no gain at all: it must be below 100")
    holds = measured >= published - within_pct / 100.0 * abs(published - neutral)
    of = f" of its distance from {neutral:g}" if neutral else ""
    said = f"as much or more counts, or up to {within_pct:g} %{of} less"
    return Verdict(series, x, published, measured, _verdict(holds), _joined(said, why), basis)


def sentence(
    series: str,
    *,
    published: str,
    measured: str,
    holds: bool,
    why: str,
    x: float | str | None = None,
    basis: Basis = Basis.INDEPENDENT,
) -> Verdict:
    """Reproduced if what the sentence says holds by the test that `why` spells out."""
    return Verdict(series, x, published, measured, _verdict(holds), why, basis)


def not_rerun(series: str, *, published: float | str, why: str, x: float | str | None = None) -> Verdict:
    """What a paper states and nothing here can measure; `why` says what is missing."""
    return Verdict(series, x, published, "", NOT_RERUN, why)


def _verdict(holds: bool) -> str:  # noqa: FBT001 - what is judged
    return REPRODUCED if holds else NOT_REPRODUCED


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
