"""An application of the past, as its event log has it: its stages, what was not the user's work, and what the log lacks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from evenly.diagnosis.stages import PastStage


@dataclass(frozen=True)
class Unfinished:
    """A stage whose end the log does not have: how many of its tasks had ended, how many ran, the longest of those so far.

    `ended_after` says that the application ended all the same: the log lacks what came between.
    """

    stage: int
    attempt: int
    name: str
    tasks: int
    ended: int
    running: int
    longest_s: float
    ended_after: bool = False

    def row(self) -> dict[str, object]:
        """As a flat object."""
        return {"series": "unfinished", **asdict(self)}

    @property
    def told(self) -> str:
        """In a sentence."""
        named = f"stage {self.stage}" + (f" ({self.name})" if self.name else "")
        ended = f"{self.ended} of {self.tasks or '?'} tasks had ended"
        if self.ended_after:
            return f"{named} has no end in the log, though the application has: {ended}; it is not judged"
        if not self.running:
            waiting = "" if self.ended else ", and none had begun: it waited for slots"
            return f"{named} had not finished: {ended}{waiting}"
        return (
            f"{named} had not finished: {ended}, the longest of the {self.running} others had run for {self.longest_s:,.0f} s"
        )


@dataclass
class OwnJobs:
    """Stages of one kind that are no work of the user's: how many, and how long they ran."""

    kind: str
    stages: int = 0
    seconds: float = 0.0

    def row(self) -> dict[str, object]:
        """As a flat object."""
        return {"series": "own", **asdict(self)}


@dataclass
class Application:
    """What an event log says of an application: see `read_application`.

    `finished` counts all stages that finished; `stages` holds at most `MOST_STAGES` of them, those of the user's work, and
    `own` counts the others. `bounds_ms` are the begin and end of every stage that finished. `gaps` tell what the log lacks,
    `over` says that it has the application's end.
    """

    name: str = ""
    id: str = ""
    attempt: str | None = None
    seconds: float = 0.0
    slots: int = 0
    stages: list[PastStage] = field(default_factory=list)
    own: dict[str, OwnJobs] = field(default_factory=dict)
    bounds_ms: list[tuple[int, int]] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    finished: int = 0
    failed: int = 0
    gaps: list[str] = field(default_factory=list)
    skipped_lines: int = 0
    truncated: bool = False
    over: bool = False

    @property
    def own_stages(self) -> int:
        """How many stages were no work of the user's."""
        return sum(one.stages for one in self.own.values())

    def row(self, saved_s: float = 0.0) -> dict[str, object]:
        """The application as a flat object; `saved_s` is what it would save on its critical path."""
        return {
            "series": "application",
            "name": self.name,
            "application": self.id,
            "attempt": self.attempt,
            "seconds": self.seconds,
            "saved_s": saved_s,
            "slots": self.slots,
            "stages": self.finished,
            "own_stages": self.own_stages,
            "failed": self.failed,
            "unfinished": len(self.unfinished),
            "truncated": self.truncated,
            "gaps": list(self.gaps),
            "skipped_lines": self.skipped_lines,
        }

    @property
    def own_told(self) -> str:
        """The stages that get no advice, in a sentence; empty where there are none."""
        if not self.own:
            return ""
        kinds = sorted(self.own.values(), key=lambda one: -one.seconds)
        told = ", ".join(f"{one.kind} ({one.stages}, {one.seconds:,.1f} s)" for one in kinds)
        one_stage = self.own_stages == 1
        return (
            f"{self.own_stages} of the stages {'is' if one_stage else 'are'} Spark's or Evenly's own work, not judged: {told}"
        )

    def notes(self) -> list[str]:
        """What a reader should know besides: stages that failed or still ran, and parts of the log that could not be read."""
        notes = [one.told for one in self.unfinished]
        if self.failed:
            one = self.failed == 1
            told = "1 attempt of a stage failed; it is" if one else f"{self.failed:,} attempts of stages failed; they are"
            notes.append(f"{told} not counted above")
        notes += self.gaps
        if self.truncated:
            still = "behind it comes what cannot be read" if self.over else "the application still runs, or was killed"
            notes.append(f"the log {'has the end of the application' if self.over else 'breaks off'}: {still}")
        if self.skipped_lines:
            notes.append(f"{self.skipped_lines} lines of the log could not be read and were skipped")
        return notes
