"""Records as running things tell them, generated: the same for the same seed, without Spark and without a clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from evenly.facts.labels import KeyLabels
from evenly.facts.loads import Loads
from evenly.facts.of_keys import keyed_batch
from evenly.facts.records import Batch, Decision, EventName, Fact, Graph, Operator, Queues
from evenly.kernels.types import F64, U64
from evenly.keys.controller import BatchLoad, DriftController
from evenly.keys.dkg import DKG, KeyCounts
from evenly.keys.mapping import Mapping

BEGIN_S = 1_750_000_000.0
_EFFECT_BATCHES = 3
_OVERHEAD_S, _ROW_S = 0.12, 4e-5
_KEYS = 2_000
_PLACES = (
    *("Lisboa", "Oslo", "Kyoto", "Quito", "Accra", "Turku", "Porto", "Cusco"),
    *("Hanoi", "Perth", "Sofia", "Tunis", "Izmir", "Lagos", "Delhi", "Minsk"),
)


def drifting_stream(
    *,
    seed: int = 0,
    batches: int = 120,
    instances: int = 12,
    rows: int = 40_000,
    begin_s: float = BEGIN_S,
    restart_after: int | None = None,
    names: bool = True,
) -> Iterator[Fact]:
    """A keyed query on keys that drift: every 30 batches other keys become heavy, and a controller changes the mapping.

    Its decisions are those of a real `DriftController`. After the batch `restart_after` the query ends by an error and is
    started again, under the same run. λ, bounds and heavy keys are computed as those of a real query are.

    >>> [fact.event for fact in drifting_stream(batches=2)]
    ['start', 'batch', 'batch', 'end']
    """
    rng = np.random.default_rng(seed)
    ids = (np.arange(_KEYS, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    names_of = {int(key): f"{_PLACES[at % len(_PLACES)]} {at // len(_PLACES) + 1}" for at, key in enumerate(ids)}
    labels = KeyLabels(names=names, salt=bytes([seed % 256]) * 8)
    weights = rng.permutation(1.0 / np.arange(1, _KEYS + 1) ** 0.85)
    mapping = _learnt(ids, rng.multinomial(2 * rows, weights / weights.sum()), instances)
    controller = DriftController(mapping, budget_pct=25.0, move_s=0.5)
    now_s, run, effect = begin_s, f"sample-{seed}", list[float]()

    def fact(event: EventName, **parts: object) -> Fact:
        common = {"time": round(now_s, 3), "run": run, "name": "visits", "kind": "keyed", "mapping_version": mapping.version}
        return Fact(event=event, **common, **parts)  # type: ignore[arg-type]

    yield fact("start", instances=instances)
    for number in range(batches):
        share = _drifted(weights, number, batches)
        drawn = rng.multinomial(int(rows * rng.uniform(0.85, 1.15)), share)
        there = np.flatnonzero(drawn)
        counts = _counts(controller.learner, ids[there], drawn[there].astype(np.float64))
        loads = np.bincount(mapping.assign_ids(ids[there]), drawn[there], instances).astype(np.float64)
        seconds = _OVERHEAD_S + float(loads.max()) * _ROW_S
        now_s += seconds
        told = keyed_batch(
            number, loads, seconds=seconds, counts=counts, mapping=mapping, label=lambda key: labels.of(names_of[key])
        )
        yield fact("batch", batch=told)
        decision = controller.observe(BatchLoad(loads, counts, seconds))
        if mapping.version > 1 and len(effect) < _EFFECT_BATCHES:
            effect.append(told.imbalance_pct or 0.0)
            if len(effect) == _EFFECT_BATCHES:
                after = Decision(
                    what="mapping", reason="measured", after_pct=float(np.mean(effect)), kept_pct=controller.kept_pct
                )
                yield fact("effect", decision=after)
        if decision.mapping is not None:
            mapping = replace(decision.mapping, version=mapping.version + 1)
            controller.changed(mapping, expected_pct=decision.expected_pct)
            effect = []
            yield fact(
                "change",
                decision=Decision(
                    what="mapping",
                    reason=decision.reason,
                    before_pct=decision.now_pct,
                    expected_pct=decision.expected_pct,
                    moved_load_pct=decision.moved_load_pct,
                ),
            )
            stood_s = 0.4 + rng.uniform(0.0, 0.4)
            now_s += stood_s
            yield fact("move", decision=Decision(what="state", reason="to its new instances", stood_ms=1e3 * stood_s))
        if number == restart_after:
            yield fact("end", error="the driver was lost")
            now_s += 5.0
            yield fact("start", instances=instances)
    yield fact("end")


def _drifted(weights: F64, number: int, batches: int) -> F64:
    """Every 30 batches, over five of them, other keys take the places of the heavy ones; sometimes one comes in a burst."""
    era, passed = divmod(number, 30)
    before, after = np.roll(weights, 617 * max(era - 1, 0)), np.roll(weights, 617 * era)
    part = min(1.0, passed / 5.0) if era else 1.0
    now = (1.0 - part) * before + part * after
    if number == (2 * batches) // 3:
        now = now.copy()
        now[_KEYS // 2] += 0.08 * now.sum()
    share: F64 = now / now.sum()
    return share


def _learnt(ids: U64, drawn: np.ndarray, instances: int) -> Mapping:
    return DKG.automatic(instances, ids="xxhash64").fit_ids(ids, drawn.astype(np.float64)).mapping()


def _counts(learner: DKG, ids: U64, counts: F64) -> KeyCounts:
    buckets = np.bincount(learner.buckets_of(ids), counts, learner.bucket_count).astype(np.float64)
    heaviest = np.argsort(-counts, kind="stable")[: learner.counters]
    return KeyCounts(buckets, ids[heaviest], counts[heaviest])


def dataflow(*, seed: int = 0, batches: int = 40, begin_s: float = BEGIN_S) -> Iterator[Fact]:
    """A dataflow of six operators with a plan; from the middle on one of them is slower than planned."""
    rng = np.random.default_rng(seed)
    roles = {"tweets": "source", "parse": "row", "score": "row", "lookup": "row", "join": "batch", "kept": "sink"}
    threads = {"parse": 1, "score": 2, "lookup": 8, "join": 1}
    cost_ms = {"parse": 0.02, "score": 0.12, "lookup": 0.5, "join": 0.03}
    planned = {name: 5_000 * cost / threads[name] / 4 for name, cost in cost_ms.items()}
    operators = tuple(
        Operator(name=name, role=role, planned_threads=threads.get(name), planned_ms=planned.get(name))
        for name, role in roles.items()
    )
    edges = ((0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5))
    common = {"run": f"sample-flow-{seed}", "name": "tweets", "kind": "flow"}
    now_s = begin_s
    yield Fact(time=now_s, event="start", graph=Graph(operators=operators, edges=edges), **common)  # type: ignore[arg-type]
    for number in range(batches):
        entered = int(5_000 * rng.uniform(0.9, 1.1))
        slow = 1.8 if number >= batches // 2 else 1.0
        told, busiest = [], (np.zeros(4), "")
        for name, cost in cost_ms.items():
            busy_ms = entered * cost * (slow if name == "lookup" else 1.0) * rng.dirichlet(np.full(4, 80.0))
            span_ms = float(busy_ms.max()) / threads[name]
            busiest = max(busiest, (busy_ms, name), key=lambda it: float(it[0].sum()))
            told.append(
                Operator(
                    name=name,
                    threads=threads[name],
                    planned_threads=threads[name],
                    instances=4,
                    rows=entered,
                    rows_out=entered,
                    busy_ms=float(busy_ms.sum()),
                    busy_pct=100.0 * float(busy_ms.mean() / busy_ms.max()),
                    duration_ms=span_ms,
                    planned_ms=planned[name],
                    imbalance_pct=100.0 * (float(busy_ms.max() / busy_ms.mean()) - 1.0),
                )
            )
        duration_ms = 150.0 + sum(it.duration_ms or 0.0 for it in told)
        now_s += duration_ms / 1e3
        loads = Loads.of(busiest[0])
        batch = Batch(
            number=number,
            rows=entered,
            duration_ms=duration_ms,
            bound_ms=150.0 + sum((it.duration_ms or 0.0) / (1.0 + (it.imbalance_pct or 0.0) / 100.0) for it in told),
            planned_ms=150.0 + sum(planned.values()),
            operator=busiest[1],
            instances=4,
            busy_ms_by_instance=loads,
            imbalance_pct=None if loads is None else loads.imbalance_pct,
            operators=tuple(told),
        )
        yield Fact(time=round(now_s, 3), event="batch", batch=batch, **common)  # type: ignore[arg-type]
        if number == batches // 2 + 4:
            reason = "lookup takes 1.8 times as long as planned: 12 threads instead of 8 would hold the rate"
            yield Fact(time=round(now_s, 3), event="change", decision=Decision(what="plan", reason=reason), **common)  # type: ignore[arg-type]
    yield Fact(time=round(now_s, 3), event="end", **common)  # type: ignore[arg-type]


def paced_sending(*, seed: int = 0, batches: int = 40, instances: int = 6, begin_s: float = BEGIN_S) -> Iterator[Fact]:
    """Queues that share one link: a burst fills one of them, and of the longest one the next row is sent."""
    rng = np.random.default_rng(seed)
    common = {"run": f"sample-send-{seed}", "name": "sent", "kind": "send"}
    now_s, backlogs = begin_s, np.zeros(instances)
    yield Fact(time=now_s, event="start", instances=instances, **common)  # type: ignore[arg-type]
    for number in range(batches):
        came = rng.poisson(40.0, instances).astype(np.float64)
        if batches // 3 <= number < batches // 3 + 4:
            came[0] += 200.0
        backlogs += came
        for _ in range(min(42 * instances, int(backlogs.sum()))):
            backlogs[backlogs.argmax()] -= 1.0
        now_s += 1.0
        loads = Loads.of(came)
        batch = Batch(
            number=number,
            rows=int(came.sum()),
            duration_ms=1e3,
            instances=instances,
            rows_by_instance=loads,
            imbalance_pct=None if loads is None else loads.imbalance_pct,
            queues=Queues(policy="lbf", backlogs=Loads.of(backlogs), may_send=(int(backlogs.argmax()),)),
        )
        yield Fact(time=now_s, event="batch", batch=batch, **common)  # type: ignore[arg-type]
    yield Fact(time=now_s, event="end", **common)  # type: ignore[arg-type]
