"""What the pages say of records and metrics is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from evenly.facts.records import EVENTS, KINDS, schema
from evenly.facts.sinks.metrics import COMMON_LABELS, METRICS

DOCS = Path(__file__).parents[2] / "docs"
FACTS, OPERATING = ((DOCS / name).read_text("utf-8") for name in ("facts.md", "operating.md"))
RULES = yaml.safe_load((DOCS / "prometheus-rules.yml").read_text("utf-8"))
EXPORTED = {f"{it.prometheus}_total" if it.kind == "counter" else it.prometheus: it for it in METRICS}


def test_every_field_of_a_record_is_in_the_page_and_no_other():
    for name, described in schema()["$defs"].items():
        section = FACTS.partition(f"### {name}\n")[2].partition("\n#")[0]
        lines = re.findall(r"^\| `(\w+)` \| [^|]+ \| (yes|no) \| [^|]+ \|$", section, re.MULTILINE)
        assert dict(lines) == {it: "yes" if it in described["required"] else "no" for it in described["properties"]}, name


def test_the_page_says_who_tells_what():
    section = FACTS.partition("## Who tells what")[2].partition("\n## ")[0]
    assert set(KINDS) | set(EVENTS) <= set(re.findall(r"`(\w+)`", section))


def test_the_rules_use_metrics_and_labels_that_are_exported():
    rules = [rule for group in RULES["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 0
    for rule in rules:
        used = set(re.findall(r"evenly_\w+", str(rule)))
        assert used, rule
        assert used <= EXPORTED.keys(), used - EXPORTED.keys()
        labels = {label for name in re.findall(r"evenly_\w+", rule["expr"]) for label in EXPORTED[name].labels}
        assert set(re.findall(r"\$labels\.(\w+)", str(rule))) <= {*COMMON_LABELS, *labels}
        assert f"`{rule['alert']}`" in OPERATING


def test_every_metric_is_in_the_page():
    lines = re.findall(r"^\| `(evenly_\w+)` \(`([\w.]+)`\) \| (\w+) \|", OPERATING, re.MULTILINE)
    assert {name: (dotted, kind) for name, dotted, kind in lines} == {
        name: (metric.name, metric.kind) for name, metric in EXPORTED.items()
    }
    assert set(re.findall(r"evenly_\w+", OPERATING)) <= EXPORTED.keys()
