"""Records as metrics of OpenTelemetry."""

from __future__ import annotations

from typing import Any

from evenly.errors import MissingDependency
from evenly.facts.records import Fact
from evenly.facts.sinks.metrics import METRICS, CalledRuns, Metric, measurements


class OpenTelemetry:
    """Hands metrics to `meter_provider`, by default the one that your program has set up with OpenTelemetry's SDK.

        evenly.emit_to(evenly.OpenTelemetry())

    Names have dots (`evenly.batch.duration`), and every metric has the attributes `name` and `kind`.
    """

    def __init__(self, *, meter_provider: Any = None) -> None:
        try:
            from opentelemetry import metrics  # noqa: PLC0415 - an optional library
        except ImportError as error:
            raise MissingDependency("OpenTelemetry needs opentelemetry-api: pip install 'evenly[opentelemetry]'") from error
        meter = metrics.get_meter("evenly", meter_provider=meter_provider)
        self._called = CalledRuns()
        made = {"counter": meter.create_counter, "gauge": meter.create_gauge}
        self._found: dict[Metric, Any] = {it: made[it.kind](it.name, it.unit, it.told) for it in METRICS}

    def write(self, fact: Fact) -> None:
        """Hand on what a record says."""
        for metric, labels, value in measurements(fact, self._called.of(fact)):
            if metric.kind == "counter":
                self._found[metric].add(value, labels)
            else:
                self._found[metric].set(value, labels)

    def close(self) -> None:
        """The provider is its owner's."""
