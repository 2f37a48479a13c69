"""Work of unknown cost in rounds of pieces: the large ones first, the small ones for the slots that are free first.

Spark starts tasks in the order of their numbers as slots come free. A slot that got costly rows is still at its large piece
when the others take the small ones. Nothing need be known of costs for that; where they are all alike, all that it takes are
the four additional tasks of each instance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapreplace
from typing import TypeVar

import numpy as np

from evenly.costs.group_report import GroupReport
from evenly.costs.report import InstanceReport
from evenly.costs.turns import first_instance
from evenly.kernels.types import F64, I64

_OF_ROWS = (0.45, 0.33, 0.132, 0.0528, 0.0352)
"""Nine twentieths of all rows first, then 3/5 of what is left over, and the rest."""
ROUNDS = len(_OF_ROWS)
ENDS = tuple(round(2**32 * math.fsum(_OF_ROWS[: at + 1])) for at in range(ROUNDS - 1))
"""Of 2^32: where each round but the last one ends."""
TURNS = 2**31 - 1
BY_TURN, BY_PART = 3_242_174_889, 2_447_445_414
"""2^32 over the plastic number and over its square: sums of multiples of both lie evenly in 2^32."""
_AFTER_A_GIANT = 0.66
_OF_GROUPS = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16)

Report = TypeVar("Report", InstanceReport, GroupReport)


def shares(instances: int) -> F64:
    """The part of all rows that each piece gets, in the order in which Spark starts them."""
    return np.repeat(np.diff([0, *ENDS, 2**32]) / (2**32 * instances), instances)


def left_by_pieces(uneven: float, giant: float, instances: int) -> float:
    """What pieces leave uneven where equal parts leave `uneven`, in parts of an instance's work; and `giant` is what a single
    row has of it, if that is much.

    Fitted to simulations with drawn costs, 4 to 32 instances, 500 to 10,000 rows: some of the smallest piece, a twelfth of what
    was uneven, and, where large pieces come out longer than all that follows them, more. Behind a giant come the rest of its
    own piece and what ran before it, two thirds of an instance's other rows on average.
    """
    chance = min(uneven, 0.0125 + 0.08 * uneven + 0.7 * uneven**2)
    return chance + max(0.0, giant + _AFTER_A_GIANT * (1.0 - giant / instances) - 1.0) if giant else chance


def group_shares(instances: int) -> F64:
    """The same for groups, which are kept whole."""
    return np.repeat(_OF_GROUPS, instances) / instances


def piece_of(positions: I64, part: int, instances: int) -> I64:
    """The piece of each row of a part of the input, by its position. The pieces of an instance get as many rows of the part
    together as those of another, or one more; each piece gets its share, but for some rows."""
    turn, instance = np.divmod(positions + first_instance(2 * part, instances), instances)
    drawn = ((turn & TURNS) * BY_TURN + part * BY_PART) % 2**32
    return instance + instances * np.searchsorted(ENDS, drawn, side="right")


def joined(reports: Sequence[Report], instances: int) -> list[Report]:
    """The reports of pieces, each under the instance whose it was: pieces in order, each to the one that has worked least.

    That is what so many slots do that take a piece as they come free. Which slot really ran a piece is not told, and there may
    have been more slots or fewer.
    """
    worked_s = [(0.0, instance) for instance in range(instances)]
    placed: list[Report] = []
    for report in sorted(reports, key=lambda it: it.instance):
        least_s, least = worked_s[0]
        heapreplace(worked_s, (least_s + report.busy_s, least))
        placed.append(replace(report, instance=least))
    return placed
