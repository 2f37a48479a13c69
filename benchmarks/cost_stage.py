"""A Python function whose cost depends on the row: Spark's ways to spread the rows, and `evenly.apply_by_cost`.

    python benchmarks/cost_stage.py [--part jobs] [--costs tweets,reach] [--sizes 2000] [--out jobs.jsonl] [--json]

Applications of the POSG and OSG papers, on recorded rows if EVENLY_DATA names their folder, else on generated ones: tweets
(waits of 1, 5 and 25 ms), reach (a real search, filled up with a wait to a time for each edge) and documents (words counted,
filled up likewise). Costs are waits, so that two cores carry ten instances. All ways of a line run in one session, in turn, on
the same rows; what a row took is stamped by the function itself. Parts:

jobs        whole jobs: repartition(k), 32 and 128 partitions, a first run and a learnt one; five costs, four sizes, two
            widths. Each round runs every way once on the same rows, another one first each time; ratios are paired by
            round. It says at the start how long it will take (--costs, --sizes, --widths, --ways, --rounds and --bound-s
            make it shorter), and with --out goes on where it was stopped

batch       time of the stage (first row's start to last row's end) as a ratio to max(sum of costs / k, largest cost), costs
            as measured in the run of least costs; tasks and cpu-seconds of the whole job, routing included
completion  mean completion time from the job's submission on: S_L of `repartition(k)` over Evenly, k = 2 to 10
overhead    a function of 50 us that only computes, on two slots: Evenly beside mapInArrow, costs varying and constant
routing     what routing takes beyond repartition(k) by the row and the byte: the constants of `RoutingCosts`
pieces      simulated: the mean over many deals of a job in pieces, with repartition(k), 32 and 128 partitions, for the five
            costs and four sizes; a task's start takes what it takes on two cores
fixed       what each way to deal rows takes however few they are: the fixed times of `RoutingCosts`
memory      what is learnt of 100 million rows

Without --part: jobs, overhead and memory.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from arguments import benchmark_parser
from cost_jobs import COSTS, PLAIN, SIZES, USUAL_WAYS, WIDTHS, cells, jobs, ways_of
from cost_jobs_table import flat, show_jobs
from cost_parts import APPLICATIONS, Bar, Rows, batch, completion, memory, overhead, table
from cost_pieces import pieces
from cost_routing import fixed, routing
from evenly.cli.output import print_json
from evenly.lab.trials.paired import Verdict

PARTS = ("jobs", "pieces", "batch", "completion", "overhead", "routing", "fixed", "memory")
USUAL = ("jobs", "overhead", "memory")


def shown(*, met: bool) -> Verdict:
    return "met" if met else "missed"


def number(row: dict[str, object], field: str) -> float:
    return float(str(row[field]))


def show_batch(rows: Rows) -> list[Bar]:
    """Ratios to the bound, then what each way pays."""
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    cases = list(dict.fromkeys((str(row["stream"]), str(row["instances"])) for row in rows))
    at = {(str(row["stream"]), str(row["instances"]), str(row["series"])): row for row in rows}
    print("Batch time, ratio to the lower bound: the stage (the whole job)\n")
    lines = []
    for case in cases:
        found = {name: at[(*case, name)] for name in names}
        best = min(number(row, "ratio") for row in found.values())
        cells = [
            f"{'**' * (number(row, 'ratio') == best)}{number(row, 'ratio'):.2f}{'**' * (number(row, 'ratio') == best)} "
            f"({number(row, 'job_ratio'):.2f})"
            for row in found.values()
        ]
        lines.append([*case, f"{number(found[names[0]], 'bound_s'):.2f}", *cells])
    table(["application", "k", "bound s", *names], lines)
    print("Tasks / cpu-seconds / seconds of the whole job, means over the applications\n")
    lines = []
    for k in dict.fromkeys(case[1] for case in cases):
        same = [case for case in cases if case[1] == k]
        cells = [
            " / ".join(
                f"{statistics.mean(number(at[(*case, name)], field) for case in same):.1f}"
                for field in ("tasks", "cpu_s", "seconds")
            )
            for name in names
        ]
        lines.append([k, *cells])
    table(["k", *names], lines)
    others = [name for name in names if name != "evenly"]
    bars: list[Bar] = []
    for case in cases:
        ours = at[(*case, "evenly")]
        best = min(number(at[(*case, name)], "ratio") for name in others)
        label = f"{case[0]}, k = {case[1]}"
        ratio = number(ours, "ratio")
        bars.append((f"batch time at most 1.10 of the bound: {label}", f"{ratio:.3f}", shown(met=ratio <= 1.10)))
        bars.append(
            (f"first or within 3 % of the best other: {label}", f"{ratio:.3f}, {best:.3f}", shown(met=ratio <= 1.03 * best))
        )
    return bars


def show_completion(rows: Rows) -> list[Bar]:
    """S_L over the number of instances."""
    counts = list(dict.fromkeys(str(row["instances"]) for row in rows))
    bars: list[Bar] = []
    lines = []
    for stream in dict.fromkeys(str(row["stream"]) for row in rows):
        ours = [row for row in rows if row["stream"] == stream and row["series"] == "evenly"]
        gains = [number(row, "speedup_mean") for row in ours]
        lines.append([stream, *(f"{gain:.2f}" for gain in gains), f"**{statistics.mean(gains):.2f}**"])
        mean = statistics.mean(gains)
        bars.append((f"mean S_L at least 1.5: {stream}", f"{mean:.2f}", shown(met=mean >= 1.5)))
        bars.append((f"S_L never below 1.0: {stream}", f"least {min(gains):.2f}", shown(met=min(gains) >= 1.0)))
    print("S_L: mean completion time of repartition(k) over Evenly's\n")
    table(["application", *(f"k = {count}" for count in counts), "mean"], lines)
    return bars


def show_overhead(rows: Rows) -> list[Bar]:
    """What is added to a job of cheap rows, in wall and in cpu time."""
    lines = [
        [
            str(row["costs"]),
            str(row["series"]),
            f"{number(row, 'seconds'):.2f}",
            f"{number(row, 'cpu_s'):.2f}",
            f"{number(row, 'fixed_s'):.2f} / {number(row, 'fixed_cpu_s'):.2f}",
            f"{number(row, 'row_us'):.1f}",
            f"{number(row, 'overhead_pct'):+.1f}",
            f"{number(row, 'cpu_overhead_pct'):+.1f}",
        ]
        for row in rows
    ]
    print(f"Overhead, a function of {number(rows[0], 'cost_us'):.0f} us, two slots, the least of the rounds\n")
    headings = ["costs", "way", "s", "cpu s", "of it for 200 rows", "cpu us per row", "overhead %", "cpu overhead %"]
    table(headings, lines)
    at = {(row["costs"], row["series"]): row for row in rows}
    varying, constant = at["varying", "evenly"], at["constant", "evenly"]
    return [
        (
            "routing and measuring under 10 % of the job",
            f"{number(varying, 'overhead_pct'):.1f} % (cpu {number(varying, 'cpu_overhead_pct'):.1f} %) over mapInArrow",
            shown(met=number(varying, "overhead_pct") < 10.0),
        ),
        (
            "constant costs: under 3 % over repartition(k) + mapInArrow",
            f"{number(constant, 'overhead_pct'):.1f} % (cpu {number(constant, 'cpu_overhead_pct'):.1f} %)",
            shown(met=number(constant, "overhead_pct") < 3.0),
        ),
    ]


def show_memory(rows: Rows) -> list[Bar]:
    """Bytes after a long stream."""
    print("What is learnt of a long stream, in KiB\n")
    headings = ["rows", "distinct keys", "model", "saved", "meter of an instance", "its report", "seconds"]
    fields = ("memory_bytes", "saved_bytes", "meter_bytes", "report_bytes")
    table(
        headings,
        [
            [
                f"{int(number(row, 'tuples')):,}",
                f"{int(number(row, 'keys')):,}",
                *(f"{number(row, field) / 1024:,.0f}" for field in fields),
                f"{number(row, 'seconds'):.0f}",
            ]
            for row in rows
        ],
    )
    most = max(number(row, "memory_bytes") for row in rows)
    return [("the learnt state at most 1 MiB for an instance", f"{most / 2**20:.2f} MiB in all", shown(met=most <= 2**20))]


def show_routing(rows: Rows) -> list[Bar]:
    """Cpu by the row."""
    print("Routing: cpu-us per row beyond repartition(k)\n")
    lines = [
        [f"{row['row_bytes']}", str(row["series"]), f"{number(row, 'cpu_s'):.2f}", f"{number(row, 'added_us'):+.1f}"]
        for row in rows
    ]
    table(["bytes per row", "way", "cpu s", "added us per row"], lines)
    return []


def show_fixed(rows: Rows) -> list[Bar]:
    """Seconds of a job of nothing."""
    print("Jobs whose rows cost nothing\n")
    table(["way", "s", "added s"], [[str(row["series"]), f"{row['seconds']:.3f}", f"{row['added_s']:+.3f}"] for row in rows])
    return []


def show_pieces(rows: Rows) -> list[Bar]:
    """Each as a ratio to `repartition(k)`."""
    print("Simulated: the mean time of a job over that with repartition(k); in pieces, eight of ten deals end between\n")
    lines = []
    for row in rows:
        took = {str(way): float(each) for way, each in dict(row["seconds"]).items()}  # type: ignore[call-overload]
        plain_s, cut_s = took[PLAIN], took.pop("in pieces")
        best_s = min(took.values())
        low, high = number(row, "low_s") / plain_s, number(row, "high_s") / plain_s
        ratios = [f"{it / plain_s:.3f}" for it in (*took.values(), cut_s)]
        lines.append([str(row["stream"]), f"{row['rows']:,}", *ratios, f"{low:.3f} and {high:.3f}", f"{cut_s / best_s:.3f}"])
    table(["costs", "rows", *took, "in pieces", "10 and 90 of 100", "over the best"], lines)
    return []


SHOWN: dict[str, Callable[[Rows], list[Bar]]] = {
    "jobs": show_jobs,
    "pieces": show_pieces,
    "batch": show_batch,
    "completion": show_completion,
    "overhead": show_overhead,
    "routing": show_routing,
    "fixed": show_fixed,
    "memory": show_memory,
}


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; may be repeated")
    parser.add_argument("--instances", default="4,8", help="of the part batch")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="the work of a batch for each instance; tweets in completion: twice that"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="of the parts jobs and batch: medians count, and five show something"
    )
    parser.add_argument("--costs", default=",".join(COSTS), help="of the part jobs")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="rows, of the part jobs")
    parser.add_argument("--widths", default=",".join(WIDTHS), help="of the part jobs")
    parser.add_argument("--ways", default=",".join(USUAL_WAYS), help="of the part jobs; also: whole")
    parser.add_argument("--bound-s", type=float, default=10.0, help="the least that a job of the part jobs can take")
    parser.add_argument("--out", type=Path, help="a file of JSON lines for the rounds of the part jobs, which goes on with it")
    parser.add_argument("--arrow-bytes", help="spark.sql.execution.arrow.maxBytesPerBatch of the part jobs, such as 16m")
    parser.add_argument("--quick", action="store_true", help="jobs: 2,000 narrow rows, one round of 2 s; other parts: small")
    parser.add_argument("--applications", default=",".join(APPLICATIONS))
    parser.add_argument("--rows", type=int, default=240_000, help="of the part overhead")
    parser.add_argument("--stream-rows", type=int, default=100_000_000, help="of the part memory")
    options = parser.parse_args()
    names = [name for name in APPLICATIONS if name in options.applications.split(",")]
    counts = [int(text) for text in options.instances.split(",")]
    if options.quick:
        options.sizes, options.widths, options.rounds, options.bound_s = "2000", "narrow", 1, 2.0
        options.rows, options.stream_rows = 24_000, 2_000_000
    sizes = [int(text) for text in options.sizes.split(",")]
    chosen = cells(options.costs.split(","), sizes, options.widths.split(","), options.bound_s)
    ways = ways_of(options.ways.split(","))
    measured: dict[str, Callable[[], Rows]] = {
        "jobs": lambda: jobs(chosen, ways, options.rounds, options.out, options.arrow_bytes),
        "pieces": lambda: pieces(options.bound_s),
        "routing": lambda: routing(
            {100: 40_000, 10_000: 4_000} if options.quick else {100: 400_000, 1_000: 100_000, 10_000: 20_000}
        ),
        "fixed": lambda: fixed(4 if options.quick else 10),
        "batch": lambda: batch(names, counts, options.seconds, options.rounds),
        "completion": lambda: completion([name for name in names if name != "documents"], options.seconds),
        "overhead": lambda: overhead(options.rows),
        "memory": lambda: memory(options.stream_rows),
    }
    results: Rows = []
    bars: list[Bar] = []
    for part in PARTS:
        if part in (options.part or USUAL):
            rows = [{"figure": part, **row} for row in measured[part]()]
            results += flat(rows) if part == "jobs" else rows
            if not options.json:
                bars += SHOWN[part](rows)
    if options.json:
        parameters = {"parts": options.part or list(USUAL), "instances": counts, "seconds": options.seconds}
        print_json("cost_stage", parameters, results)
        return
    if bars:
        table(["bar", "measured", ""], [[text, found, f"**{it}**" if it == "missed" else it] for text, found, it in bars])
        count = Counter(it for _, _, it in bars)
        print(f"{len(bars)} bars: {', '.join(f'{many} {verdict}' for verdict, many in count.items())}", file=sys.stderr)


if __name__ == "__main__":
    main()
