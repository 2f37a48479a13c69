"""What a benchmark printed with `--json`, or the outcomes of `make test-faults`, as the file that tables are made of."""

from __future__ import annotations

import json
from itertools import groupby
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


def take(printed: Path, folder: Path, measured: str) -> Path:
    """Write the figure of what was printed, `measured` on which machine, in place of the one there was."""
    told = json.loads(printed.read_text("utf-8"))
    if all(seed.isdigit() for seed in told):
        told = {"command": "faults", "parameters": {"schedules": len(told)}, "results": _schedules(told)}
    if told.get("command") not in FIGURES:
        raise SystemExit(f"{printed}: results of {told.get('command')!r}; figures are made of {', '.join(sorted(FIGURES))}")
    path = folder / f"{FIGURES[told['command']]}.json"
    records = told["results"]
    if told["command"] == "cost_stage":
        records = _whole_jobs(records)
    if told["command"] == "demo":
        records = [
            {name: it for name, it in one.items() if not (one["series"] == "instance" and name == "seconds")} for one in records
        ]
    before = json.loads(path.read_text("utf-8"))
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


def _whole_jobs(records: Records) -> Records:
    """Of every kind and number of rows the learnt job over `repartition(k)`, from rounds that ran both."""
    plain = "repartition(k)"

    def cell(one: dict[str, Any]) -> tuple[str, int, str]:
        return one["stream"], one["rows"], one["width"]

    found = []
    jobs = [one for one in records if one["figure"] == "jobs" and one["series"] in (plain, "learnt")]
    for (stream, rows, width), of_cell in groupby(sorted(jobs, key=cell), key=cell):
        by_way: dict[str, dict[int, dict[str, Any]]] = {plain: {}, "learnt": {}}
        for one in of_cell:
            by_way[one["series"]][one["round"]] = one
        both = sorted(by_way[plain].keys() & by_way["learnt"].keys())
        ours, theirs = ([by_way[way][at] for at in both] for way in ("learnt", plain))
        ratio = paired_ratio([one["seconds"] for one in ours], [one["seconds"] for one in theirs])
        earlier = paired_ratio([one["completion_ms_mean"] for one in theirs], [one["completion_ms_mean"] for one in ours])
        found.append(
            {"stream": stream, "rows": rows, "width": width, "instances": ours[-1]["instances"], "baseline": plain}
            | {"series": "learnt", "ratio": ratio.median, "ratio_low": ratio.low, "ratio_high": ratio.high}
            | {"promised_pct": 100.0 * ours[-1]["promised"]}
            | {"speedup_mean": earlier.median, "speedup_low": earlier.low, "speedup_high": earlier.high}
        )
    return found
