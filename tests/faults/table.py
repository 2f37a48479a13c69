"""What a campaign has covered: operation × fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table(records: Mapping[int, Mapping[str, Any]], operations: Sequence[str], kinds: Sequence[str]) -> str:
    """How often each fault happened in each operation, and the seeds; schedules in which nothing happened are under none."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for seed, record in sorted(records.items()):
        for kind in dict.fromkeys(record["happened"]) or ("none",):
            seeds.setdefault((record["operation"], kind), []).append(seed)
    shown = (*kinds, "none")
    wide = max(map(len, operations))
    lines = [" ".join([" " * wide, *(f"{kind:>9}" for kind in shown)])]
    for operation in operations:
        counts = (len(seeds.get((operation, kind), ())) for kind in shown)
        lines.append(" ".join([f"{operation:<{wide}}", *(f"{count or '.':>9}" for count in counts)]))
    lines.append("seeds:")
    for operation in operations:
        told = [f"{kind} {','.join(map(str, seeds[operation, kind]))}" for kind in shown if (operation, kind) in seeds]
        if told:
            lines.append(f"  {operation}: {'; '.join(told)}")
    return "\n".join(lines)
