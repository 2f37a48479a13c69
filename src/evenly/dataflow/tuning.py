"""What can be changed between two batches of a dataflow, without a restart and without another result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evenly.dataflow.graph import Edge, Operator

Way = tuple[str, str]
"""The names of the operators at the two ends of an edge."""


@dataclass(frozen=True)
class Tuning:
    """Threads of operators that leave them open (`threads: auto`), instances of edges that are shuffled or placed by key
    without state, and the most rows of a batch, where the source can be told (None: as it is).

    A number of threads in a description is kept: a function may not bear more.
    """

    threads: Mapping[str, int] = field(default_factory=dict)
    instances: Mapping[Way, int] = field(default_factory=dict)
    rows_per_batch: int | None = None

    def threads_of(self, one: Operator) -> int:
        """Calls at once in a task of an operator."""
        return one.threads or self.threads.get(one.name, 1)

    def instances_of(self, edge: Edge, usual: int) -> int:
        """Tasks on which the rows of an edge go, `usual` where nobody says. To `duplicate` rows they say how many there are."""
        if edge.grouping == "duplicate":
            return edge.instances or usual
        return self.instances.get((edge.start, edge.end)) or edge.instances or usual

    def with_threads(self, name: str, threads: int) -> Tuning:
        """The same but for an operator's threads."""
        return replace(self, threads={**self.threads, name: threads})

    def with_instances(self, way: Way, instances: int) -> Tuning:
        """The same but for an edge's instances."""
        return replace(self, instances={**self.instances, way: instances})
