"""kill -9 of the leader of a link, of a sender and of the destination while tasks send: no row is missing, order holds."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

import line_receiver
from evenly.emission.links import look
from line_receiver import check_at_least_once_in_order, parsed, without_doubles
from waiting import PATIENT_S, until

DRIVER, RECEIVER = Path(__file__).with_name("sending_driver.py"), Path(line_receiver.__file__)
ROWS, PARTITIONS = 2_000, 4


def hear(process, what):
    ready, _, _ = select.select([process.stdout], [], [], PATIENT_S)
    assert ready, f"never heard of {what}"
    line = process.stdout.readline()
    assert line, f"ended before {what}"
    return line.strip()


class Receiver:
    """The destination: a process on a port, that can be killed and started again."""

    def __init__(self, path):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.path = path
        self.start()

    def start(self):
        command = [sys.executable, str(RECEIVER), str(self.port), str(self.path), "0.003"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert hear(self.process, "the receiver") == "listening"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def rows(self, sender):
        return [row for row in map(parsed, self.path.read_bytes().splitlines()) if row[0] == sender]


@pytest.fixture(scope="module")
def receiver(tmp_path_factory):
    started = Receiver(tmp_path_factory.mktemp("received") / "lines")
    yield started
    started.kill()


@pytest.fixture(scope="module")
def driver(receiver):
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    command = [sys.executable, str(DRIVER), str(receiver.port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as started:
        assert hear(started, "the driver") == "ready"
        yield started
        started.stdin.close()
        started.wait(PATIENT_S)


def members(link):
    """The leader and the other senders, once all are there."""
    state = look(link)
    pids = {queue.process for queue in state.queues} if state else set()
    return (state.leader, pids - {state.leader}) if len(pids) == PARTITIONS and state.leader in pids else None


@pytest.mark.parametrize("victim", ["leader", "sender", "destination"])
def test_whoever_is_killed_every_row_arrives_and_order_holds(driver, receiver, victim):
    link = f"test.{victim}.{uuid.uuid4().hex[:8]}"
    driver.stdin.write(f"{link} {ROWS}\n")
    driver.stdin.flush()
    leader, others = until(lambda: members(link), "all tasks send")
    until(lambda: len({row[2] for row in receiver.rows(link)}) == PARTITIONS, "rows of all partitions arrive")
    assert len(receiver.rows(link)) < ROWS / 2, "killed in the midst"
    if victim == "destination":
        receiver.kill()
        time.sleep(0.3)
        receiver.start()
    else:
        os.kill(leader if victim == "leader" else min(others), signal.SIGKILL)
    tasks = json.loads(hear(driver, "the end of the job"))
    assert [(partition, rows) for partition, rows, _ in tasks] == [(p, ROWS // PARTITIONS) for p in range(PARTITIONS)]
    again = [attempt > 0 for _, _, attempt in tasks]
    assert sum(again) == (PARTITIONS if victim == "destination" else 1), "tasks that were run again"
    each = ROWS // PARTITIONS
    expected = {(0, p): [f"row {p * each + n}".encode() for n in range(each)] for p in range(PARTITIONS)}
    check_at_least_once_in_order(receiver.rows(link), expected)
    assert len(receiver.rows(link)) > ROWS, "what was sent before was sent again, with the same identities"
    kept = without_doubles(receiver.rows(link))
    assert sorted(kept) == [(link, *at, number, body) for at, rows in expected.items() for number, body in enumerate(rows)]
    until(lambda: look(link) is None, "the link is left clean")
