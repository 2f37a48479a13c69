"""A real Kafka on loopback, from public Java artifacts that Maven fetches once into the environment.

python tests/kafka_broker.py            fetches them
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

CACHE = Path(os.environ.get("EVENLY_KAFKA") or Path(sys.prefix) / "kafka")
_BROKER = {"org.apache.kafka:kafka_2.13": "4.1.0", "org.apache.kafka:kafka-tools": "4.1.0"} | {
    "org.apache.logging.log4j:log4j-slf4j-impl": "2.24.3"
}
# What the connector's own description depends on beyond these comes with Spark.
_CONNECTOR = {
    "org.apache.spark:spark-sql-kafka-0-10_2.13": "4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13": "4.0.0",
    "org.apache.kafka:kafka-clients": "3.9.1",
    "org.apache.commons:commons-pool2": "2.12.0",
}
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>evenly</groupId><artifactId>tests</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
_ONE = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}
num.partitions=3
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
_FETCHED_S, _PATIENCE_S = 300.0, 120.0


class NoKafka(RuntimeError):
    """No Kafka can be had here."""


def jars() -> tuple[Path, Path]:
    """The folders of the jars of a broker, and of Spark's connector."""
    return _fetched("broker", _BROKER, alone=False), _fetched("connector", _CONNECTOR, alone=True)


def connector() -> str:
    """What `spark.jars` is set to."""
    return ",".join(str(path) for path in sorted(jars()[1].glob("*.jar")))


def _fetched(name: str, artifacts: dict[str, str], *, alone: bool) -> Path:
    """A folder of jars, with all that they depend on unless `alone`. It is there whole or not at all."""
    there = CACHE / name
    if there.is_dir():
        return there
    maven = shutil.which("mvn")
    if maven is None:
        raise NoKafka("there is no mvn to fetch Kafka's jars with")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as making:
        pom, made = Path(making, "pom.xml"), Path(making, "jars")
        named = [(*one.split(":"), version, _ALONE if alone else "") for one, version in artifacts.items()]
        pom.write_text(_POM.format("".join(_ONE.format(*one) for one in named)))
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={made}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCHED_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise NoKafka(f"Kafka's jars were not there after {_FETCHED_S:g} s") from error
        if done.returncode or not made.is_dir():
            said = next((line for line in done.stdout.splitlines() if "ERROR" in line), "mvn failed")
            raise NoKafka(f"Kafka's jars cannot be fetched: {said[:300]}")
        try:
            made.rename(there)
        except OSError:  # another process was quicker
            if not there.is_dir():
                raise
    return there


class Broker:
    """A single broker, which is its own controller."""

    def __init__(self, folder: Path) -> None:
        self._classes = str(jars()[0] / "*")
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
            port, control = (it.getsockname()[1] for it in (one, two))
        self.address = f"127.0.0.1:{port}"
        settings, self._log = folder / "server.properties", folder / "broker.log"
        settings.write_text(_PROPERTIES.format(port=port, control=control, folder=folder / "logs"))
        self._run("kafka.tools.StorageTool", "format", "-t", "ZXZlbmx5LXRlc3RzLWthZg", "-c", str(settings))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(settings)), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            self._await(port)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def produce(self, topic: str, values: list[str]) -> None:
        """Values as messages of a topic, which is made if it is not there, over its partitions."""
        keyed = "".join(f"{number}\t{value}\n" for number, value in enumerate(values))
        options = ("--property", "parse.key=true")
        self._run("org.apache.kafka.tools.ConsoleProducer", *self._at, "--topic", topic, *options, told=keyed)

    def values(self, topic: str) -> list[str]:
        """All messages that a topic has now."""
        ends = self._run("org.apache.kafka.tools.GetOffsetShell", *self._at, "--topic", topic)
        count = sum(int(line.rpartition(":")[2]) for line in ends.splitlines() if line.startswith(f"{topic}:"))
        if not count:
            return []
        options = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", str(int(1000 * _PATIENCE_S)))
        return self._run("org.apache.kafka.tools.consumer.ConsoleConsumer", *self._at, "--topic", topic, *options).splitlines()

    @property
    def _at(self) -> tuple[str, str]:
        return "--bootstrap-server", self.address

    def _command(self, main: str, *arguments: str) -> list[str]:
        return ["java", "-Xmx384m", "-cp", self._classes, main, *arguments]

    def _run(self, main: str, *arguments: str, told: str | None = None) -> str:
        done = subprocess.run(
            self._command(main, *arguments), input=told, capture_output=True, text=True, timeout=2 * _PATIENCE_S, check=False
        )
        if done.returncode:
            raise NoKafka(f"{main} failed: {(done.stderr or done.stdout)[-600:]}")
        return done.stdout

    def _await(self, port: int) -> None:
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise NoKafka(f"a broker on loopback does not start: {self._log.read_text(errors='replace')[-600:]}")


if __name__ == "__main__":
    sys.stdout.write("\n".join(map(str, jars())) + "\n")
