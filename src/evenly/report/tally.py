"""The words of a verdict on what a paper states, what a measured value rests on, and how many there are of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

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
class Tally:
    """How many statements a paper has, how many are independent of what was put in, and what became of those."""

    stated: int
    independent: int
    reproduced: int
    not_reproduced: int
    undecided: int
    not_rerun: int

    @classmethod
    def of(cls, verdicts: Iterable[Mapping[str, object]]) -> Tally:
        """Of the rows of verdicts; what is ours is no statement of the paper."""
        stated = [row for row in verdicts if row["basis"] != Basis.OURS]
        found = Counter(str(row["verdict"]) for row in stated if row["basis"] == Basis.INDEPENDENT)
        return cls(
            len(stated),
            found.total(),
            reproduced=found[REPRODUCED],
            not_reproduced=found[NOT_REPRODUCED],
            undecided=found[UNDECIDED],
            not_rerun=found[NOT_RERUN],
        )

    def row(self) -> dict[str, int]:
        """The counts as a flat object."""
        return asdict(self)
