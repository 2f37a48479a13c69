"""What a benchmark printed with `--json`, or the outcomes of `make test-faults`, as the file that tables are made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenly.lab.trials.paired import paired_ratio
from tables import Records

FIGURES = {
    "demo": "demo",
    "keyed_stage": "stage",
    "flow_peaks": "flows",
    "cost_stage": "cost",
    "group_times": "times",
    "many_groups": "groups",
    "facts": "facts",
    "watch": "page",
    "faults": "faults",
}
"""The figure of each command."""
PLAIN, LEARNT = "repartition(k)", "learnt"


def take(printed: Path, folder: Path, measured: str) -> Path:
    """Write the figure of what was printed, `measured` on which machine, in place of the one there was."""
    told = json.loads(printed.read_text("utf-8"))
    if all(seed.isdigit() for seed in told):
        told = {"command": "faults", "parameters": {"schedules": len(told)}, "results": _schedules(told)}
    if told.get("command") not in FIGURES:
        raise SystemExit(f"{printed}: results of {told.get('command')!r}; figures are made of {', '.join(sorted(FIGURES))}")
    name, records = FIGURES[told["command"]], told["results"]
    if told["command"] == "cost_stage":
        name, records = _whole_jobs(records)
    path = folder / f"{name}.json"
    if told["command"] == "demo":
        records = [
            {name: it for name, it in one.items() if not (one["series"] == "instance" and name == "seconds")} for one in records
        ]
    before = json.loads(path.read_text("utf-8"))
    if name == "ways":
        records = _with_others(records, before["results"])
    path.write_text(written(before | {"measured": measured, "parameters": told["parameters"], "results": records}), "utf-8")
    return path


def _schedules(outcomes: dict[str, Any]) -> Records:
    """What a campaign ran and what came of it, by seed."""
    kept = ("operation", "verdict", "happened")
    return [{"seed": seed} | {name: outcomes[str(seed)][name] for name in kept} for seed in sorted(map(int, outcomes))]


def written(figure: dict[str, Any]) -> str:
    """A line for each record, so that a change shows as such."""
    head = json.dumps({name: it for name, it in figure.items() if name != "results"}, ensure_ascii=False, indent=1)
    lines = ",\n".join("  " + json.dumps(one, ensure_ascii=False) for one in figure["results"])
    return f'{head[:-2]},\n "results": [\n{lines}\n ]\n}}\n'


def _whole_jobs(records: Records) -> tuple[str, Records]:
    """Which figure rounds of whole jobs are, and its records: of each cell the ways over `repartition(k)`, from rounds that ran
    both. Where there were no other ways it is that of learnt jobs, which says too what was promised and when rows were done."""
    jobs = [one for one in records if one["figure"] == "jobs"]
    ways = list(dict.fromkeys(one["series"] for one in jobs if one["series"] != PLAIN))
    if ways != [LEARNT]:
        return "ways", [_over_plain(of_cell, way)[0] for of_cell in _by_cell(jobs) for way in ways]
    found = []
    for of_cell in _by_cell(jobs):
        one, ours, theirs = _over_plain(of_cell, LEARNT)
        earlier = paired_ratio([it["completion_ms_mean"] for it in theirs], [it["completion_ms_mean"] for it in ours])
        found.append(
            one
            | {"promised_pct": 100.0 * ours[-1]["promised"]}
            | {"speedup_mean": earlier.median, "speedup_low": earlier.low, "speedup_high": earlier.high}
        )
    return "cost", found


def _by_cell(jobs: Records) -> list[Records]:
    cells = dict.fromkeys(map(_cell, jobs))
    return [[one for one in jobs if _cell(one) == cell] for cell in cells]


def _cell(one: dict[str, Any]) -> tuple[str, int, str]:
    return one["stream"], one["rows"], one["width"]


def _over_plain(of_cell: Records, way: str) -> tuple[dict[str, Any], Records, Records]:
    """A way over `repartition(k)`, and the rounds of both."""
    by_way = {series: {one["round"]: one for one in of_cell if one["series"] == series} for series in (PLAIN, way)}
    both = sorted(by_way[PLAIN].keys() & by_way[way].keys())
    ours, theirs = ([by_way[series][at] for at in both] for series in (way, PLAIN))
    ratio = paired_ratio([one["seconds"] for one in ours], [one["seconds"] for one in theirs])
    stream, rows, width = _cell(ours[-1])
    told = {"stream": stream, "rows": rows, "width": width, "instances": ours[-1]["instances"], "baseline": PLAIN}
    found = {"ratio": ratio.median, "ratio_low": ratio.low, "ratio_high": ratio.high}
    return told | {"series": way} | {name: round(it, 4) for name, it in found.items()}, ours, theirs


def _with_others(records: Records, before: Records) -> Records:
    """With the cells that were measured before and are not among these, narrow rows first."""
    new = set(map(_cell, records))
    all_of = [*(one for one in before if _cell(one) not in new), *records]
    streams = list(dict.fromkeys(one["stream"] for one in all_of))
    return sorted(all_of, key=lambda one: (one["width"] != "narrow", streams.index(one["stream"]), one["rows"]))
