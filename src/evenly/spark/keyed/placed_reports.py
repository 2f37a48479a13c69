"""Which instance a report of groups is of, whatever the number of the task that gave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenly.costs.group_report import GroupReport
from evenly.costs.rounds import joined
from evenly.kernels.types import F64, I64
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping


@dataclass(frozen=True, eq=False)
class PlacedReports:
    """Reports of a run over so many instances, whose groups were placed by `mapping`; None where that is not known.

    With fewer instances than the mapping has, it is over pieces of what they do.
    """

    instances: int
    mapping: Mapping | SplitMapping | None

    def of(self, reports: Sequence[GroupReport]) -> list[GroupReport]:
        """Each under the instance that its keys are on, once, in order, if the mapping is known.

        A task may have run several (`coalesce`), partitions are counted on behind those of others (a union), and what was lost
        ran again: of two reports with a key in common the last one stays. Without groups a report is of an instance that no
        other one is of. Where keys are split a shuffle follows, and tasks have the numbers of their instances.
        """
        if self.mapping is None:
            return list(reports)
        split = isinstance(self.mapping, SplitMapping) and self.mapping.needs_merge
        light = self.mapping.light if isinstance(self.mapping, SplitMapping) else self.mapping
        taken: dict[int, GroupReport] = {}
        others = []
        for report in reports:
            if split:
                taken[report.instance] = report
                continue
            at = int(light.assign_ids(report.ids[:1].view(np.uint64))[0]) if report.ids.size else -1
            if at >= 0 and (at not in taken or _meet(taken[at].ids, report.ids)):
                taken[at] = replace(report, instance=at)
            else:
                others.append(report)
        free = (at for at in range(self.mapping.instances) if at not in taken)
        told = [replace(report, instance=at) for at, report in zip(free, others, strict=False)]
        return sorted([*taken.values(), *told], key=lambda report: report.instance)

    def joined(self, reports: Sequence[GroupReport]) -> Sequence[GroupReport]:
        """What `of` gave, by instance also where each is in pieces."""
        in_pieces = self.mapping is not None and self.mapping.instances != self.instances
        return joined(reports, self.instances) if in_pieces else reports

    def busy_s(self, reports: Sequence[GroupReport]) -> F64:
        """The measured time of each instance's groups, of what `of` gave."""
        whole = self.joined(reports)
        first = 0
        if self.mapping is None:  # in a union partitions are counted after those of others
            first = min((report.instance for report in whole), default=0)
        busy_s = np.zeros(max([self.instances, *(report.instance - first + 1 for report in whole)]))
        for report in whole:
            busy_s[report.instance - first] += report.busy_s
        return busy_s


def _meet(some: I64, others: I64) -> bool:
    return bool(np.isin(some, others).any())
