"""Trials for real: an operator in one slot, fed at a fixed rate."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64
from evenly.lab.slots.hub import Flow, Home, Hub, Route, RunResult, free_cores
from evenly.lab.slots.operators import OperatorSpec
from evenly.lab.slots.process import SlotBundle
from evenly.measures.slope import slope
from evenly.planning.profiling.search import SlotTrial


@dataclass(frozen=True)
class TrialOptions:
    """How a trial is run.

    `seconds` (above 0) of tuples, of which the first `warm_up` part (0 to 0.9) is not looked at; stable while the
    completion time grows by no more than `slope` seconds per second; a slot has `memory_mib`.
    """

    seconds: float = 5.0
    warm_up: float = 0.3
    slope: float = 0.02
    memory_mib: int = 3584

    def __post_init__(self) -> None:
        if not self.seconds > 0.0 or not 0.0 <= self.warm_up <= 0.9 or not self.slope > 0.0 or self.memory_mib < 16:
            raise InvalidParameter(
                "a trial needs seconds above 0, a warm_up of 0 to 0.9, a slope above 0 and at least 16 MiB, "
                f"got {self.seconds}, {self.warm_up}, {self.slope} and {self.memory_mib}"
            )


class SlotTrials:
    """Runs trials of one operator in one slot. Use it as a context manager."""

    def __init__(self, operator: OperatorSpec, options: TrialOptions | None = None) -> None:
        self.operator = operator
        self.options = options or TrialOptions()
        self._service = operator.service()
        self._hub = Hub(free_cores(1), memory_mib=self.options.memory_mib)
        self._ready: OperatorSpec | None = None
        self._threads = 0

    def __enter__(self) -> Self:
        self._ready = OperatorSpec(self.operator.target, self._service.__enter__())
        self._hub.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._hub.__exit__(kind, error, trace)
        self._service.__exit__(kind, error, trace)

    def run(self, threads: int, rate: float) -> SlotTrial:
        """One trial."""
        if self._ready is None:
            raise InvalidParameter("trials run in a with block: with SlotTrials(...) as trials")
        if threads != self._threads:
            self._hub.set_up([[("operator", SlotBundle(self._ready, threads))]])
            self._threads = threads
        how = self.options
        seconds = max(how.seconds, 20.0 / rate)
        flow = Flow({"operator": [Home(0, 0, 1.0)]}, {"": [Route("operator")], "operator": [Route(None)]})
        found = self._hub.run(flow, rate, seconds, warm_up_s=how.warm_up * seconds)
        grows = latency_slope(found, how.warm_up * seconds)
        stable = not found.aborted and grows <= how.slope and found.done_s.size >= 0.9 * found.expected
        return SlotTrial(threads, rate, stable, found.cpu_pct[0], 100.0 * found.memory_mib[0] / how.memory_mib, grows)


def latency_slope(found: RunResult, warm_up_s: float) -> float:
    """How fast completion times grow after warm-up, in seconds per second."""
    counted = found.born_s >= warm_up_s
    born_s: F64 = found.born_s[counted]
    return slope(born_s, found.done_s[counted] - born_s) if born_s.size >= 3 else 0.0
