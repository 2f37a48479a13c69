"""Where records go: files, logging, Prometheus and OpenTelemetry; and what becomes of a sink that fails."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
import urllib.request

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import evenly
from evenly.errors import DamagedData, InvalidParameter, UnwritableFile
from evenly.facts.emitting import Teller, is_emitting
from evenly.facts.reading import LineReader
from evenly.facts.records import Batch, Decision, Fact, HeavyKey, Operator
from evenly.facts.sample import dataflow, drifting_stream, paced_sending
from evenly.facts.sinks.metrics import METRICS


def end(run="a", **parts):
    return Fact(time=1.0, run=run, kind="keyed", event="end", **parts)


@pytest.fixture
def teller():
    made = Teller(kind="keyed", clock=lambda: 12.5)
    made.begin("run-1", "visits", instances=4)
    made._recent.clear()
    return made


def test_lines_are_appended_and_a_restart_goes_on_after_a_line_that_was_cut(tmp_path, teller):
    path = tmp_path / "facts.jsonl"
    with evenly.emit_to(path):
        teller.tell("start", instances=4)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:30])
    with evenly.emit_to(str(path)):
        teller.end()
    found = evenly.read_facts(path)
    assert [(fact.event, fact.run, fact.name, fact.time) for fact in found.facts] == [
        ("start", "run-1", "visits", 12.5),
        ("end", "run-1", "visits", 12.5),
    ]
    assert found.cut == 1
    assert not is_emitting()


def test_a_file_that_records_go_to_already_gets_each_once(tmp_path, teller):
    with evenly.emit_to(tmp_path / "facts.jsonl") as first:
        assert evenly.emit_to(f"{tmp_path}/./facts.jsonl") is first
        with pytest.raises(InvalidParameter, match="already, with names=False: close that first"):
            evenly.emit_to(tmp_path / "facts.jsonl", names=True)
        teller.end()
    assert len(evenly.read_facts(tmp_path / "facts.jsonl").facts) == 1
    assert not is_emitting()


def test_a_file_takes_at_most_twice_its_bytes_and_loses_only_the_oldest(tmp_path):
    path = tmp_path / "facts.jsonl"
    sink = evenly.JsonLines(path, most_bytes=100_000)
    for number in range(3_000):
        sink.write(end(name=f"{number}"))
    sink.close()
    files = sorted(tmp_path.iterdir())
    assert [it.name for it in files] == ["facts.jsonl", "facts.jsonl.1"]
    assert all(it.stat().st_size <= 100_000 for it in files)
    names = [fact.name for it in reversed(files) for fact in evenly.read_facts(it).facts]
    assert names == [f"{number}" for number in range(3_000 - len(names), 3_000)]


def test_a_file_that_is_removed_is_made_anew(tmp_path):
    sink = evenly.JsonLines(tmp_path / "facts.jsonl")
    sink.write(end())
    sink.path.unlink()
    sink.write(end(run="b"))
    sink.close()
    assert [fact.run for fact in evenly.read_facts(sink.path).facts] == ["b"]


@pytest.mark.parametrize("path", ["s3a://bucket/facts.jsonl", "hdfs://name/facts", "", "a\0b"])
def test_a_path_that_cannot_be_appended_to_is_refused(path):
    with pytest.raises(InvalidParameter, match="local file"):
        evenly.emit_to(path)
    assert not is_emitting()


def test_a_folder_that_is_not_there_is_refused_at_once(tmp_path):
    with pytest.raises(UnwritableFile, match="cannot be written"):
        evenly.emit_to(tmp_path / "none" / "facts.jsonl")
    with pytest.raises(UnwritableFile, match="cannot be written"):
        evenly.emit_to(tmp_path)


@pytest.mark.parametrize("to", [None, 3, print.__class__, io.StringIO(), evenly.Prometheus])
def test_what_is_no_place_for_records_is_refused(to):
    with pytest.raises(InvalidParameter, match="to must be a path"):
        evenly.emit_to(to)


def test_a_sink_that_fails_is_one_warning_and_counted_and_others_go_on(teller, caplog):
    def fails(_):
        raise RuntimeError("no disk")

    got = []
    with evenly.emit_to(fails) as broken, evenly.emit_to(got.append) as sound, caplog.at_level(logging.WARNING):
        for _ in range(5):
            teller.tell("start")
        assert broken.flush()
        assert sound.flush()
        assert (broken.dropped, broken.written, sound.dropped, sound.written) == (5, 0, 0, 5)
    assert len(got) == 5
    assert len([it for it in caplog.records if "no disk" in it.message]) == 1


def test_a_sink_that_hangs_holds_nobody_up(teller, caplog):
    go_on = threading.Event()
    emitting = evenly.emit_to(lambda _: go_on.wait(60.0))
    with caplog.at_level(logging.WARNING):
        for _ in range(2_100):
            teller.tell("start")
    assert emitting.dropped >= 99
    assert len([it for it in caplog.records if "wait already" in it.message]) == 1
    go_on.set()
    emitting.close()
    assert emitting.written + emitting.dropped == 2_100


def test_a_record_that_cannot_be_made_is_one_warning(teller, caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            teller.tell("batch", batch=lambda _: 1 / 0)
    assert [it.message for it in caplog.records] == ["run-1: a record could not be made: ZeroDivisionError: division by zero"]
    assert teller.recent == ()


def test_keys_are_named_only_where_names_are_allowed(teller):
    open_, hidden = [], []
    with evenly.emit_to(open_.append, names=True) as first, evenly.emit_to(hidden.append) as second:
        for number in range(2):
            teller.tell(
                "batch",
                batch=lambda labels, number=number: Batch(
                    number=number, heavy_keys=(HeavyKey(key=labels.of("Ada"), share_pct=10.0),)
                ),
            )
        first.flush()
        second.flush()
    assert [fact.batch.heavy_keys[0].key for fact in open_] == ["Ada", "Ada"]
    digests = {fact.batch.heavy_keys[0].key for fact in hidden}
    assert len(digests) == 1
    assert digests.pop().startswith("#")
    assert list(teller.recent) == hidden


def test_what_is_told_before_the_beginning_follows_it():
    teller = Teller(kind="cost", clock=iter([5.0, 9.0, 10.0]).__next__)
    teller.tell("batch", batch=lambda _: Batch(number=0))
    assert teller.recent == ()
    teller.begin("run", None, instances=2)
    assert [(fact.event, fact.run, fact.name, fact.time) for fact in teller.recent] == [
        ("start", "run", "", 9.0),
        ("batch", "run", "", 5.0),
    ]


def test_the_end_is_told_once(teller):
    teller.end(ValueError("first line\nsecond"))
    teller.end()
    assert [(fact.event, fact.error) for fact in teller.recent] == [("end", "first line")]


def test_logging_gets_a_message_for_each_record(caplog, teller):
    with caplog.at_level(logging.INFO, "jobs"), evenly.emit_to(logging.getLogger("jobs")) as emitting:
        teller.tell("start", instances=2)
        teller.tell("refusal", decision=Decision(what="mapping", reason="no"))
        teller.end(ValueError("lost"))
        emitting.flush()
    told = [(it.levelname, json.loads(it.message)["event"]) for it in caplog.records if it.name == "jobs"]
    assert told == [("INFO", "start"), ("WARNING", "refusal"), ("ERROR", "end")]


def samples():
    return [*drifting_stream(batches=45), *dataflow(batches=3), *paced_sending(batches=3), end(run="lost", error="gone")]


def test_a_scrape_of_prometheus_has_what_the_records_say():
    sink = evenly.Prometheus(registry=CollectorRegistry(), port=0)
    facts = samples()
    for fact in facts:
        sink.write(fact)
    with urllib.request.urlopen(f"http://127.0.0.1:{sink.port}/metrics") as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    sink.close()
    values = {(it.name, it.labels["name"], it.labels.get("what", "")): it.value for family in families for it in family.samples}
    batches = [fact for fact in facts if fact.name == "visits" and fact.batch]
    assert values["evenly_batches_total", "visits", ""] == 45.0
    assert values["evenly_rows_total", "visits", ""] == sum(fact.batch.rows for fact in batches)
    assert values["evenly_imbalance_ratio", "visits", ""] == pytest.approx(batches[-1].batch.imbalance_pct / 100.0)
    assert values["evenly_batch_duration_seconds", "visits", ""] == pytest.approx(batches[-1].batch.duration_ms / 1e3)
    changes = sum(fact.event == "change" for fact in facts if fact.name == "visits")
    assert values["evenly_changes_total", "visits", "mapping"] == changes > 0
    assert values["evenly_mapping_version", "visits", ""] == changes + 1
    assert values["evenly_running", "visits", ""] == 0.0
    assert (values["evenly_failed", "visits", ""], values["evenly_failed", "lost", ""]) == (0.0, 1.0)
    assert ("evenly_backlog_rows", "sent", "") in values
    told = {family.name for family in families if any(not it.name.endswith("_created") for it in family.samples)}
    assert told <= {metric.prometheus for metric in METRICS}
    assert all(family.documentation for family in families)


def test_two_queries_of_one_name_have_gauges_of_their_own():
    sink = evenly.Prometheus(registry=CollectorRegistry())
    for event in ("start", "end", "start"):
        for run in ("one", "two"):
            sink.write(Fact(time=1.0, run=run, name="visits", kind="keyed", event=event, instances=len(run)))
    sink.write(Fact(time=1.0, run="two", name="visits", kind="keyed", event="end"))
    families = list(sink._registry.collect())
    sink.close()
    running = {it.labels["name"]: it.value for it in next(it for it in families if it.name == "evenly_running").samples}
    assert running == {"visits": 1.0, "visits two": 0.0}


def test_a_restart_tells_nothing_of_what_only_the_run_before_it_knew():
    registry = CollectorRegistry()
    sink = evenly.Prometheus(registry=registry)
    common = {"time": 1.0, "run": "a", "name": "visits", "kind": "keyed"}
    labels = {"name": "visits", "kind": "keyed"}
    watched = Batch(number=0, rows=5, imbalance_pct=80.0, operators=(Operator(name="gone", rows=5, duration_ms=1.0),))
    for event, batch in (
        ("start", None),
        ("batch", watched),
        ("end", None),
        ("start", None),
        ("batch", Batch(number=1, rows=7)),
    ):
        sink.write(Fact(**common, event=event, batch=batch))
    assert registry.get_sample_value("evenly_imbalance_ratio", labels) is None
    assert registry.get_sample_value("evenly_operator_duration_seconds", labels | {"operator": "gone"}) is None
    assert registry.get_sample_value("evenly_operator_rows_total", labels | {"operator": "gone"}) == 5.0
    assert registry.get_sample_value("evenly_rows_total", labels) == 12.0
    assert registry.get_sample_value("evenly_running", labels) == 1.0
    sink.close()


def test_a_registry_takes_one_prometheus_at_a_time():
    registry = CollectorRegistry()
    first = evenly.Prometheus(registry=registry)
    with pytest.raises(InvalidParameter, match="attach one Prometheus"):
        evenly.Prometheus(registry=registry)
    first.write(end())
    first.close()
    evenly.Prometheus(registry=registry).close()


def test_opentelemetry_exports_what_the_records_say():
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    sink = evenly.OpenTelemetry(meter_provider=provider)
    facts = samples()
    for fact in facts:
        sink.write(fact)
    found = {}
    for resource in reader.get_metrics_data().resource_metrics:
        for scope in resource.scope_metrics:
            assert scope.scope.name == "evenly"
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    found[metric.name, metric.unit, point.attributes["name"], point.attributes.get("operator")] = point.value
    provider.shutdown()
    batches = [fact.batch for fact in facts if fact.name == "visits" and fact.batch]
    assert found["evenly.batches", "1", "visits", None] == 45
    assert found["evenly.batch.bound", "s", "visits", None] == pytest.approx(batches[-1].bound_ms / 1e3)
    assert found["evenly.operator.rows", "1", "tweets", "lookup"] > 10_000
    assert {name for name, *_ in found} <= {metric.name for metric in METRICS}


def test_every_metric_is_said_by_some_record():
    from evenly.facts.sinks.metrics import measurements

    refusal = Fact(time=1.0, run="a", kind="keyed", event="refusal", decision=Decision(what="mapping", reason="no"))
    told = {metric for fact in [*samples(), refusal] for metric, _, _ in measurements(fact, "a")}
    assert told == set(METRICS)


FULL = """
import resource, signal, sys
import evenly
from evenly.facts.records import Fact

def end(run):
    return Fact(time=1.0, run=run, kind="keyed", event="end")

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sink = evenly.JsonLines(sys.argv[1])
room = 2 * len(end("a").to_json()) + 20
resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
failed = 0
for run in "abcd":
    try:
        sink.write(end(run))
    except OSError:
        failed += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
sink.write(end("e"))
sys.exit(failed)
"""


def test_a_file_goes_on_after_its_disk_was_full(tmp_path):
    ran = subprocess.run([sys.executable, "-B", "-c", FULL, str(tmp_path / "facts.jsonl")], check=False)
    assert ran.returncode == 2
    found = evenly.read_facts(tmp_path / "facts.jsonl")
    assert [fact.run for fact in found.facts] == ["a", "b", "e"]
    assert found.cut == 1


def test_a_writer_that_died_in_a_line_in_which_another_goes_on_loses_that_record_alone(tmp_path):
    path, line = tmp_path / "facts.jsonl", end().to_json()
    path.write_bytes(line + b"\n" + line[:25] + end(run="b").to_json() + b"\n")
    found = evenly.read_facts(path)
    assert ([fact.run for fact in found.facts], found.cut) == (["a", "b"], 1)


def test_a_line_without_an_end_is_refused_before_it_fills_memory():
    reader = LineReader("noise.jsonl")
    assert list(reader.feed(b"x" * 900_000)) == []
    with pytest.raises(DamagedData, match=r"line 1 of noise.jsonl .* more than 1,000,000 bytes"):
        list(reader.feed(b"x" * 900_000))


def test_a_file_that_another_process_has_renamed_is_left_for_the_new_one(tmp_path):
    sinks = [evenly.JsonLines(tmp_path / "facts.jsonl", most_bytes=100_000) for _ in range(2)]
    while not (tmp_path / "facts.jsonl.1").exists():
        sinks[0].write(end())
    sinks[1].write(end(run="second"))
    for sink in sinks:
        sink.close()
    assert "second" in {fact.run for fact in evenly.read_facts(tmp_path / "facts.jsonl").facts}


def test_a_file_that_several_write_to_takes_no_more_than_that_of_one(tmp_path):
    sinks = [evenly.JsonLines(tmp_path / "facts.jsonl", most_bytes=100_000) for _ in range(4)]
    for number in range(4_000):
        sinks[number % 4].write(end(name=f"{number}"))
    for sink in sinks:
        sink.close()
    files = sorted(tmp_path.iterdir(), reverse=True)
    assert all(it.stat().st_size <= 100_000 for it in files)
    names = [int(fact.name) for it in files for fact in evenly.read_facts(it).facts]
    assert names == list(range(4_000 - len(names), 4_000))


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_of_two_that_find_a_file_full_at_once_the_second_keeps_what_the_first_has_put_aside(tmp_path, monkeypatch):
    from evenly.facts.sinks import json_lines

    first, second = (evenly.JsonLines(tmp_path / "facts.jsonl", most_bytes=100_000) for _ in range(2))
    while first._size + 200 <= 100_000:
        first.write(end(name="before"))
    lock, locked = json_lines.fcntl.flock, []

    def meanwhile(file, how):
        locked.append(file)
        if len(locked) == 1:
            first.write(end(run="first", name="x" * 190))
        return lock(file, how)

    monkeypatch.setattr(json_lines.fcntl, "flock", meanwhile)
    second.write(end(run="second", name="x" * 190))
    assert len(locked) == 2
    first.close()
    second.close()
    assert [fact.run for fact in evenly.read_facts(tmp_path / "facts.jsonl").facts] == ["first", "second"]
    assert len(evenly.read_facts(tmp_path / "facts.jsonl.1").facts) > 500


def test_a_link_stays_a_link_and_what_it_leads_to_is_begun_anew_beside_itself(tmp_path):
    (tmp_path / "data").mkdir()
    link = tmp_path / "facts.jsonl"
    link.symlink_to(tmp_path / "data" / "visits.jsonl")
    sink = evenly.JsonLines(link, most_bytes=100_000)
    for _ in range(2_000):
        sink.write(end())
    sink.close()
    assert link.is_symlink()
    assert sorted(it.name for it in (tmp_path / "data").iterdir()) == ["visits.jsonl", "visits.jsonl.1"]
    assert sorted(it.name for it in tmp_path.iterdir()) == ["data", "facts.jsonl"]


def test_a_path_that_is_no_file_is_written_as_it_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    sink = evenly.JsonLines(tmp_path / "pipe")
    sink.write(end())
    assert sink.path == tmp_path / "pipe"
    sink.close()


def test_a_path_stays_the_same_after_a_change_of_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sink = evenly.JsonLines("facts.jsonl")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    (tmp_path / "facts.jsonl").unlink()
    sink.write(end())
    sink.close()
    assert (tmp_path / "facts.jsonl").exists()


def test_the_same_place_twice_gets_each_record_once(teller, caplog):
    got, logger = [], logging.getLogger("jobs")
    with evenly.emit_to(got.append) as first, caplog.at_level(logging.INFO, "jobs"), evenly.emit_to(logger) as logged:
        assert evenly.emit_to(logger) is evenly.emit_to(logged.sink) is logged
        assert evenly.emit_to(got.append) is first
        teller.end()
    assert (len(got), len([it for it in caplog.records if it.name == "jobs"])) == (1, 1)


HANGING = """
import os, sys, threading
import evenly
from evenly.facts.emitting import Teller

for _ in range(4):
    sink = type("Hanging", (), {"write": lambda self, fact: threading.Event().wait(), "close": lambda self: None})
    evenly.emit_to(sink())
evenly.emit_to(sys.argv[1])
teller = Teller(kind="keyed", clock=lambda: 1.0)
teller.begin("a")
for _ in range(2_500):
    teller.tell("start")
if os.fork() == 0:
    teller.end()  # its parent's threads are not here
    sys.exit()
os.wait()
"""


def test_sinks_that_hang_hold_up_neither_the_end_of_a_process_nor_others(tmp_path):
    path = tmp_path / "facts.jsonl"
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HANGING, str(path)], check=False, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("wait already") in {4, 5}
    assert all(fact.event == "start" for fact in evenly.read_facts(path).facts)


FORKED = """
import os, sys
import evenly
from evenly.facts.emitting import before_the_end

evenly.emit_to(sys.argv[1])
before_the_end(lambda: os.write(1, b"the end of %d" % os.getpid()))
if os.fork() == 0:
    sys.exit()
os.wait()
os.write(1, b"%d: " % os.getpid())
"""


def test_the_end_of_a_forked_process_is_not_the_end_of_what_its_parent_runs(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "facts.jsonl")]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    process, _, told = ran.stdout.partition(": ")
    assert told == f"the end of {process}"


def test_prometheus_forgets_the_names_that_were_told_of_longest_ago():
    registry = CollectorRegistry()
    sink = evenly.Prometheus(registry=registry)
    sink.write(next(iter(dataflow(batches=1))))
    for number in range(300):
        sink.write(end(run=f"{number}"))
        sink.write(end(run="kept"))
    named = {it.labels["name"] for family in registry.collect() for it in family.samples}
    sink.close()
    assert len(named) == 200
    assert {"kept", "299"} <= named
    assert not {"tweets", "0"} & named


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1.0])
def test_numbers_that_are_none_raise_no_counter(odd):
    registry = CollectorRegistry()
    sink = evenly.Prometheus(registry=registry)
    moved = Decision(what="state", reason="moved", stood_ms=odd)
    sink.write(Fact(time=1.0, run="a", kind="keyed", event="move", decision=moved))
    assert not registry.get_sample_value("evenly_stood_seconds_total", {"name": "a", "kind": "keyed"})
    sink.close()
