"""The rounds of `cost_jobs` as a table, and what they show of its bars."""

from __future__ import annotations

import statistics
from typing import Any

from cost_jobs import FIRST, LEARNT, PARTITIONS, PLAIN, WHOLE, K
from cost_parts import APPLICATIONS, Bar, Rows, table
from evenly.lab.trials.paired import PairedRatio, paired_ratio

MOST_RATIO, LEAST_FASTER, PROMISED, GAINED = 1.03, 1.15, 0.05, 2.0 / 3.0


def show_jobs(rows: Rows) -> list[Bar]:
    """Whole jobs as ratios to `repartition(k)` and to the other ways of Spark's, what was promised, and the mean completion."""
    by_cell: dict[tuple[str, str, str], Rows] = {}
    for row in rows:
        by_cell.setdefault((str(row["stream"]), str(row["rows"]), str(row["width"])), []).append(row)
    bars: list[Bar] = []
    lines = [_line(case, rounds, bars) for case, rounds in by_cell.items()]
    count = max(map(len, by_cell.values()), default=0)
    print(f"Whole job, k = {K} on {K} slots: medians of {count} paired ratios, and where the true median is\n")
    headings = ["costs", "rows", "width", "repartition(k) s"]
    headings += [f"{ours} / {theirs}" for ours in (FIRST, WHOLE, LEARNT) for theirs in PARTITIONS]
    table([*headings, "promised", "with sqrt(2 ln k)", "gained", "completion", "decision"], lines)
    return bars


def flat(rows: Rows) -> Rows:
    """One object for each way of each round."""
    return [
        {
            **{name: value for name, value in row.items() if name not in ("seconds", "completion_ms_mean")},
            "series": way,
            "seconds": seconds,
            "completion_ms_mean": _told(row, "completion_ms_mean")[way],
            "baseline": PLAIN,
            "ratio": seconds / plain if (plain := _told(row, "seconds").get(PLAIN)) else None,
        }
        for row in rows
        for way, seconds in _told(row, "seconds").items()
    ]


def _line(case: tuple[str, str, str], rounds: Rows, bars: list[Bar]) -> list[str]:
    label = ", ".join(case)
    cells = []
    ratios: dict[tuple[str, str], PairedRatio] = {}
    for ours in (FIRST, WHOLE, LEARNT):
        for theirs in PARTITIONS:
            found = _ratio(rounds, "seconds", ours, theirs)
            cells.append("" if found is None else str(found))
            if found is not None:
                ratios[ours, theirs] = found
                text = f"{ours} at most {MOST_RATIO} of {theirs}: {label}"
                bars.append((text, str(found), found.at_most(MOST_RATIO)))
    last = rounds[-1]
    promised, by_cost = float(str(last["promised"])), str(last["reason"]).startswith("by cost")
    learnt = ratios.get((LEARNT, PLAIN))
    gained = faster = ""
    if learnt is not None:
        gained = f"{1.0 - learnt.median:.1%}"
        if promised > PROMISED:
            text = f"two thirds of the promised {promised:.1%} gained: {label}"
            bars.append((text, f"{gained}, ratio {learnt}", learnt.at_most(1.0 - GAINED * promised)))
    # How much earlier rows are done: theirs over ours.
    completion = _ratio(rounds, "completion_ms_mean", PLAIN, LEARNT)
    if completion is not None:
        faster = str(completion)
        if case[0] in APPLICATIONS:
            text = f"mean completion at least {LEAST_FASTER} times better: {label}{'' if by_cost else ' (dealt evenly)'}"
            bars.append((text, faster, completion.at_least(LEAST_FASTER)))
    plain = [seconds[PLAIN] for row in rounds if PLAIN in (seconds := _told(row, "seconds"))]
    plain_s = f"{statistics.median(plain):.2f}" if plain else ""
    decision = str(last["reason"]).split(":")[0]
    return [*case, plain_s, *cells, f"{promised:.1%}", f"{float(str(last['formula'])):.1%}", gained, faster, decision]


def _ratio(rounds: Rows, field: str, ours: str, theirs: str) -> PairedRatio | None:
    """One way over another in the rounds that ran both."""
    both = [told for row in rounds if {ours, theirs} <= set(told := _told(row, field))]
    return paired_ratio([told[ours] for told in both], [told[theirs] for told in both]) if both else None


def _told(row: dict[str, object], field: str) -> dict[str, Any]:
    told = row[field]
    assert isinstance(told, dict)
    return told
