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
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import line_receiver
from evenly.emission.link.links import look
from line_receiver import check_at_least_once_in_order, parsed, without_doubles
from waiting import PATIENT_S, until

DRIVER, RECEIVER = Path(__file__).with_name("sending_driver.py"), Path(line_receiver.__file__)
STREAM = Path(__file__).with_name("streaming_driver.py")
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

    def rows(self):
        return [parsed(line) for line in self.path.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def receiving(tmp_path_factory):
    started = Receiver(tmp_path_factory.mktemp("received") / "lines")
    yield started
    started.kill()


@pytest.fixture(scope="module")
def driver(receiving):
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(DRIVER), str(receiving.port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as started:
        assert hear(started, "the driver") == "ready"
        yield started
        started.stdin.close()
        started.wait(PATIENT_S)


@pytest.fixture
def receiver(receiving):
    """With nothing received yet."""
    receiving.path.write_bytes(b"")
    return receiving


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
    until(lambda: len({row[2] for row in receiver.rows()}) == PARTITIONS, "rows of all partitions arrive")
    assert len(receiver.rows()) < ROWS / 2, "killed in the midst"
    if victim == "destination":
        receiver.kill()
        time.sleep(0.3)
        receiver.start()
    else:
        os.kill(leader if victim == "leader" else min(others), signal.SIGKILL)
    sender, tasks = json.loads(hear(driver, "the end of the job"))
    assert [(partition, rows) for partition, rows, _ in tasks] == [(p, ROWS // PARTITIONS) for p in range(PARTITIONS)]
    again = [attempt > 0 for _, _, attempt in tasks]
    assert sum(again) == (PARTITIONS if victim == "destination" else 1), "tasks that were run again"
    each = ROWS // PARTITIONS
    expected = {(0, p): [f"row {p * each + n}".encode() for n in range(each)] for p in range(PARTITIONS)}
    check_at_least_once_in_order(receiver.rows(), expected)
    assert len(receiver.rows()) > ROWS, "what was sent before was sent again, with the same identities"
    kept = without_doubles(receiver.rows())
    assert sorted(kept) == [(sender, *at, number, body) for at, rows in expected.items() for number, body in enumerate(rows)]
    until(lambda: look(link) is None, "the link is left clean")


def test_a_query_killed_and_started_again_on_other_cores_sends_every_row_once(receiver, tmp_path):
    """kill -9 of the driver and all of its workers in the midst of a batch; a receiver that drops doubles has all."""
    ends = [0, 100, 900, 1_100, 1_700, 1_750, ROWS]
    (tmp_path / "in").mkdir()
    for start, end in pairwise(ends):
        pq.write_table(pa.table({"text": [f"row {n}" for n in range(start, end)]}), tmp_path / "in" / f"{start}.parquet")
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    for slots, taken in ((1, 300), (3, None)):
        command = [sys.executable, str(STREAM), str(receiver.port), str(tmp_path), str(slots)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment, start_new_session=True) as query:
            if taken is None:
                assert query.wait(PATIENT_S) == 0
            else:
                until(lambda taken=taken: len(receiver.rows()) >= taken, "rows arrive")
                os.killpg(query.pid, signal.SIGKILL)
    rows = receiver.rows()
    assert len(rows) > ROWS, "rows came twice"
    kept = without_doubles(rows)
    assert sorted(int(body.split()[1]) for *_, body in kept) == list(range(ROWS))
    assert len({row[:4] for row in rows}) == len(set(rows)) == ROWS, "an identity stands for one row"
