"""How evenly DKG with automatic parameters spreads recorded keys, and what rebuilding buys when keys drift.

    python benchmarks/key_streams.py FOLDER [--json]

FOLDER holds the recorded streams (see recorded_keys.py); files that are not there are left out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.kernels.types import U64
from evenly.keys.dkg import DKG
from evenly.keys.drift import detect, rebuild
from evenly.keys.mapping import Mapping
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.lab.rivals.keys.universal import Universal
from evenly.measures import imbalance_pct, instance_loads
from evenly.sketches import key_ids
from recorded_keys import recorded_keys

INSTANCES = (4, 8, 16, 32)
WINDOW = 10_000
Row = dict[str, object]


def imbalance(mapping: Mapping, ids: U64) -> float:
    return imbalance_pct(instance_loads(mapping.assign_ids(ids), mapping.instances))


def balance(stream: str, ids: U64) -> list[Row]:
    """λ of DKG fitted on the evaluated part itself, and on the first fifth; exact greedy and hashing beside it."""
    first, rest = ids[: ids.size // 5], ids[ids.size // 5 :]
    rows: list[Row] = []
    for instances in INSTANCES:
        learner = DKG.automatic(instances).fit(rest)
        ways: dict[str, float] = {
            "universal": float(np.mean([imbalance(Universal(seed=seed).mapping(instances), rest) for seed in range(8)])),
            "o-apx": imbalance(ExactGreedy().fit(rest).mapping(instances), rest),
            "dkg": imbalance(learner.mapping(), rest),
            "dkg, first fifth": imbalance(DKG.automatic(instances).fit(first).mapping(), rest),
        }
        rows += [
            {
                "series": "balance",
                "stream": stream,
                "grouping": grouping,
                "instances": instances,
                "imbalance_pct_mean": value,
                "memory_bytes": learner.memory_bytes if grouping.startswith("dkg") else None,
            }
            for grouping, value in ways.items()
        ]
    return rows


def drift(stream: str, ids: U64, instances: int) -> list[Row]:
    """Mean λ over windows, of a mapping learnt from the first window and never rebuilt, of one rebuilt after each
    window where the detector asks for it with 5 % of the load as its budget, and of one made anew after each window."""
    learner = DKG.automatic(instances, half_life=2 * WINDOW)
    learner.fit_ids(ids[:WINDOW])
    fixed = current = anew = learner.mapping()
    never, mended, unlimited, moved = [], [], [], []
    for start in range(WINDOW, ids.size - WINDOW + 1, WINDOW):
        window = ids[start : start + WINDOW]
        never.append(imbalance(fixed, window))
        mended.append(imbalance(current, window))
        unlimited.append(imbalance(anew, window))
        learner.fit_ids(window)
        anew = learner.mapping()
        if detect(learner, current, threshold_pct=1.0).rebuild:
            renewed = rebuild(learner, current, budget_pct=5.0, slack_pct=0.0)
            current = renewed.mapping
            moved.append(renewed.moved_load_pct)
    shared = {"series": "drift", "stream": stream, "instances": instances}
    return [
        {**shared, "grouping": "never rebuilt", "imbalance_pct_mean": float(np.mean(never))},
        {
            **shared,
            "grouping": "rebuilt",
            "imbalance_pct_mean": float(np.mean(mended)),
            "moved_load_pct": float(np.mean(moved)) if moved else 0.0,
            "messages": len(moved),
        },
        {**shared, "grouping": "made anew", "imbalance_pct_mean": float(np.mean(unlimited))},
    ]


def merged(stream: str, ids: U64, instances: int = 16) -> list[Row]:
    """One learner against eight that each see an eighth, merged."""
    one = DKG.automatic(instances).fit(ids)
    eight = [DKG.automatic(instances).fit(part) for part in np.array_split(ids, 8)]
    together = eight[0]
    for other in eight[1:]:
        together.merge(other)
    return [
        {"series": "merged", "stream": stream, "grouping": name, "instances": instances, "imbalance_pct_mean": value}
        for name, value in (
            ("one learner", imbalance(one.mapping(), ids)),
            ("eight, merged", imbalance(together.mapping(), ids)),
        )
    ]


def show(rows: list[Row]) -> None:
    for series in ("balance", "drift", "merged"):
        chosen = [row for row in rows if row["series"] == series]
        groupings = list(dict.fromkeys(str(row["grouping"]) for row in chosen))
        table = Table(title=f"{series}: mean λ in %", title_justify="left")
        for heading in ("stream", "instances", *groupings, "moved %", "rebuilds", "bytes"):
            table.add_column(heading, justify="right")
        for stream, instances in dict.fromkeys((str(row["stream"]), row["instances"]) for row in chosen):
            here = {str(row["grouping"]): row for row in chosen if (row["stream"], row["instances"]) == (stream, instances)}
            extra = {key: value for row in here.values() for key, value in row.items() if value is not None}
            cells = [f"{here[name]['imbalance_pct_mean']:.1f}" for name in groupings]
            moved = f"{extra['moved_load_pct']:.1f}" if "moved_load_pct" in extra else ""
            table.add_row(
                stream, str(instances), *cells, moved, str(extra.get("messages", "")), str(extra.get("memory_bytes", ""))
            )
        Console().print(table)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    for stream, keys in recorded_keys(options.folder):
        ids = key_ids(keys)
        rows += balance(stream, ids) + merged(stream, ids)
        if stream in ("congress_mentions.key", "wiki_sent_1.text"):
            rows += [row for instances in (4, 8, 16) for row in drift(stream, ids, instances)]
    if options.json:
        print_json("key_streams", {"window": WINDOW}, rows)
    else:
        show(rows)


if __name__ == "__main__":
    main()
