"""Runs one schedule after the other: drivers that can be killed and started again, and the faults that come from outside."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from faults import left_behind
from faults.cluster import Cluster, environment
from faults.driver import differs
from faults.schedule import Schedule, simpler
from faults.sent import kept, parsed
from http_receiver import HttpReceiver
from line_receiver import LineReceiver

_LIMIT_S = 900.0
_STOPPED_S = 2.0
_CHECKPOINT_SIZE = "48m"


class Driver:
    """A driver program on a number of cores."""

    def __init__(self, cluster: Cluster, cores: int, *, speculation: bool) -> None:
        self.settings = (cores, speculation)
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.log = cluster.folder / f"driver-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "faults.driver", cluster.address, str(cores), str(speculation).lower()]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(cluster.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(cluster.folder),
                cwd=cluster.folder,
                start_new_session=True,
            )
        threading.Thread(target=self._read, daemon=True).start()
        if self.answer(_LIMIT_S) is None:
            self.kill()
            raise RuntimeError(f"the driver did not start: {self.log.read_text(errors='replace')[-2000:]}")

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def ask(self, told: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()

    def answer(self, within_s: float) -> dict[str, Any] | None:
        """What the driver says; None if it was killed."""
        line = self._lines.get(timeout=within_s)
        return None if line is None else json.loads(line)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def close(self) -> None:
        """As a program that ends by itself."""
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()


class Outside:
    """Sees the marks that workers leave, and does to processes what the schedule wants."""

    def __init__(self, folder: Path, driver: Driver) -> None:
        self.folder, self.driver = folder, driver
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            for mark in self.folder.glob("fired-*"):
                landed = mark.with_name(mark.name.replace("fired", "landed"))
                if not landed.exists():
                    landed.touch() if self._happen(json.loads(mark.read_text())) else None

    def _happen(self, told: dict[str, Any]) -> bool:
        kind = told["kind"]
        with contextlib.suppress(ProcessLookupError, KeyError):
            if kind in {"executor", "worker", "python"}:
                os.kill(told[kind], signal.SIGKILL)
                if kind == "worker":
                    os.kill(told["executor"], signal.SIGKILL)
            elif kind == "driver":
                self.driver.kill()
            elif kind == "stop":
                os.kill(told["executor"], signal.SIGSTOP)
                threading.Timer(_STOPPED_S, _goes_on, [told["executor"]]).start()
        return True


def _goes_on(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGCONT)


class Runner:
    """One cluster, and a driver that serves as long as it may."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._runs = folder, 0
        self.cluster = Cluster(folder)
        self._driver: Driver | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._driver is not None and kind is not None:
            self._driver.kill()  # whoever is ended from outside has no time
        elif self._driver is not None:
            self._driver.close()
        self.cluster.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, schedule: Schedule) -> dict[str, Any]:
        """The outcome: verdict, why, which faults happened, and how long it took."""
        self._runs += 1
        begun = time.monotonic()
        folder = self.folder / f"run-{self._runs}"
        folder.mkdir()
        mounted = ""
        if any(fault.kind == "disk" for fault in schedule.faults):
            mounted = _mounted(folder / "checkpoint")
            if mounted:
                return {"verdict": "skipped", "why": mounted, "happened": [], "seconds": 0.0}
        try:
            outcome = self._outcome(schedule, folder)
        finally:
            if os.path.ismount(folder / "checkpoint"):
                subprocess.run(["umount", "-l", str(folder / "checkpoint")], check=False)
        outcome["happened"] = [f.kind for n, f in enumerate(schedule.faults) if (folder / f"fired-{n}").exists()]
        outcome["seconds"] = round(time.monotonic() - begun, 1)
        if outcome["verdict"] in {"right", "refused"}:
            shutil.rmtree(folder, ignore_errors=True)
        return outcome

    def _outcome(self, schedule: Schedule, folder: Path) -> dict[str, Any]:
        link = f"faults-{os.getpid()}-{self._runs}"
        cores = 3
        with LineReceiver() as lines, HttpReceiver() as posts:
            receiver = {"tcp": lines.port, "http": posts.url}
            for _ in range(len(schedule.faults) + 2):
                self.cluster.mend()
                driver = self._fitting(cores, speculation=schedule.settings.speculation)
                outside = Outside(folder, driver)
                told = {"schedule": schedule.as_json(), "folder": str(folder), "receiver": receiver, "link": link}
                try:
                    driver.ask(told)
                    outcome = driver.answer(_LIMIT_S)
                except queue.Empty:
                    driver.process.send_signal(signal.SIGUSR1)
                    time.sleep(1.0)
                    outcome = {"verdict": "hangs", "why": driver.log.read_text(errors="replace")[-3000:]}
                    driver.kill()
                except BrokenPipeError:
                    outcome = None
                finally:
                    outside.end()
                if driver.process.poll() is not None or outcome is None:
                    driver.kill()
                    self._driver = None
                if outcome is None:
                    cores = next(f.cores for f in schedule.faults if f.kind == "driver")
                elif "restart" in outcome:
                    cores = outcome["restart"]
                    self._end_driver()
                else:
                    break
            else:
                outcome = {"verdict": "error", "why": f"the driver died again and again: {driver.log.read_text()[-1500:]}"}
            if outcome["verdict"] == "right" and schedule.operation in {"send", "stream_send"}:
                outcome = self._received(schedule, folder, lines, posts)
        self.cluster.mend()
        if outcome["verdict"] in {"right", "refused"}:
            roots = [*self.cluster.processes, *([self._driver.process.pid] if self._driver else [])]
            left = left_behind.of_machine(self.folder, link, roots)
            if left:
                outcome = {"verdict": "left behind", "why": left}
        return outcome

    def _received(self, schedule: Schedule, folder: Path, lines: LineReceiver, posts: HttpReceiver) -> dict[str, Any]:
        kind = schedule.options.to
        if kind == "function":
            path = folder / "taken"
            rows = parsed(path.read_text() if path.exists() else "")
        else:
            came = lines.rows() if kind == "tcp" else posts.rows()
            rows = [(*row[:4], row[4].decode()) for row in came]
        expected = json.loads((folder / "expected.json").read_text())
        difference = differs(expected, [list(row) for row in kept(rows)])
        return {"verdict": "wrong", "why": f"{len(rows)} received; {difference}"} if difference else {"verdict": "right"}

    def _fitting(self, cores: int, *, speculation: bool) -> Driver:
        """A driver with these settings; a driver is used again for as long as it has them."""
        if self._driver is not None and self._driver.settings != (cores, speculation):
            self._end_driver()
        if self._driver is None:
            self._driver = Driver(self.cluster, cores, speculation=speculation)
        return self._driver

    def _end_driver(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def shrunk(self, schedule: Schedule, outcome: dict[str, Any], attempts: int = 10) -> tuple[Schedule, dict[str, Any]]:
        """A plainer schedule that still fails, found within a number of runs."""
        while attempts > 0:
            for plainer in simpler(schedule):
                attempts -= 1
                tried = self.run(plainer)
                if tried["verdict"] == outcome["verdict"]:
                    schedule, outcome = plainer, tried
                    break
                if attempts <= 0:
                    break
            else:
                break
        return schedule, outcome


def _mounted(place: Path) -> str:
    """A small file system for a checkpoint; why not, if it cannot be had."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_CHECKPOINT_SIZE}", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"no small file system can be mounted: {error}"
    return f"no small file system can be mounted: {done.stderr.strip()}" if done.returncode else ""


def without_faults(schedule: Schedule) -> Schedule:
    return replace(schedule, faults=())
