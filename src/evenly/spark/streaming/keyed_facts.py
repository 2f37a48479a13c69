"""The records of a keyed query."""

from __future__ import annotations

from functools import partial
from typing import Any

from evenly.facts.emitting import Teller, are_names_allowed, is_emitting
from evenly.facts.labels import KeyLabels
from evenly.facts.of_keys import keyed_batch
from evenly.facts.records import Batch, Decision
from evenly.kernels.types import F64
from evenly.keys.controller import BatchLoad
from evenly.keys.mapping import Mapping
from evenly.keys.query_instructions import Change
from evenly.keys.query_machine import QueryMachine
from evenly.spark.streaming.carrying import Carrying
from evenly.spark.streaming.mapping_store import MappingStore

_MOST_NAMES = 1_000
_LAST_S = 10.0
"""How long the last batches of a query that was stopped are waited for, if records go anywhere."""


class KeyedFacts:
    """Tells what a `KeyedQuery` does, as its machine and the versions in its checkpoint have it."""

    def __init__(self, teller: Teller, store: MappingStore, machine: QueryMachine) -> None:
        self.teller = teller
        self._store, self._machine = store, machine
        self._known: tuple[int, Mapping] | None = None
        self._change: Change | None = None
        self._names: dict[int, str] = {}

    @property
    def named(self) -> tuple[str, ...]:
        """The key columns by whose values heavy keys may be called, in a run that starts now; none that are Evenly's own."""
        key = self._store.placement.key
        return key if are_names_allowed() and not key[0].startswith("__evenly") else ()

    def begin(self, run: str, name: str | None) -> None:
        """The query has been started."""
        self.teller.begin(run, name, mapping_version=self._in_force, instances=self._store.placement.instances)

    def batch(self, run: int, number: int, rows: F64, load: BatchLoad, names: dict[int, str]) -> None:
        """A batch as the controller sees it, unless it was told before or had no rows. `names`: of keys, by their ids."""
        version = self._machine.version_of(run)
        if version is None or number <= self._machine.handled or not rows.sum() > 0.0:
            return
        if len(self._names) > _MOST_NAMES:
            self._names = {}
        self._names |= names
        known = self._names

        def label(labels: KeyLabels, key: int) -> str:
            return labels.of(known[key] if labels.names and key in known else _identity(key))

        def made(labels: KeyLabels) -> Batch:
            return keyed_batch(
                number,
                rows,
                seconds=load.seconds,
                counts=load.keys,
                mapping=self._mapping(version),
                label=partial(label, labels),
            )

        self.teller.tell("batch", mapping_version=version, batch=made)

    def plain_batch(self, progress: dict[str, Any]) -> None:
        """A batch of which only Spark's progress is known, because no controller watches."""
        number, rows = int(progress["batchId"]), int(progress["numInputRows"])
        if rows:
            told = Batch(number=number, rows=rows, duration_ms=float(progress["batchDuration"]))
            self.teller.tell("batch", mapping_version=self._in_force, batch=lambda _: told)

    def enforced(self, change: Change) -> None:
        """A change has been brought in force, or that was refused. It is told when the query runs again, if it will."""
        if self._in_force != self._machine.version:
            self._change = change
            if self._machine.over:
                self.changed(None)

    def changed(self, stood_s: float | None) -> None:
        """The query was started, maybe after a change, for which it stood still so long."""
        change, self._change = self._change, None
        if change is None:
            return
        self.teller.tell("change", mapping_version=self._in_force, decision=decided(change))
        if stood_s is not None:
            moved = Decision(what="state", reason="stopped, changed and started again", stood_ms=1e3 * stood_s)
            self.teller.tell("move", mapping_version=self._in_force, decision=moved)

    def refused(self, why: str, change: Change | None) -> None:
        """A change is not in force."""
        told = Decision(what="mapping", reason=why, asked=change is not None and change.asked)
        self.teller.tell("refusal", mapping_version=self._in_force, decision=told)

    def noted(self, figures: dict[str, float]) -> None:
        """What came of a change is known."""
        after, kept = figures.get("after_pct"), figures.get("kept_pct")
        told = Decision(what="mapping", reason="measured", after_pct=after, kept_pct=kept)
        self.teller.tell("effect", mapping_version=self._in_force, decision=told)

    def ended(self, run: int, error: str | None = None, *, surely: bool = False) -> None:
        """A run may have ended: that is the query's end if it will not be started again and its last batches were told."""
        machine = self._machine
        if run < machine.run or machine.changing or (machine.watched and machine.drained < run):
            return
        if machine.over or surely:
            self.changed(None)
            failure = machine.failure or (None if error is None else RuntimeError(error))
            self.teller.end(failure, mapping_version=self._in_force)

    def lost(self, error: str | None) -> None:
        """The query has ended with its session, or with the process."""
        self.teller.end(None if error is None else RuntimeError(error), mapping_version=self._in_force)

    def await_end(self, carrying: Carrying, run: int) -> None:
        """The query has been stopped: its last batches reach the controller a moment later, and its end is told after them."""
        if is_emitting():
            carrying.heard(lambda: self._machine.drained >= run, quiet_s=_LAST_S)
        self.ended(run)

    def known(self, refusals: int) -> dict[str, object]:
        """What can be said of the query's mapping in a few words."""
        versions, placement = self._store.versions, self._store.placement
        told = f"version {versions[-1].number} ({versions[-1].reason}), {len(versions) - 1} changes, {refusals} refused"
        return {"instances": placement.instances, "mapping": told}

    @property
    def _in_force(self) -> int:
        return self._store.versions[-1].number

    def _mapping(self, version: int) -> Mapping:
        if self._known is None or self._known[0] != version:
            self._known = version, self._store.mapping(version)
        return self._known[1]


def decided(change: Change) -> Decision:
    """A change as part of a record."""
    return Decision(
        what="mapping",
        reason=change.reason,
        asked=change.asked,
        before_pct=change.figures.get("before_pct"),
        expected_pct=change.expected_pct,
        moved_load_pct=change.figures.get("moved_load_pct"),
    )


def _identity(key: int) -> str:
    """Rows tell a key by what Spark's xxhash64 gives for it, a signed number."""
    return f"xxhash64 {key - 2**64 if key >= 2**63 else key}"
