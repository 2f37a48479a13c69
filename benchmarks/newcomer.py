"""A newcomer's path, timed: from clone to the live page in a browser, and from the site's first page to an own job mended.

    python benchmarks/newcomer.py [--from REPOSITORY] [--json]

Every step is done as the README and the first page of the documentation say it, in a folder of its own that is removed
afterwards: clone, set up, `evenly watch --demo` until the page has drawn its first curve (in Chromium, where there is one, else
until the first batch is served); then an own job that is slow, `evenly diagnose log` on its event log, the call that it names
written into the job, and the job again. What is told is what the machine needs; reading and typing come on top. Needs Python
3.11, make and git; how long the set-up takes depends on the network and on what pip and uv have in their caches.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from arguments import benchmark_parser
from evenly.cli.output import print_json

ROOT = Path(__file__).parents[1]
PATIENCE_S = 600.0
DRAWN = "!!document.querySelector('#lambda svg path.seen')"
JOB = """
import sys, time
import pandas as pd
import evenly

settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": sys.argv[1], "spark.sql.shuffle.partitions": "8"}
spark = evenly.local_session(slots=8, settings=settings)
df = spark.range(0, 400_000, 1, 4).selectExpr("cast(pow(400, rand(7)) as long) as user", "id")

def score(rows: pd.DataFrame) -> pd.DataFrame:
    time.sleep(len(rows) / 10_000)  # a service that is asked for each row
    return pd.DataFrame({"user": rows.user[:1], "total": [rows.id.sum()]})

result = df.groupBy("user").applyInPandas(score, "user long, total long")
result.write.format("noop").mode("overwrite").save()
spark.stop()
"""
MENDED = ('df.groupBy("user")', 'df.transform(evenly.by_key, key="user", instances=8).groupBy("user", "slot")')


class Walked:
    """What was done, and how long it took."""

    def __init__(self) -> None:
        self.steps: list[dict[str, object]] = []

    def step(self, name: str, do: Callable[[], str]) -> str:
        """Do it, and note what came of it."""
        begun = time.perf_counter()
        told = do()
        took = time.perf_counter() - begun
        self.steps.append({"series": "step", "x": name, "seconds": took, "told": told})
        print(f"{took:7.1f} s  {name}{': ' if told else ''}{told}", file=sys.stderr, flush=True)
        return told


def run(*command: str, folder: Path) -> str:
    """What a command prints; its error ends this script."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=3 * PATIENCE_S, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


class Demo:
    """`evenly watch --demo` as a process."""

    def __init__(self, clone: Path) -> None:
        command = [str(clone / ".venv/bin/evenly"), "watch", "--demo", "--no-browser", "--port", "0"]
        # A shell has what it runs in the background ignore interrupts.
        self._running = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=_interruptible,  # noqa: PLW1509 - nothing of this process is touched
        )
        assert self._running.stdout is not None
        self.url = self._running.stdout.readline().strip()

    def first_picture(self, folder: Path) -> str:
        """Wait until a browser has drawn the first curve."""
        sys.path.insert(0, str(ROOT / "tests"))
        with suppress(ImportError):
            browsing = importlib.import_module("browsing")
            if browsing.CHROMIUM is not None:
                browser = browsing.Browser(folder)
                try:
                    with browser.page(self.url) as page:
                        page.wait_for(DRAWN, PATIENCE_S)
                finally:
                    browser.close()
                return "drawn in Chromium"
        with urllib.request.urlopen(f"{self.url}events", timeout=PATIENCE_S) as events:
            next(line for line in events if b'"event":"batch"' in line)
        return "first batch served; no Chromium"

    def end(self) -> None:
        """As Ctrl-C does."""
        self._running.send_signal(signal.SIGINT)
        self._running.wait(30)


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def own_job(path: Walked, clone: Path, folder: Path) -> None:
    """A slow job, why it is slow, one line, the same job again."""
    python, evenly = str(clone / ".venv/bin/python"), str(clone / ".venv/bin/evenly")

    def ran(name: str, text: str) -> Callable[[], str]:
        (folder / f"{name}.py").write_text(text, "utf-8")
        (folder / name).mkdir()
        return lambda: run(python, f"{name}.py", name, folder=folder)

    def diagnosed(name: str) -> str:
        found = json.loads(run(evenly, "diagnose", "log", name, "--json", folder=folder))["results"]
        stages = [it for it in found if it["series"] == "stage" and it["imbalance_pct_rows"] is not None]
        stage = max(stages, key=lambda it: (bool(it.get("call")), it.get("seconds") or 0.0))
        return f"λ of the rows of its tasks {stage['imbalance_pct_rows']:.0f} %, {stage.get('call') or 'nothing to do'}"

    path.step("own job, as it is", ran("before", JOB))
    advice = path.step("evenly diagnose log: why is it slow", lambda: diagnosed("before"))
    if "by_key" not in advice:
        sys.exit(f"the diagnosis does not name by_key: {advice}")
    path.step("own job, with by_key", ran("after", JOB.replace(*MENDED)))
    path.step("evenly diagnose log: and now", lambda: diagnosed("after"))


def main() -> None:
    """Walk it."""
    parser = benchmark_parser(__doc__)
    parser.add_argument("--from", dest="source", default=str(ROOT), help="the repository to clone")
    parser.add_argument("--set-up", type=Path, help="a clone that is set up already: leaves the first two steps out")
    given = parser.parse_args()
    path = Walked()
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "SPARK_HOME"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone = folder / "evenly" if given.set_up is None else given.set_up.resolve()
        if given.set_up is None:
            path.step("git clone", lambda: run("git", "clone", "--quiet", given.source, str(clone), folder=folder))
            path.step("make .venv/.ready", lambda: run("make", ".venv/.ready", folder=clone) and "")
        demos: list[Demo] = []

        def started() -> str:
            demos.append(Demo(clone))
            return re.sub(r":\d+/$", ":…/", demos[0].url)

        try:
            path.step("evenly watch --demo: its address", started)
            path.step("its first picture", lambda: demos[0].first_picture(folder))
        finally:
            for demo in demos:
                demo.end()
        own_job(path, clone, folder)
    to_picture = [it for it in path.steps if "job" not in str(it["x"]) and "diagnose" not in str(it["x"])]
    for total, steps in (("clone to live page", to_picture), ("first page to own job mended", path.steps[len(to_picture) :])):
        path.steps.append({"series": "path", "x": total, "seconds": sum(float(str(it["seconds"])) for it in steps)})
    if given.json:
        print_json("newcomer", {}, path.steps)
    else:
        for one in path.steps[-2:]:
            print(f"{one['seconds']:7.1f} s  {one['x']}")


if __name__ == "__main__":
    main()
