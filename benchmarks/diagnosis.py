"""Does `evenly diagnose log` say what is true? Jobs of which the cause is known, on a real session and a real cluster.

python benchmarks/diagnosis.py [--seeds 3] [--logs FOLDER] [--docs docs/diagnose.md] [--json]

Runs the applications of diagnosis_jobs.py, each in a process of its own, and reads their event logs. One log holds many jobs,
each a case of its own with its own expected finding. A finding that is neither expected nor allowed is wrong (precision), an
expected one that is not told is missed (recall). `--logs` names a folder: logs that are there are read and not made again.
`--docs` names a page whose table is replaced by this one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from arguments import benchmark_parser
from diagnosis_jobs import APPLICATIONS, Case
from evenly.cli.output import print_json
from evenly.diagnosis.application import read_application
from evenly.diagnosis.causes import diagnose_application
from evenly.diagnosis.event_log import open_event_log
from evenly.diagnosis.findings import Cause

_BEGIN, _END = "<!-- bench-diagnosis -->", "<!-- end of bench-diagnosis -->"
_JOBS = Path(__file__).with_name("diagnosis_jobs.py")


@dataclass(frozen=True)
class Judged:
    """A case and what was told of it: the causes of its stages, and calls that are no code."""

    case: Case
    seed: int
    told: frozenset[str]
    bad_calls: tuple[str, ...] = ()

    @property
    def right(self) -> int:
        return len(self.told & self.case.causes)

    @property
    def wrong(self) -> frozenset[str]:
        return self.told - self.case.causes - self.case.allowed

    @property
    def missed(self) -> frozenset[str]:
        return self.case.causes - self.told


def judged(log: Path, application: str, seed: int) -> Iterator[Judged]:
    """What is told of each case of one log."""
    found = diagnose_application(read_application(open_event_log(log))).findings
    for case in APPLICATIONS[application]:
        its = [one for one in found if one.stage.description == f"{case.name} #{seed}" and one.cause is not Cause.EVEN]
        bad = tuple(one.call for one in its if one.call is not None and not _is_code(one.call))
        yield Judged(case, seed, frozenset(one.cause.value for one in its), bad)


def _is_code(call: str) -> bool:
    try:
        compile(call, "call", "exec")
    except SyntaxError:
        return False
    return True


def logs(root: Path, seeds: int) -> Iterator[tuple[Path, str, int]]:
    """The event log of every application, made where it is missing."""
    for seed in range(seeds):
        for application in APPLICATIONS:
            folder = root / f"{application} {seed}"
            if not folder.is_dir() or not any(folder.iterdir()):
                done = subprocess.run(
                    [sys.executable, str(_JOBS), str(folder), application, str(seed)],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if done.returncode:
                    print(f"{application} #{seed} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
            yield folder, application, seed


def table(cases: list[Judged]) -> list[tuple[str, ...]]:
    """One row a case: how often it was tried, right, wrong and missed, and what was told that is wrong."""
    rows: list[tuple[str, ...]] = [("job", "expected", "tried", "right", "wrong", "missed", "told instead")]
    for name in dict.fromkeys(one.case.name for one in cases):
        its = [one for one in cases if one.case.name == name]
        expected = ", ".join(sorted(its[0].case.causes)) or "nothing"
        wrong = sum(len(one.wrong) for one in its)
        missed = sum(len(one.missed) for one in its)
        right = sum(1 for one in its if not one.wrong and not one.missed)
        instead = ", ".join(sorted({cause for one in its for cause in one.wrong}))
        rows.append((name, expected, str(len(its)), str(right), str(wrong), str(missed), instead))
    return rows


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--docs", type=Path)
    options = parser.parse_args()
    root = options.logs or Path(tempfile.mkdtemp(prefix="evenly-diagnosis-"))
    cases = [one for log, application, seed in logs(root, options.seeds) for one in judged(log, application, seed)]
    right, wrong = sum(one.right for one in cases), sum(len(one.wrong) for one in cases)
    missed = sum(len(one.missed) for one in cases)
    precision = right / (right + wrong) if right + wrong else 1.0
    recall = right / (right + missed) if right + missed else 1.0
    bad_calls = [call for one in cases for call in one.bad_calls]
    if options.json:
        rows = [dict(zip(table(cases)[0], row, strict=True)) for row in table(cases)[1:]]
        total = {"series": "total", "cases": len(cases), "precision": precision, "recall": recall, "bad_calls": len(bad_calls)}
        print_json("bench-diagnosis", {"seeds": options.seeds}, [total, *({"series": "case", **row} for row in rows)])
        return
    lines = [f"| {' | '.join(row)} |" + ("\n|" + "---|" * len(row) if at == 0 else "") for at, row in enumerate(table(cases))]
    told = f"{len(cases)} cases in {options.seeds * len(APPLICATIONS)} logs: precision {precision:.2f}, recall {recall:.2f}."
    text = "\n".join([told, "", *lines])
    print(f"{text}\n\ncalls that are no code: {len(bad_calls)}")
    if options.docs is not None:
        before, _, rest = options.docs.read_text().partition(_BEGIN)
        options.docs.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{rest.partition(_END)[2]}")


if __name__ == "__main__":
    main()
