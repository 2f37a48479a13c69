"""A standalone cluster on loopback: a master and its workers from the installed PySpark, on hosts of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from evenly.spark.java import provide_java

HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
TOKEN = "EVENLY_FAULTS_CAMPAIGN"
"""The variable by which all processes of a campaign are known."""
DAEMON = "EVENLY_FAULTS_DAEMON"
"""The variable that names a daemon of Python workers to take for Spark's own."""
_PATIENCE_S = 300.0


class NoCluster(RuntimeError):
    """No cluster can be started here."""


def environment(folder: Path) -> dict[str, str]:
    """What every process of a campaign has: its own temporary files, the tests and the package on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_", "PYTEST_"))}
    path = [str(Path(__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return kept | {
        TOKEN: str(folder),
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONWARNINGS": "ignore",
        "PYSPARK_PYTHON": sys.executable,
        "TMPDIR": str(temporary),
        "SPARK_LOCAL_DIRS": str(temporary),
    }


class Cluster:
    """Starts with the first use; a worker that was killed is started again by `mend`."""

    def __init__(self, folder: Path, hosts: tuple[str, ...] = HOSTS) -> None:
        self.folder, self._hosts = folder, hosts
        self._home = Path(pyspark.__file__).parent
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0
        provide_java()
        self._environment = environment(folder) | {
            "SPARK_HOME": str(self._home),
            "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.deploy.maxExecutorRetries=-1 -Djava.io.tmpdir={folder / 'tmp'}",
            "SPARK_DAEMON_MEMORY": "160m",
        }
        self._master, log = self._start("Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        try:
            self.address = _said(self._master, log, "Starting Spark master at ")
            self.mend()
        except BaseException:
            self.close()
            raise

    @property
    def processes(self) -> list[int]:
        """The master and the workers."""
        return [self._master.pid, *(worker.pid for worker in self._workers.values())]

    def mend(self) -> None:
        """As many workers as at the start again."""
        begun = []
        for host in self._hosts:
            if host in self._workers and self._workers[host].poll() is None:
                continue
            options = ("--host", host, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "700m")
            worker, log = self._start("Worker", *options, "--work-dir", str(self.folder / "work"), self.address)
            self._workers[host] = worker
            begun.append((worker, log))
        for worker, log in begun:
            _said(worker, log, "Successfully registered with master ")

    def close(self) -> None:
        for process in (*self._workers.values(), self._master):
            process.kill()
            process.wait()

    def _start(self, kind: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        self._starts += 1
        log = self.folder / f"{kind.lower()}-{self._starts}.log"
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
        with log.open("wb") as file:
            started = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=self._environment, cwd=self.folder
            )
        return started, log


def _said(process: subprocess.Popen[bytes], log: Path, text: str) -> str:
    """The word that follows a text in a log, once it is there."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        for line in log.read_text(errors="replace").splitlines():
            if text in line:
                return line.split(text)[1].split()[0]
        time.sleep(0.05)
    last = log.read_text(errors="replace").splitlines()[-3:]
    raise NoCluster(f"a cluster on loopback does not start: {log.name} never said {text!r}; it ends with {last}")
