"""The table of docs/which.md: what is uneven, what to use, and what that gave where it was measured."""

from __future__ import annotations

from collections.abc import Mapping

from tables import STREAMS, Records, best_ratio, markdown

WAYS = ("hash", "hash x4", "hash x16", "adaptive", "salting")


def which(of: Mapping[str, Records]) -> str:
    """A line for each cause."""
    return markdown(["what is uneven", "and", "use", "measured here"], [[*line, told] for line, told in _lines(of)])


def _lines(of: Mapping[str, Records]) -> list[tuple[tuple[str, str, str], str]]:
    hot = "one key has more than a task's share"
    each = "a Python function for each group"
    return [
        (("rows of keys", "a grouped, windowed or joined operator of Spark", "[`by_key`](howto/unequal-keys.md)"), _demo(of)),
        (("rows of keys", each, "[`apply_by_key`](keys.md#every-keyed-operator)"), _first(of["stage"])),
        (
            (
                "nothing; there are thousands of small groups",
                "a Python function for each",
                "[`apply_by_key`](keys.md#every-keyed-operator)",
            ),
            _groups(of["groups"]),
        ),
        ((hot, "results that merge", "[`aggregate_by_key`](howto/hot-keys.md)"), _hot(of["stage"])),
        ((hot, "a join", "[`join_by_key`](keys.md#joins-with-hot-keys)"), "`make bench-joins`"),
        ((hot, "files by key", "[`write_by_key`](keys.md#writing-by-key)"), "`make bench-writing`"),
        (
            ("time of groups, not their rows", each, '[`apply_by_key(…, balance="time")`](howto/unequal-rows.md#groups)'),
            _times(of["times"]),
        ),
        (("time of rows", "a Python function for each row", "[`apply_by_cost`](howto/unequal-rows.md)"), _costs(of["cost"])),
        (
            ("state and rows of a stream's keys", "work for each row", "[`stream_by_key`](howto/streaming-state.md)"),
            _state(of["streaming"]),
        ),
        (
            ("time of a stream's rows", "a Python function for each row", "[`stream_apply_by_cost`](costs.md#streaming)"),
            "costs are learnt from batch to batch",
        ),
        (
            ("what tasks of a machine have to send", "a full link", "[`send(…, link=, policy=)`](howto/sending.md)"),
            _link(of["link"]),
        ),
        (
            ("nothing yet: how many slots and threads?", "a dataflow and a rate", "[`evenly plan`](howto/sizing.md)"),
            _flows(of["flows"]),
        ),
    ]


def _demo(of: Mapping[str, Records]) -> str:
    hashed, even = (
        next(one for one in of["demo"] if one["grouping"] == way and one["series"] == "stage") for way in ("hash", "evenly")
    )
    rows = f"λ of rows {hashed['imbalance_pct_mean']:.1f} → {even['imbalance_pct_mean']:.1f} %"
    return f"{rows}, stage {hashed['seconds']:.1f} → {even['seconds']:.1f} s (`make demo`)"


def _first(records: Records) -> str:
    first = level = 0
    for stream in STREAMS:
        of_stream = [one for one in records if one["stream"] == stream]
        for instances in (8, 16):
            ours = round(best_ratio(of_stream, "evenly", instances), 2)
            best = min(round(best_ratio(of_stream, way, instances), 2) for way in WAYS)
            first += ours <= best
            level += ours == best
    times = {0: "", 1: ", once level", 2: ", twice level"}.get(level, f", {level} times level")
    return f"first of six ways in {first} of {2 * len(STREAMS)} cases{times} (`make bench-stage`)"


def _groups(records: Records) -> str:
    seconds = {one["series"]: one["seconds"] for one in records}
    return f"100,000 groups: {seconds['apply_by_key']:.0f} s for {seconds['applyInPandas']:.0f} s (`make bench-groups`)"


def _hot(records: Records) -> str:
    ratios = [
        best_ratio([one for one in records if one["stream"] == stream], "evenly", 16)
        for stream in ("wyscout_events.sub", "wikiticker.key")
    ]
    told = " and ".join(f"{ratio:.2f}" for ratio in ratios)
    return f"stage at {told} of what whole keys allow, 16 instances (`make bench-stage`)"


def _times(records: Records) -> str:
    ratio = {one["series"]: one["ratio"] for one in records if one["stream"] == "hidden factor"}
    third = f"{ratio['evenly, time, run 3']:.2f} of the lower bound in the third run"
    return f"{third}, {ratio['hash']:.2f} by hash (`make bench-times`)"


def _costs(records: Records) -> str:
    one = next(one for one in records if one["stream"] == "reach" and one["rows"] == 2_000)
    earlier = f"rows done {one['speedup_mean']:.1f} times earlier"
    return f"whole jobs of 2,000 searches {one['ratio']:.3f}, {earlier} (`make bench-cost`)"


def _state(records: Records) -> str:
    told = {one[""]: one for one in records}
    flights, football = told["flights by airport: Python with state, 1 ms per row"], told["football by player: the same"]
    more = sorted(100.0 * (_number(one["8 by Evenly"]) / _number(one["8 by hash"]) - 1.0) for one in (flights, football))
    return f"λ of time {flights['λ of time']}, {more[0]:.0f} to {more[1]:.0f} % more rows/s (`make bench-streaming`)"


def _link(records: Records) -> str:
    at = {one["mean / p99 / slowest task, ms"]: one["PKG, load 1.2"] for one in records}
    slowest = {policy: at[policy].split(" / ")[2].strip("*") for policy in ("`none`", "`fcfs`, τ = 50 ms")}
    return f"slowest task {slowest['`fcfs`, τ = 50 ms']} ms for {slowest['`none`']} at load 1.2 (`make bench-word-count`)"


def _flows(records: Records) -> str:
    cases = [one for one in records if one["series"] == "case"]
    near = sum(abs(one["ratio"] - 1.0) <= 0.1 for one in cases)
    return f"highest rate within 10 % in {near} of {len(cases)} (`make bench-flows`)"


def _number(text: str) -> float:
    return float(text.strip("*").replace(",", ""))
