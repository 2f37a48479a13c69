"""Records as metrics of Prometheus."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from evenly.errors import InvalidParameter, MissingDependency
from evenly.facts.records import Fact
from evenly.facts.sinks.metrics import COMMON_LABELS, METRICS, CalledRuns, Metric, measurements

_MOST_NAMES = 200


class Prometheus:
    """Keeps metrics for a scrape, in `registry` (None: the process's own); with `port`, it answers scrapes there.

        evenly.emit_to(evenly.Prometheus(port=9464))

    It answers on this machine alone, unless `address` says otherwise: metrics hold the names of queries and operators. Of more
    than 200 names those that were told of longest ago are left out.
    """

    def __init__(self, *, registry: Any = None, port: int | None = None, address: str = "127.0.0.1") -> None:
        try:
            import prometheus_client  # noqa: PLC0415 - an optional library
        except ImportError as error:
            raise MissingDependency("Prometheus needs prometheus_client: pip install 'evenly[prometheus]'") from error
        self._registry = prometheus_client.REGISTRY if registry is None else registry
        self._found: dict[Metric, Any] = {}
        self._called = CalledRuns()
        self._told: OrderedDict[tuple[str, str], set[tuple[Metric, tuple[str, ...]]]] = OrderedDict()
        self._server: Any = None
        try:
            for metric in METRICS:
                made = prometheus_client.Counter if metric.kind == "counter" else prometheus_client.Gauge
                labels = (*COMMON_LABELS, *metric.labels)
                self._found[metric] = made(metric.prometheus, metric.told, labels, registry=self._registry)
        except ValueError as error:
            self.close()
            raise InvalidParameter(f"this registry has such metrics already ({error}): attach one Prometheus to it") from error
        if port is not None:
            try:
                self._server, _ = prometheus_client.start_http_server(port, address, self._registry)
            except (OSError, OverflowError) as error:
                self.close()
                raise InvalidParameter(
                    f"port {port} of {address} cannot be listened on ({error}): give another port"
                ) from error

    @property
    def port(self) -> int | None:
        """The port on which it answers; None of one that does not."""
        return None if self._server is None else int(self._server.server_address[1])

    def write(self, fact: Fact) -> None:
        """Take in what a record says."""
        called = self._called.of(fact)
        told = self._told.setdefault((called, fact.kind), set())
        self._told.move_to_end((called, fact.kind))
        if fact.event == "start":
            # What is not told again is not known any more: λ without a controller, operators that have gone.
            gauges = {it for it in told if it[0].kind == "gauge"}
            for metric, values in gauges:
                self._found[metric].remove(*values)
            told -= gauges
        for metric, labels, value in measurements(fact, called):
            told.add((metric, tuple(labels[name] for name in (*COMMON_LABELS, *metric.labels))))
            found = self._found[metric].labels(**labels)
            if metric.kind == "counter":
                found.inc(value)
            else:
                found.set(value)
        while len(self._told) > _MOST_NAMES:
            for metric, values in self._told.popitem(last=False)[1]:
                self._found[metric].remove(*values)

    def close(self) -> None:
        """Answer no more, and take the metrics out of the registry."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        while self._found:
            self._registry.unregister(self._found.popitem()[1])
