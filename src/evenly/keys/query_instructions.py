"""What `QueryMachine` says is to be done."""

from __future__ import annotations

from dataclasses import dataclass, field

from evenly.keys.mapping import Mapping


@dataclass(frozen=True, eq=False)
class Change:
    """A change of the mapping: to which, why, λ as expected of it, and what was measured before. `asked`: by a user."""

    mapping: Mapping
    reason: str
    expected_pct: float
    figures: dict[str, float] = field(default_factory=dict)
    asked: bool = False


@dataclass(frozen=True)
class Check:
    """Look whether the change could be brought in force, while the query runs on (unless it has ended)."""

    running: bool


@dataclass(frozen=True)
class StopRun:
    """Stop the run for a change, and wait until it has stopped."""


@dataclass(frozen=True)
class Enforce:
    """Bring the mapping in force. If that is refused, say which version is in force then."""

    change: Change


@dataclass(frozen=True)
class Start:
    """Start a run under the version in force."""


@dataclass(frozen=True)
class Note:
    """Write what was measured into the entry of the version in force: λ, and λ as it would be under the mapping before."""

    version: int
    figures: dict[str, float]


@dataclass(frozen=True)
class EndRun:
    """Stop the run for good; nothing if it has stopped."""


@dataclass(frozen=True)
class Unwatch:
    """No batch is waited for any more."""


@dataclass(frozen=True)
class Wait:
    """Tell the same event again once the machine is settled."""


@dataclass(frozen=True)
class Log:
    """Say this, in one line."""

    level: int
    message: str


@dataclass(frozen=True, eq=False)
class Refused:
    """A change is not in force, and why; without a `change`, none ever will be."""

    why: str
    change: Change | None = None


@dataclass(frozen=True)
class Answer:
    """To who asked for a change: the version in force, or why it is not the one asked for."""

    version: int
    error: BaseException | None


Instruction = Check | StopRun | Enforce | Start | Note | EndRun | Unwatch | Wait | Log | Refused | Answer
Instructions = tuple[Instruction, ...]
