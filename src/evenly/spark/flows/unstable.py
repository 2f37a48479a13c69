"""The highest rate that a dataflow really holds: a replay is offered faster and faster until batches do not keep up."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from evenly.dataflow.builder import Flow
from evenly.dataflow.graph import Dataflow
from evenly.dataflow.replay import Pace
from evenly.dataflow.reports import FlowBatch
from evenly.dataflow.stages import only_source
from evenly.errors import DidNotEnd, InvalidParameter
from evenly.planning.micro_batches import SparkPlan
from evenly.planning.observed.peak import Peak, PeakSearch, Trial
from evenly.planning.observed.verdict import verdict
from evenly.spark.flows.owning import check_paths
from evenly.spark.flows.run import checked_flow
from evenly.spark.flows.stopping import stop_between_batches
from evenly.spark.flows.streaming import Asked, Streaming
from evenly.spark.flows.watch import FlowWatch
from evenly.spark.session import local_session
from evenly.spark.streaming.running_query import RunningQuery

_ENOUGH, _LOOK_S, _CLEARLY = 5, 0.2, 2.0
_WARM_UP = 2


def find_peak(
    flow: Dataflow | Flow | str | os.PathLike[str],
    *,
    checkpoint: str | Path,
    spark: SparkSession | None = None,
    plan: SparkPlan | None = None,
    trigger_s: float | None = None,
    first_rate: float | None = None,
    precision: float = 0.05,
    watch: FlowWatch | None = None,
    tell: Callable[[Trial], None] = lambda _: None,
) -> Peak:
    """Run a dataflow whose source is a replay, at one rate after the other, and find the highest at which batches keep up.

        flow = evenly.Flow("sizes")
        urls = flow.source("urls", format="replay", path="/data/urls", options={"rate": 100})
        urls.row(fetch, schema="size long").sink("nowhere", format="noop")
        peak = evenly.find_peak(flow, spark=spark, checkpoint="/data/peak", trigger_s=5.0)
        peak.rate, peak.breaks_at, peak.broke

    The files are replayed again and again, in one query. At each rate a batch has what arrives in `trigger_s` (or the plan's);
    of five such batches most must take no longer. The first rate is `first_rate`, or what the plan predicts, or the replay's.
    Ctrl-C ends the search: the peak is then of the rates that were tried so far, and says that it was `interrupted`.
    """
    described, stages = checked_flow(flow)
    source = only_source(described)
    interval_s = trigger_s if trigger_s is not None else None if plan is None else plan.trigger_s
    if source.format != "replay":
        raise InvalidParameter(
            f"rates can be tried with a source of `format: replay`, and {source.name!r} is {source.format!r}"
        )
    if interval_s is None:
        raise InvalidParameter(
            "batches keep up with a trigger: give its seconds (trigger_s=, --trigger), or a plan that has one"
        )
    described = replace(
        described,
        operators=tuple(
            replace(one, options={**one.options, "loop": "true"}) if one is source else one for one in described.operators
        ),
    )
    predicted = plan.peak_rate if plan is not None and 0.0 < plan.peak_rate < math.inf else None
    search = PeakSearch(first_rate or predicted or float(source.options.get("rate", "nan")), precision=precision)
    session = local_session(described.name) if spark is None else spark
    check_paths(session, described)
    watch = FlowWatch() if watch is None else watch
    trigger = {"processingTime": f"{round(1e3 * interval_s)} milliseconds"}
    streaming = Streaming(described, stages, session, Asked(checkpoint, trigger, None, watch, plan))
    streaming.steering.set_pace(_pace(search.first, interval_s))
    query = streaming.start()
    trials: list[Trial] = []
    interrupted = False
    try:
        while (rate := search.rate) is not None:
            streaming.steering.set_pace(_pace(rate, interval_s))
            batches = _batches(query, watch, rate, interval_s, skip=0 if trials else _WARM_UP)
            trials.append(Trial(rate, verdict(batches, plan, trigger_s=interval_s, warm_up=0)))
            search.tell(held=bool(trials[-1].verdict.held))
            tell(trials[-1])
    except KeyboardInterrupt:
        interrupted = True
    finally:
        stop_between_batches(query)
    return Peak(search.peak, search.breaks_at, tuple(trials), interrupted)


def _pace(rate: float, interval_s: float) -> Pace:
    return Pace(rate, max(1, math.ceil(rate * interval_s)))


def _batches(query: RunningQuery, watch: FlowWatch, rate: float, interval_s: float, *, skip: int) -> list[FlowBatch]:
    """The batches at a rate, when there are enough of them, or as soon as it is clear that they do not keep up."""
    until = time.monotonic() + 60.0 + 20.0 * (_ENOUGH + skip) * interval_s
    while time.monotonic() < until:
        if not query.isActive:
            query.awaitTermination()
            raise DidNotEnd("the query was stopped while rates were tried")
        # The first batch at a rate has what arrived since it was set, which may be less than an interval's worth.
        of_rate = [one for one in watch.batches if one.offered_rate == rate and one.rows][skip:]
        full = [one for one in of_rate if (one.rows or 0) >= 0.9 * math.ceil(rate * interval_s)]
        late = [one for one in full if one.took_s > _CLEARLY * interval_s]
        if len(full) >= _ENOUGH or (len(late) >= 3 and len(late) == len(full)):
            return full
        time.sleep(_LOOK_S)
    raise DidNotEnd(f"no {_ENOUGH} batches ended at {rate:g} rows/s: give a longer trigger, or a lower first rate")
