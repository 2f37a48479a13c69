"""python -m faults [--seed N] [--schedules N] [--processes N] [--list] [--out FILE]"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import quick_java
import quick_python
from faults.cluster import DAEMON
from faults.runner import Runner
from faults.schedule import KINDS, OPERATIONS, Schedule, draw
from faults.table import table

_GOOD = {"right", "refused", "skipped"}


def main() -> int:
    quick_java.hurry()
    _fork_ready_workers()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # the cluster must not outlive its campaign
    asked = _asked()
    if asked.schedule:
        return _one(Schedule.from_json(asked.schedule), shrink=asked.shrink)
    if asked.schedules is None and not asked.seeds:
        if asked.list:
            _say(draw(asked.seed).told())
            return 0
        return _one(draw(asked.seed), shrink=asked.shrink)
    seeds = asked.seeds or list(range(asked.seed, asked.seed + asked.schedules))
    if asked.list:
        for seed in seeds:
            _say(draw(seed).told())
        return 0
    return _campaign(seeds, asked)


def _fork_ready_workers() -> None:
    """Python workers are forked with their imports done, as in `make test`: every killed executor starts them anew."""
    folder = str(Path(quick_python.__file__).with_name(quick_python.DAEMON))
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ[DAEMON] = quick_python.DAEMON


def _campaign(seeds: list[int], asked: argparse.Namespace) -> int:
    out = Path(asked.out)
    if asked.processes > 1:
        _side_by_side(seeds, out, asked)  # what is left after that is nothing, and is told
    return _many([draw(seed) for seed in seeds], out, shrink=asked.shrink)


def _side_by_side(seeds: list[int], out: Path, asked: argparse.Namespace) -> None:
    """Several campaigns at once, each with a cluster of its own: one leaves cores idle while it waits for its faults."""
    _gather(out)  # of a campaign that was killed
    done = _done(out)
    left = [seed for seed in seeds if str(seed) not in done]
    parts = {out.with_name(f"{out.name}.{number}"): left[number :: asked.processes] for number in range(asked.processes)}
    running = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "faults", "--out", str(part), "--seeds", *map(str, share)),
                *([] if asked.shrink else ["--no-shrink"]),
            ]
        )
        for part, share in parts.items()
        if share
    ]
    try:
        for one in running:
            one.wait()
    finally:
        for one in running:
            one.terminate()
            one.wait()
        _gather(out)


def _gather(out: Path) -> None:
    """Put the outcomes of campaigns side by side into one file."""
    done, parts = _done(out), list(out.parent.glob(f"{out.name}.*"))
    for part in parts:
        done |= _done(part)
    out.write_text(json.dumps(done, indent=1))
    for part in parts:
        part.unlink()


def _done(out: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(out.read_text()) if out.exists() else {}
    return found


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m faults", description="Seeded schedules of faults on a cluster on loopback."
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed, or with --schedules the first one")
    parser.add_argument("--schedules", type=int, help="how many seeds, one after the other")
    parser.add_argument("--seeds", type=int, nargs="+", help="these seeds, one after the other")
    parser.add_argument("--processes", type=int, default=1, help="how many of these run at once, each on a cluster of its own")
    parser.add_argument("--schedule", help="a schedule as JSON, as a shrunk one is printed")
    parser.add_argument("--list", action="store_true", help="say what would be run")
    parser.add_argument("--out", default="faults.json", help="outcomes; seeds that are in it already are not run again")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false", help="leave failing schedules as they are")
    return parser.parse_args()


def _one(schedule: Schedule, *, shrink: bool) -> int:
    _say(schedule.told())
    with Runner(Path(tempfile.mkdtemp(prefix="evenly-faults-"))) as runner:
        outcome = runner.run(schedule)
        _say(json.dumps(outcome, indent=1).replace("\\n", "\n"))
        if outcome["verdict"] in _GOOD:
            return 0
        if shrink:
            _tell_shrunk(runner, schedule, outcome)
    return 1


def _tell_shrunk(runner: Runner, schedule: Schedule, outcome: dict[str, Any]) -> dict[str, Any]:
    plainer, why = runner.shrunk(schedule, outcome)
    _say(f"  shrunk: {plainer.told()}\n  {why['verdict']}: {why.get('why', '')[:400]}")
    _say(f"  again: python -m faults --seed {schedule.seed}\n  shrunk: python -m faults --schedule '{plainer.as_json()}'")
    return {"shrunk": plainer.as_json(), "shrunk_why": why.get("why", "")}


def _many(schedules: list[Schedule], out: Path, *, shrink: bool) -> int:
    """Schedules in the order in which a driver serves longest; what has been run is kept in a file."""
    done = _done(out)
    left = [schedule for schedule in schedules if str(schedule.seed) not in done]
    left.sort(key=lambda one: (one.settings.speculation, one.seed))
    begun = time.monotonic()
    if left:
        _run(left, done, out, shrink=shrink)
    records = {int(seed): record for seed, record in done.items()}
    _say(table(records, OPERATIONS, KINDS))
    failed = {seed: record for seed, record in records.items() if record["verdict"] not in _GOOD}
    for seed, record in sorted(failed.items()):
        _say(f"seed {seed}: {record['verdict']}: {record.get('why', '')[:200]}")
    total = sum(record["seconds"] for record in records.values())
    _say(
        f"{len(records)} schedules, {len(failed)} wrong, {total / max(len(records), 1):.1f} s each on average, "
        f"{time.monotonic() - begun:.0f} s now"
    )
    return 1 if failed else 0


def _run(schedules: list[Schedule], done: dict[str, dict[str, Any]], out: Path, *, shrink: bool) -> None:
    with Runner(Path(tempfile.mkdtemp(prefix="evenly-faults-"))) as runner:
        for number, schedule in enumerate(schedules, 1):
            outcome = runner.run(schedule)
            record = {"operation": schedule.operation, "faults": [fault.kind for fault in schedule.faults], **outcome}
            _say(f"{number}/{len(schedules)} {outcome['verdict']} in {outcome['seconds']} s, {schedule.told()}")
            if outcome["verdict"] not in _GOOD:
                _say(f"  {outcome.get('why', '')[:600]}\n  again: python -m faults --seed {schedule.seed}")
                if shrink:
                    record |= _tell_shrunk(runner, schedule, outcome)
            done[str(schedule.seed)] = record
            out.write_text(json.dumps(done, indent=1))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
