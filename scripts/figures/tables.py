"""Tables of measured figures, each from the records of one benchmark."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Records = list[dict[str, Any]]

STREAMS = {
    "flights3m.key": "flights by origin",
    "flights3m.dest": "flights by destination",
    "wyscout_events.player": "football events by player",
    "wyscout_events.cell": "football events by pitch cell",
    "congress_cost.author": "tweets by author",
    "congress_mentions.key": "tweets by mention, 12,000 groups",
    "debian_dep_refs.key": "packages by dependency, 12,000 groups",
    "wikiticker.user": "edits by user, thousands of groups",
    "wiki_sent_1.text": "words of articles, thousands of groups",
    "wyscout_events.sub": "football events by type",
    "wikiticker.key": "edits by channel",
}
GROUP_TIMES = {
    "linear": "in proportion to rows",
    "n log n": "n log n",
    "quadratic": "quadratic",
    "hidden factor": "rows times a factor of the key",
}


def markdown(headings: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """A table; its first column is the only one of words."""
    heading = list(headings)
    rows = [heading, ["---"] * len(heading), *map(list, lines)]
    return "\n".join("|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in rows)


def demo(records: Records) -> str:
    """The job of `make demo`, twice."""
    at = {(one["grouping"], one["series"]): one for one in records if one["series"] != "instance"}
    learning = at["evenly", "learning"]["seconds"]

    def both(label: str, series: str, field: str, unit: str) -> list[str]:
        return [label, *(f"{at[grouping, series][field]:.1f} {unit}" for grouping in ("hash", "evenly"))]

    return markdown(
        ["2 million rows, 8 instances, 2 cores (`make demo`)", "Spark's hash", "Evenly"],
        [
            both("imbalance λ = (max / mean \N{MINUS SIGN} 1) · 100 % of rows", "stage", "imbalance_pct_mean", "%"),
            both("grouped stage", "stage", "seconds", "s"),
            both(f"whole job (learning the mapping once: {learning:.1f} s more)", "job", "seconds", "s"),
        ],
    )


def stage(records: Records) -> str:
    """A grouped function on recorded keys, by ways to place them."""
    ways = {"hash": "hash", "hash, 4 ×": "hash x4", "hash, 16 ×": "hash x16", "adaptive": "adaptive", "salting": "salting"}
    lines = []
    for stream, label in STREAMS.items():
        of_stream = [one for one in records if one["stream"] == stream]
        uneven = next(one for one in of_stream if one["instances"] == 16 and one["series"] == "hash")["imbalance_pct_mean"]
        cells = [" / ".join(f"{best_ratio(of_stream, way, k):.2f}" for k in (8, 16)) for way in (*ways.values(), "evenly")]
        lines.append([label, f"{uneven:.0f} %", *cells[:-1], f"**{cells[-1]}**"])
    return markdown(["", "λ of hash, 16", *ways, "Evenly"], lines)


def best_ratio(records: Records, way: str, instances: int) -> float:
    """The least ratio of a way: adaptive execution is run with two advisory sizes, and the better one counts."""
    ways = (way, "adaptive, finer") if way == "adaptive" else (way,)
    return min(float(one["ratio"]) for one in records if one["series"] in ways and one["instances"] == instances)


def median_ratio(records: Records, way: str, instances: int) -> float:
    """The median over the recorded streams."""
    return statistics.median(
        best_ratio([one for one in records if one["stream"] == stream], way, instances) for stream in STREAMS
    )


def flows(records: Records) -> str:
    """Highest rates of dataflows, predicted and observed."""
    lines = []
    for one in (one for one in records if one["series"] == "case"):
        shape, _, slots = one["x"].rpartition("-")
        alone = [f"{one['lsa_rate']:,.0f}", f"{one['times_lsa']:.1f}"] if "lsa_rate" in one else ["", ""]
        rates = [f"{one['predicted_rate']:,.0f}", f"{one['observed_rate']:,.0f}", f"{one['ratio']:.2f}"]
        lines.append([f"{shape}, {slots} slots", *rates, f"{abs(one['batch_off_pct']):.0f} %", *alone])
    headings = ["predicted rows/s", "observed", "ratio", "a batch's duration, most off", "one thread per task (LSA)", "times"]
    return markdown(["", *headings], lines)


def cost(records: Records) -> str:
    """Whole jobs with rows of unequal cost."""
    lines = []
    before = None
    for one in records:
        lines.append(
            [
                "" if one["stream"] == before else one["stream"],
                f"{one['rows']:,}",
                f"{one['ratio']:.3f} ({one['ratio_low']:.3f} to {one['ratio_high']:.3f})",
                _percent(one["promised_pct"]),
                f"{100.0 * (1.0 - one['ratio']):.1f} %".replace("-", "\N{MINUS SIGN}"),
                f"{one['speedup_mean']:.1f} ({one['speedup_low']:.1f} to {one['speedup_high']:.1f})",
            ]
        )
        before = one["stream"]
    return markdown(["", "rows", "learnt", "promised", "gained", "mean completion, times better"], lines)


def ways(records: Records) -> str:
    """Whole jobs by every way to deal rows, as ratios to one of them."""
    series = list(dict.fromkeys(one["series"] for one in records))
    at = {(one["stream"], one["rows"], one["width"], one["series"]): one["ratio"] for one in records}
    lines = []
    before = None
    for stream, rows, width in dict.fromkeys(key[:3] for key in at):
        named = stream if width == "narrow" else f"{stream}, rows of {width}"
        cells = [f"{at[stream, rows, width, way]:.2f}" for way in series]
        lines.append(["" if named == before else named, f"{rows:,}", *cells])
        before = named
    return markdown(["", "rows", *series], lines)


def _percent(value: float) -> str:
    return f"{value:.1f} %" if value < 10.0 else f"{value:.0f} %"


def times(records: Records) -> str:
    """Groups whose time is not their rows."""
    ways = {"hash": "hash", "4 ×": "hash x4", "16 × partitions": "hash x16", "adaptive": "adaptive", "by rows": "evenly, rows"}
    ways |= {"by time, run 1": "evenly, time, run 1", "run 2": "evenly, time, run 2", "run 3": "evenly, time, run 3"}
    ways |= {"remembered, run 2": "evenly, remembered, run 2", "remembered, run 3": "evenly, remembered, run 3"}
    at = {(one["stream"], one["series"]): one for one in records}
    return markdown(
        ["time of a group", *ways],
        (
            [label, *(f"{at[kind, way]['ratio']:.2f} ({at[kind, way]['placed']:.2f})" for way in ways.values())]
            for kind, label in GROUP_TIMES.items()
        ),
    )


def groups(records: Records) -> str:
    """Many small groups."""
    at = {one["series"]: one for one in records}
    return markdown(
        ["100,000 groups of a few rows", "Spark", "`apply_by_key`", "times faster"],
        (
            [f"`{theirs}`", f"{at[theirs]['seconds']:.3g} s", f"{at[ours]['seconds']:.3g} s", f"{at[ours]['ratio']:.1f}"]
            for theirs, ours in (("applyInPandas", "apply_by_key"), ("applyInArrow", "apply_by_key, arrow"))
        ),
    )


def results(of: Mapping[str, Records]) -> str:
    """The one table of the README: a line for each cause."""
    shown = {(one["grouping"], one["series"]): one for one in of["demo"] if one["series"] != "instance"}
    small = {one["series"]: one["seconds"] for one in of["groups"]}
    timed = {(one["stream"], one["series"]): one["ratio"] for one in of["times"]}
    reach = next(one for one in of["cost"] if one["stream"] == "reach" and one["rows"] == 2_000)
    cases = [one for one in of["flows"] if one["series"] == "case"]
    near = sum(abs(one["ratio"] - 1.0) <= 0.1 for one in cases)
    hashed, even = (shown[grouping, "stage"] for grouping in ("hash", "evenly"))
    earlier = f"rows are done {reach['speedup_mean']:.1f} times earlier"
    kind, of_key = (
        "hidden factor",
        "groups of which only the key tells the time: stage over its lower bound, first run and third",
    )
    lines = {
        "rows of the busiest of 8 instances, beyond the mean (λ)": (
            *(f"{one['imbalance_pct_mean']:.1f} %" for one in (hashed, even)),
            "make demo",
        ),
        "its grouped stage": (f"{hashed['seconds']:.1f} s", f"{even['seconds']:.1f} s", "make demo"),
        "the same on 11 recorded key columns, 16 instances: median of stage time over its lower bound": (
            *(f"{median_ratio(of['stage'], way, 16):.2f}" for way in ("hash", "evenly")),
            "make bench-stage",
        ),
        "100,000 small groups through a Python function": (
            *(f"{small[way]:.0f} s" for way in ("applyInPandas", "apply_by_key")),
            "make bench-groups",
        ),
        of_key: (
            f"{timed[kind, 'hash']:.2f}",
            ", ".join(f"{timed[kind, f'evenly, time, run {run}']:.2f}" for run in (1, 3)),
            "make bench-times",
        ),
        f"2,000 searches of unequal cost, learnt: whole job as a ratio ({earlier})": (
            "1",
            f"{reach['ratio']:.2f}",
            "make bench-cost",
        ),
        "highest rate of a dataflow, predicted within 10 %": ("", f"{near} of {len(cases)}", "make bench-flows"),
    }
    return markdown(
        ["", "Spark", "Evenly", "measured by"],
        ([label, theirs, ours, f"`{by}`"] for label, (theirs, ours, by) in lines.items()),
    )


def uneven(records: Records) -> str:
    """Of recorded keys two that whole keys can balance, at 16 instances."""
    ways = {"hash": "hash", "4 ×": "hash x4", "adaptive": "adaptive", "salting": "salting", "Evenly": "evenly"}
    heading = "`make bench-stage`, stage time over the lower bound, 16 instances"
    return _some_streams(records, heading, ways, {"flights3m.key": "", "congress_cost.author": ""})


def hot(records: Records) -> str:
    """Of recorded keys the two with a key hotter than an instance, at 16 instances."""
    ways = {"hash": "hash", "adaptive": "adaptive", "salting": "salting", "Evenly": "evenly"}
    heading = "`make bench-stage`, stage time over the time of the heaviest key or an even share, 16 instances"
    shares = {"wyscout_events.sub": " (one key: 40 % of the rows)", "wikiticker.key": " (31 %)"}
    return _some_streams(records, heading, ways, shares)


def _some_streams(records: Records, heading: str, ways: Mapping[str, str], streams: Mapping[str, str]) -> str:
    lines = []
    for stream, more in streams.items():
        of_stream = [one for one in records if one["stream"] == stream]
        cells = [f"{best_ratio(of_stream, way, 16):.2f}" for way in ways.values()]
        lines.append([STREAMS[stream] + more, *cells[:-1], f"**{cells[-1]}**"])
    return markdown([heading, *ways], lines)


def jobs(records: Records) -> str:
    """Whole jobs with rows of unequal cost, in short."""
    at = {(one["stream"], one["rows"]): one["ratio"] for one in records}
    sizes = sorted({rows for _, rows in at})
    kinds = {"reach": "searches in a graph", "documents": "documents of every length", "tweets": "tweets, three kinds of waits"}
    return markdown(
        ["`make bench-cost`, whole job over `repartition(8)`, once learnt", *(f"{rows:,} rows" for rows in sizes)],
        ([label, *(f"{at[kind, rows]:.3f}" for rows in sizes)] for kind, label in kinds.items()),
    )


def kept(records: Records) -> str:
    """A table that was written down as it was measured: each record is a line, its cells are texts."""
    return markdown(records[0], (map(str, one.values()) for one in records))


def sent(records: Records) -> str:
    """Of the link the words by partial key grouping, with and without a policy."""
    at = {one["mean / p99 / slowest task, ms"]: one for one in records}
    lines = {
        "link at 1.2 of what it carries, no policy": ("`none`", "1.2"),
        "the same, `lbf`": ("`lbf`, τ = 50 ms", "1.2"),
        "the same, `fcfs`": ("`fcfs`, τ = 50 ms", "1.2"),
        "link at 0.95, no policy": ("`none`", "0.95"),
        "link at 0.95, `fcfs`": ("`fcfs`, τ = 10 ms", "0.95"),
    }
    return markdown(
        ["`make bench-word-count`, ten tasks, words by partial key grouping, ms", "mean", "p99", "slowest task"],
        ([label, *at[policy][f"PKG, load {load}"].split(" / ")] for label, (policy, load) in lines.items()),
    )


def state(records: Records) -> str:
    """Of streaming queries two whose rows take time, and one whose rows take none."""
    at = {one[""]: one for one in records}
    lines = {
        "flights by airport": "flights by airport: Python with state, 1 ms per row",
        "football by player": "football by player: the same",
        "flights, `dropDuplicates` only": "flights: `dropDuplicates`",
    }
    columns = ("λ of rows, hash → Evenly", "λ of time", "8 by hash", "8 by Evenly")
    return markdown(
        [
            "`make bench-streaming`, 8 instances, Python with state, 1 ms a row",
            "λ of rows",
            "λ of time",
            "rows/s by hash",
            "by Evenly",
        ],
        ([label, *(at[line][column] for column in columns)] for label, line in lines.items()),
    )


def facts(records: Records) -> str:
    """What records cost, and what the live page does."""
    labels = {"records": "records to a file and to Prometheus", "watched": "the live page, with a reader"}
    lines = []
    for one in (one for one in records if one["series"] in labels):
        spread = [
            f"{one[f'ratio_{what}']:.3f} ({one[f'ratio_{what}_low']:.3f} to {one[f'ratio_{what}_high']:.3f})"
            for what in ("cpu_s", "seconds")
        ]
        lines.append([labels[one["series"]], f"{one['share_pct']:.2f} %", f"{one['share_pct_most']:.2f} %", *spread])
    return markdown(
        ["", "share of the job's cpu time", "most of all rounds", "whole job, cpu time: ratio", "wall clock: ratio"], lines
    )


def record(records: Records) -> str:
    """What one record costs."""
    lines = [[f"{one['instances']:,}", f"{one['cpu_us'] / 1e3:.2f} ms"] for one in records if one["series"] == "one record"]
    return markdown(["instances", "cpu time of one record"], lines)


def page(records: Records) -> str:
    """How large the live page's process is."""
    of = [one for one in records if one["series"] == "memory" and one["minute"] % 10 == 0]
    return markdown(
        ["simulated minute", *(str(one["minute"]) for one in of)],
        [["records", *(f"{one['records']:,}" for one in of)], ["MB of its own", *(f"{one['mb']:.1f}" for one in of)]],
    )


def faults(records: Records) -> str:
    """How often each fault struck each operation, and what came of the schedules."""
    kinds = ("executor", "worker", "python", "driver", "exception", "exit", "stop", "cores", "tick", "disk")
    lines = []
    for operation in dict.fromkeys(one["operation"] for one in sorted(records, key=lambda it: it["operation"])):
        of = [one for one in records if one["operation"] == operation]
        struck = [sum(kind in one["happened"] for one in of) for kind in kinds]
        came = [sum(one["verdict"] in verdicts for one in of) for verdicts in (("right",), ("refused", "skipped"))]
        counts = [*came, len(of) - sum(came), *struck, sum(not one["happened"] for one in of)]
        lines.append([f"`{operation}`", *(f"{count or ''}" for count in counts)])
    return markdown(["operation", "right", "refused", "wrong", *kinds, "none"], lines)


SHORT: dict[str, tuple[str, Callable[[Records], str]]] = {
    "uneven": ("stage", uneven),
    "hot": ("stage", hot),
    "jobs": ("cost", jobs),
    "sent": ("link", sent),
    "state": ("streaming", state),
    "record": ("facts", record),
}
"""Parts of figures, with the figure that they are of."""

TABLES: dict[str, Callable[[Records], str]] = {
    "demo": demo,
    "stage": stage,
    "flows": flows,
    "cost": cost,
    "ways": ways,
    "times": times,
    "groups": groups,
    "facts": facts,
    "page": page,
    "faults": faults,
    **dict.fromkeys(("joins", "streaming", "drift", "link", "rules", "examples", "placing", "micro", "rebuilt"), kept),
}
