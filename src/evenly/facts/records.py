"""Records of what runs: one object, one line of JSON, at most 10 kB at any number of instances.

Every running thing tells the same kind of record: a keyed query, a query by cost, paced sending, a dataflow, a batch job that
is watched, any other query. Nothing here reads a clock: who makes a record says when it was.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from evenly.facts.loads import Instance, Loads
from evenly.facts.texts import is_short, short, short_name

VERSION = 1
MOST_BYTES = 10_000
MOST_KEYS, MOST_OPERATORS, MOST_EDGES = 16, 40, 120
KEY_BYTES, NAME_BYTES, OPERATOR_BYTES, REASON_BYTES = 80, 200, 40, 1_000

Kind = Literal["keyed", "cost", "send", "flow", "batch", "query"]
EventName = Literal["start", "batch", "change", "refusal", "move", "effect", "end"]
KINDS: tuple[str, ...] = get_args(Kind)
EVENTS: tuple[str, ...] = get_args(EventName)

_DECIDED = frozenset({"change", "refusal", "move", "effect"})

Milliseconds = Annotated[float, Meta(ge=0)]
Percent = float
Count = Annotated[int, Meta(ge=0)]


class _Part(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is None or empty is left out of the JSON. What is not known to this version is refused."""


class HeavyKey(_Part, frozen=True, kw_only=True):
    """A key with a large part of a batch's load."""

    key: Annotated[str, Meta(description="its name if the user allows names, else # and a salted digest")]
    share_pct: Annotated[Percent, Meta(description="its part of the batch's load")]
    instance: Annotated[Instance | None, Meta(description="the instance that has it")] = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.share_pct):  # JSON says null of it, which no reader takes
            raise ValueError(f"the share of a key is a number, not {self.share_pct}")


class Queues(_Part, frozen=True, kw_only=True):
    """Outgoing queues of paced sending."""

    policy: Annotated[str, Meta(description="the policy that chooses who sends next; empty: none")] = ""
    backlogs: Annotated[
        Loads | None, Meta(description="rows that wait in each queue; of a batch that was sent, the most that did")
    ] = None
    may_send: Annotated[tuple[Instance, ...], Meta(max_length=64, description="queues that may send now")] = ()
    unasked: Annotated[Count | None, Meta(description="rows of the batch that left without the policy's signal")] = None


class Operator(_Part, frozen=True, kw_only=True):
    """An operator of a dataflow: in a start record as it was planned, in a batch's as it was observed."""

    name: Annotated[str, Meta(description="as the dataflow names it")]
    role: Annotated[str, Meta(description="source, row, batch, sink, …; only in start records")] = ""
    threads: Annotated[Count | None, Meta(description="in each of its tasks")] = None
    planned_threads: Annotated[Count | None, Meta(description="what the plan gives it")] = None
    instances: Annotated[Count | None, Meta(description="tasks that ran it")] = None
    rows: Annotated[Count | None, Meta(description="rows that entered")] = None
    rows_out: Annotated[Count | None, Meta(description="rows that left")] = None
    busy_ms: Annotated[Milliseconds | None, Meta(description="how long its calls took, all threads added up")] = None
    busy_pct: Annotated[Percent | None, Meta(description="the part of its threads' time in which they called it")] = None
    duration_ms: Annotated[Milliseconds | None, Meta(description="how long its stage took")] = None
    planned_ms: Annotated[Milliseconds | None, Meta(description="how long the plan says that its stage takes")] = None
    imbalance_pct: Annotated[Percent | None, Meta(description="λ of the time of its instances")] = None


class Graph(_Part, frozen=True, kw_only=True):
    """The operators of a dataflow, as they are planned, and what leads where."""

    operators: Annotated[tuple[Operator, ...], Meta(max_length=MOST_OPERATORS, description="at most 40")]
    edges: Annotated[
        tuple[tuple[Count, Count], ...],
        Meta(max_length=MOST_EDGES, description="from and to, as places in `operators`, from 0 on; at most 120"),
    ] = ()
    left_out: Annotated[Count, Meta(description="operators for which there was no room")] = 0


class Batch(_Part, frozen=True, kw_only=True):
    """What a batch did. Of a batch job there is one, number 0."""

    number: Annotated[Count, Meta(description="Spark's number of the batch")]
    rows: Annotated[Count, Meta(description="rows that it held")] = 0
    duration_ms: Annotated[Milliseconds | None, Meta(description="how long it took")] = None
    bound_ms: Annotated[
        Milliseconds | None,
        Meta(description="how long it would take at least: with the same load for all, or that of the longest row or key"),
    ] = None
    planned_ms: Annotated[Milliseconds | None, Meta(description="how long the plan says that it takes")] = None
    operator: Annotated[str, Meta(description="of a dataflow: whose instances these are, the busiest operator's")] = ""
    instances: Annotated[Count | None, Meta(description="how many instances it had")] = None
    rows_by_instance: Annotated[Loads | None, Meta(description="rows of each instance")] = None
    busy_ms_by_instance: Annotated[Loads | None, Meta(description="measured work of each instance")] = None
    imbalance_pct: Annotated[Percent | None, Meta(description="λ as observed")] = None
    expected_pct: Annotated[Percent | None, Meta(description="λ as the mapping, or the deal, expects it")] = None
    heavy_keys: Annotated[tuple[HeavyKey, ...], Meta(max_length=MOST_KEYS, description="the heaviest first; at most 16")] = ()
    operators: Annotated[
        tuple[Operator, ...], Meta(max_length=MOST_OPERATORS, description="of a dataflow: the busiest 40, in its order")
    ] = ()
    queues: Annotated[Queues | None, Meta(description="of sending: what waits, and who may send")] = None


class Decision(_Part, frozen=True, kw_only=True):
    """What was changed, refused or moved, why, and what was promised of it."""

    what: Annotated[str, Meta(description="mapping, state, plan, dealing")]
    reason: Annotated[str, Meta(description="why, in words")]
    asked: Annotated[bool, Meta(description="true: by a user; false: by Evenly itself")] = False
    before_pct: Annotated[Percent | None, Meta(description="λ before")] = None
    expected_pct: Annotated[Percent | None, Meta(description="λ as promised")] = None
    after_pct: Annotated[Percent | None, Meta(description="λ measured after it (event effect)")] = None
    kept_pct: Annotated[Percent | None, Meta(description="λ as it would have been without it (event effect)")] = None
    moved_load_pct: Annotated[Percent | None, Meta(description="the part of the load that changes its instance")] = None
    stood_ms: Annotated[Milliseconds | None, Meta(description="how long the query stood still for it (event move)")] = None


class Fact(_Part, frozen=True, kw_only=True, tag_field="version", tag=VERSION):
    """One record.

        for fact in evenly.read_facts("facts.jsonl").facts:
            if fact.event == "change":
                print(fact.time, fact.name, fact.mapping_version, fact.decision.reason)

    `run` stays the same over restarts of a query: of a query it is the identity that its checkpoint keeps.
    """

    time: Annotated[float, Meta(description="seconds since 1970")]
    run: Annotated[str, Meta(min_length=1, description="what runs; the same after a restart of the query")]
    name: Annotated[str, Meta(description="the query's, the dataflow's or the job's name; empty: it has none")] = ""
    kind: Annotated[Kind, Meta(description="keyed, cost, send, flow, batch or query")]
    event: Annotated[EventName, Meta(description="start, batch, change, refusal, move, effect or end")]
    mapping_version: Annotated[Count | None, Meta(description="of the mapping in force")] = None
    instances: Annotated[Count | None, Meta(description="how many instances it has (event start)")] = None
    batch: Annotated[Batch | None, Meta(description="event batch")] = None
    decision: Annotated[Decision | None, Meta(description="events change, refusal, move and effect")] = None
    graph: Annotated[Graph | None, Meta(description="event start of a dataflow")] = None
    error: Annotated[str, Meta(description="event end: what ended it; empty: it ended well")] = ""

    def __post_init__(self) -> None:
        if (self.event == "batch") != (self.batch is not None):
            raise ValueError("a record has a batch if its event is batch, and only then")
        if (self.event in _DECIDED) != (self.decision is not None):
            raise ValueError(f"a record has a decision if its event is {', '.join(sorted(_DECIDED))}, and only then")

    def to_json(self) -> bytes:
        """One line without its end, of at most 10,000 bytes: `fitted`, as JSON."""
        line = _line(self)
        return line if line is not None and _is_short(self, line) else _ENCODER.encode(self._shortened())

    def fitted(self) -> Fact:
        """The same fact if it fits a line of 10,000 bytes, else one that does: texts cut, lists summarised or shortened.

        Halves of characters, as Python has them in names of files, become question marks.
        """
        return self if _is_short(self, _line(self)) else self._shortened()

    def _shortened(self) -> Fact:
        fact = replace(
            self,
            run=short_name(self.run, NAME_BYTES),
            name=short_name(self.name, NAME_BYTES),
            error=short(self.error, REASON_BYTES),
            batch=self.batch and _short_batch(self.batch),
            decision=self.decision and _short_decision(self.decision),
            graph=self.graph and _short_graph(self.graph),
        )
        for reduce in (_summarise, _with_fewer_keys, _with_fewer_operators, _with_fewer_operators, _with_fewer_operators):
            if len(_ENCODER.encode(fact)) <= MOST_BYTES or fact.batch is None:
                return fact
            fact = replace(fact, batch=reduce(fact.batch))
        return fact


def _line(fact: Fact) -> bytes | None:
    """None of one with half a character in it."""
    try:
        return _ENCODER.encode(fact)
    except UnicodeEncodeError:
        return None


def _is_short(fact: Fact, line: bytes | None) -> bool:
    """Whether a fact is seen at once to need no shortening, as most are: batches of queries, and decisions."""
    batch, texts = fact.batch, [(fact.run, NAME_BYTES), (fact.name, NAME_BYTES), (fact.error, REASON_BYTES)]
    if line is None or len(line) > MOST_BYTES or fact.graph is not None:
        return False
    if fact.decision is not None:
        texts += [(fact.decision.what, OPERATOR_BYTES), (fact.decision.reason, REASON_BYTES)]
    if batch is not None:
        if batch.operators or batch.queues is not None or len(batch.heavy_keys) > MOST_KEYS:
            return False
        texts.append((batch.operator, OPERATOR_BYTES))
        texts += [(it.key, KEY_BYTES) for it in batch.heavy_keys]
    return all(is_short(text, most) for text, most in texts)


def _short_batch(batch: Batch) -> Batch:
    keys = tuple(replace(it, key=short_name(it.key, KEY_BYTES)) for it in batch.heavy_keys[:MOST_KEYS])
    queues = batch.queues and replace(
        batch.queues, policy=short(batch.queues.policy, NAME_BYTES), may_send=batch.queues.may_send[:64]
    )
    busiest = _busiest(batch.operators, MOST_OPERATORS)
    operators = tuple(
        replace(it, name=short_name(it.name, OPERATOR_BYTES), role=short(it.role, OPERATOR_BYTES)) for it in busiest
    )
    return replace(
        batch, operator=short_name(batch.operator, OPERATOR_BYTES), heavy_keys=keys, queues=queues, operators=operators
    )


def _short_decision(decision: Decision) -> Decision:
    return replace(decision, what=short(decision.what, OPERATOR_BYTES), reason=short(decision.reason, REASON_BYTES))


def _short_graph(graph: Graph) -> Graph:
    kept = len(graph.operators[:MOST_OPERATORS])
    operators = tuple(
        Operator(
            name=short_name(it.name, OPERATOR_BYTES),
            role=short(it.role, OPERATOR_BYTES),
            planned_threads=it.planned_threads,
            planned_ms=it.planned_ms,
        )
        for it in graph.operators[:kept]
    )
    edges = tuple(edge for edge in graph.edges if max(edge) < kept)[:MOST_EDGES]
    return Graph(operators=operators, edges=edges, left_out=graph.left_out + len(graph.operators) - kept)


def _busiest(operators: tuple[Operator, ...], most: int) -> tuple[Operator, ...]:
    """The busiest, in their own order."""
    if len(operators) <= most:
        return operators
    first = sorted(range(len(operators)), key=lambda at: -(operators[at].busy_ms or 0.0))[:most]
    return tuple(operators[at] for at in sorted(first))


def _summarise(batch: Batch) -> Batch:
    return replace(
        batch,
        rows_by_instance=batch.rows_by_instance and batch.rows_by_instance.summarised(),
        busy_ms_by_instance=batch.busy_ms_by_instance and batch.busy_ms_by_instance.summarised(),
        queues=batch.queues and replace(batch.queues, backlogs=batch.queues.backlogs and batch.queues.backlogs.summarised()),
    )


def _with_fewer_keys(batch: Batch) -> Batch:
    return replace(batch, heavy_keys=batch.heavy_keys[: MOST_KEYS // 2])


def _with_fewer_operators(batch: Batch) -> Batch:
    return replace(batch, operators=_busiest(batch.operators, max(1, len(batch.operators) // 2)))


_ENCODER = msgspec.json.Encoder()


def schema() -> dict[str, object]:
    """The JSON schema of a record."""
    return msgspec.json.schema(Fact)
