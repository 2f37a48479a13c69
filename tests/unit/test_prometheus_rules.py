"""The rules for Prometheus are rules for Prometheus, and alert when they say so: asked of promtool, where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import evenly
from evenly.facts.records import Decision, Fact

HERE = Path(__file__).parent
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool on the PATH (Debian's package prometheus has it)")


def promtool(*arguments):
    told = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False, timeout=120)
    return told.returncode, told.stdout + told.stderr


@needs_promtool
def test_promtool_takes_the_rules():
    code, told = promtool("check", "rules", str(HERE.parents[1] / "docs" / "prometheus-rules.yml"))
    assert code == 0, told


@needs_promtool
def test_alerts_fire_when_they_should_and_end_when_they_should():
    code, told = promtool("test", "rules", str(HERE / "prometheus_rules_test.yml"))
    assert code == 0, told


@pytest.mark.parametrize(("kind", "what"), [("keyed", "mapping"), ("cost", "dealing"), ("flow", "plan")])
def test_counters_are_there_before_the_first_change_so_that_an_increase_is_one(kind, what):
    """Prometheus' increase() of a series that begins with 1 is 0."""
    registry = CollectorRegistry()
    sink = evenly.Prometheus(registry=registry)
    begun = {"name": "visits", "kind": kind}

    def told(event, **parts):
        sink.write(Fact(time=1.0, run="a", name="visits", kind=kind, event=event, **parts))
        names = ("evenly_changes_total", "evenly_refusals_total")
        counted = [registry.get_sample_value(name, begun | {"what": what}) for name in names]
        return [registry.get_sample_value("evenly_batches_total", begun), *counted]

    assert told("start") == [0.0, 0.0, 0.0]
    assert told("refusal", decision=Decision(what=what, reason="no")) == [0.0, 0.0, 1.0]
    assert told("start") == [0.0, 0.0, 1.0]
    if kind == "keyed":
        assert registry.get_sample_value("evenly_stood_seconds_total", begun) == 0.0
    sink.close()
