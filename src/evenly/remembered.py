"""What runs of a job leave for the next ones, as a file: what was learnt, for what, and how it has turned out.

One file is about one question (`Subject`): the rows of these key columns, of these types, over so many instances, or what they
weigh by this weight; the costs by these expressions; or the times of groups by these key columns. A run with another question
has another file, so jobs that share a folder do not undo each other's.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self, get_args

from evenly.errors import DamagedData
from evenly.files import KeptInFile
from evenly.sealed import opened, sealed

FORMAT = "evenly.remembered"
FORMAT_VERSION = 1
MOST_RUNS = 20
"""Runs whose outcome is kept."""
MOST_FILES = 32
"""Subjects that are kept in one folder: the one that was learnt longest ago makes room."""
MOST_BYTES = 1 << 26
_NAME = re.compile(r"(rows|join-left|join-right|costs|times|times-of-parts)-[0-9a-f]{16}\.json")

Use = Literal["rows", "join-left", "join-right", "costs", "times", "times-of-parts"]
_OF = {
    "rows": "rows",
    "join-left": "the left side of a join",
    "join-right": "the right side of a join",
    "times": "times of groups",
    "times-of-parts": "times of groups whose keys may be split",
}


@dataclass(frozen=True)
class Subject:
    """What something was learnt for. Whoever asks with another subject finds nothing.

    - `use`: "rows" (a mapping of all rows of a key), "join-left" and "join-right" (of those of that
      side of a join that have a key), "costs", "times" (of whole groups) and "times-of-parts" (where keys may be split).
    - `columns` and `types`: the key columns in their order; of costs the expressions, which have no types.
    - `instances`: over how many; 0 where that is chosen in each run, and of costs and times, which hold for any number.
    - `weight`: what a row counts for, a column or an expression as Spark writes it; None of rows that count one each.
    """

    use: Use
    columns: tuple[str, ...]
    types: tuple[str, ...] = ()
    instances: int = 0
    weight: str | None = None

    def content(self) -> dict[str, Any]:
        """It as plain data: without a weight what releases wrote that knew of none, so that it has the file it had."""
        told = asdict(self)
        return {name: value for name, value in told.items() if name != "weight" or value is not None}

    @property
    def file_name(self) -> str:
        """The name of its file."""
        told = json.dumps(self.content(), sort_keys=True)
        return f"{self.use}-{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"

    def __str__(self) -> str:
        if self.use == "costs":
            return f"costs by {', '.join(self.columns) or 'the column that tells them best'}"
        typed = ", ".join(" ".join(pair) for pair in zip(self.columns, self.types, strict=False))
        if self.use in ("times", "times-of-parts"):
            return f"{_OF[self.use]} by {typed}"
        over = f"{self.instances} instances" if self.instances else "as many instances as each run chooses"
        weighed = "" if self.weight is None else f" with weight {self.weight}"
        return f"{_OF[self.use]} by {typed}{weighed} over {over}"

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """What `content` was called on."""
        use, weight = content["use"], content.get("weight")
        if use not in get_args(Use):
            raise ValueError(f"there is no use {use!r}")
        return cls(
            use,
            tuple(content["columns"]),
            tuple(content["types"]),
            int(content["instances"]),
            None if weight is None else str(weight),
        )


@dataclass(frozen=True)
class PastRun:
    """A run and how it turned out. `rows` are those that it carried, or what they weigh where the subject has a weight.

    `ended_at` is the time in UTC, `did` what the run did ("learnt", or "kept" what was there) and why; `promised_pct` and
    `carried_pct` are λ of the rows as the mapping had them, and as they came (of costs: None, and λ of the measured work; of
    times: λ of the times that were expected, None where nothing was known, and of those that were measured).
    `anew` says whether the next run was to learn anew, and `judged` for what reason.
    """

    ended_at: str
    did: Literal["learnt", "kept"]
    why: str
    rows: float
    promised_pct: float | None
    carried_pct: float
    anew: bool
    judged: str

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """What `asdict` made plain data of."""
        promised = content["promised_pct"]
        return cls(
            str(content["ended_at"]),
            "learnt" if content["did"] == "learnt" else "kept",
            str(content["why"]),
            float(content["rows"]),
            None if promised is None else float(promised),
            float(content["carried_pct"]),
            bool(content["anew"]),
            str(content["judged"]),
        )


@dataclass(frozen=True)
class Remembered(KeptInFile):
    """What was learnt (`content`: a `Mapping`, a `CostModel`, or `GroupTimes` and the mapping by them), for what, when and why,
    and its last runs.

    `identity` is that of one learning: what a run carried is told of what the run was placed by, and of nothing that was
    learnt since. `anew` is the reason for which the next run is to learn anew; None to keep what is there.
    """

    subject: Subject
    content: str
    identity: str
    learnt_at: str
    why: str
    anew: str | None = None
    runs: tuple[PastRun, ...] = ()

    def after(self, run: PastRun) -> Self:
        """With one more run, and what follows from it. A reason to learn anew stays until that has been done."""
        return replace(self, anew=run.judged if run.anew else self.anew, runs=(*self.runs, run)[-MOST_RUNS:])

    def to_json(self) -> str:
        """All of it as one JSON object with a checksum."""
        return sealed({**asdict(self), "subject": self.subject.content()}, kind=FORMAT, version=FORMAT_VERSION)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "this text") -> Self:
        """What `to_json` was called on. Anything else is refused."""

        def damaged(why: str) -> DamagedData:
            return DamagedData(
                f"{source} is no memory of past runs, or is damaged ({why}). Delete it, and the next run learns anew"
            )

        content = opened(text, kind=FORMAT, version=FORMAT_VERSION, what="memory of past runs", source=source, damaged=damaged)
        try:
            anew = content["anew"]
            return cls(
                Subject.from_content(content["subject"]),
                str(content["content"]),
                str(content["identity"]),
                str(content["learnt_at"]),
                str(content["why"]),
                None if anew is None else str(anew),
                tuple(map(PastRun.from_content, content["runs"])),
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise damaged(str(error)) from error


def is_memory(name: str) -> bool:
    """Whether a file of this name is one of ours."""
    return _NAME.fullmatch(name) is not None
