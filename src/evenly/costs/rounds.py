"""Work of unknown cost in rounds of pieces: the large ones first, the small ones for the slots that are free first.

Spark starts tasks in the order of their numbers as slots come free. A slot that got costly rows is still at its large piece
when the others take the small ones. Nothing need be known of costs for that; where they are all alike, all that it takes are
the additional tasks of each instance: two for rows, four for groups, which are fewer and differ more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heapreplace
from typing import TypeVar

import numpy as np

from evenly.costs.group_report import GroupReport
from evenly.costs.report import InstanceReport
from evenly.costs.turns import first_instance
from evenly.kernels.types import F64, I64

ROUNDS = 3
ENDS = (3 << 30, 15 << 28)
"""Of 2^32: each round has 3/4 of what is left over, and the last one the rest."""
TURNS = 2**31 - 1
BY_TURN, BY_PART = 3_242_174_889, 2_447_445_414
"""2^32 over the plastic number and over its square: sums of multiples of both lie evenly in 2^32."""
_OF_GROUPS = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16)

Report = TypeVar("Report", InstanceReport, GroupReport)


def shares(instances: int) -> F64:
    """The part of all rows that each piece gets, in the order in which Spark starts them."""
    return np.repeat(np.diff([0, *ENDS, 2**32]) / (2**32 * instances), instances)


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
