"""What a checkpoint with a state for each key is bound to, in `<checkpoint>/evenly/states.json`.

States that were written by one key, number of buckets or schema are not found, or not understood, by another. The same is in
the name of the column that Spark groups by, which the mapping beside the checkpoint has too: so two starts at once cannot mix
theirs.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from evenly.errors import CheckpointMismatch, DamagedData
from evenly.sealed import opened, sealed
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.java_errors import Py4JJavaError
from evenly.spark.streaming.mapping_store import has_begun
from evenly.worker.states.layout import Timeout

_FILE, _FORMAT, _FORMAT_VERSION = "states.json", "evenly.states", 1
_MARK_BYTES = 8


@dataclass(frozen=True)
class StateTerms:
    """The key and its types, in how many buckets its values are, what a state has, and by which clock it is timed out."""

    key: tuple[str, ...]
    types: tuple[str, ...]
    buckets: int
    state: str
    timeout: Timeout | None

    def told(self) -> dict[str, Any]:
        return {**asdict(self), "key": list(self.key), "types": list(self.types)}

    @property
    def mark(self) -> bytes:
        """A few bytes that stand for all of it."""
        return hashlib.sha256(json.dumps(self.told(), sort_keys=True).encode()).digest()[:_MARK_BYTES]

    @property
    def bucket(self) -> str:
        """The name of the column that has a key's bucket."""
        return f"__evenly_bucket_{self.mark.hex()}"


class TermsStore:
    """The terms beside one checkpoint."""

    def __init__(self, checkpoint: Folder) -> None:
        self._checkpoint, self._folder = checkpoint, checkpoint.child("evenly")

    def kept(self) -> dict[str, Any] | None:
        """What the query of the checkpoint was begun with; None if it has not begun. Refused: what another way began."""
        if not has_begun(self._checkpoint):
            return None
        if not self._folder.has(_FILE):
            raise CheckpointMismatch(
                f"the query of checkpoint {self._checkpoint.path} was not begun by stream_apply_by_key, or "
                f"{self._folder.path}/{_FILE} is missing: give another checkpoint, or restore that folder from a backup"
            )
        source = f"{self._folder.path}/{_FILE}"
        try:
            text = self._folder.read(_FILE, checked_by_caller=True)
        except Py4JJavaError as error:
            raise _damaged(source, str(error.java_exception.toString())) from error
        return opened(
            text,
            kind=_FORMAT,
            version=_FORMAT_VERSION,
            what="description of states",
            source=source,
            damaged=lambda why: _damaged(source, why),
        )

    def check(self, terms: StateTerms, kept: dict[str, Any]) -> None:
        """Refuse other terms than those that were kept."""
        for name, value in terms.told().items():
            if kept.get(name) != value:
                raise CheckpointMismatch(
                    f"checkpoint {self._checkpoint.path} was begun with {name}={kept.get(name)!r} and is now asked for "
                    f"{name}={value!r}: its states would not be found. Use {name}={kept.get(name)!r}, or a new checkpoint"
                )

    def keep(self, terms: StateTerms) -> None:
        """Write the terms of a query that has not begun; those of one that another start has begun meanwhile stay."""
        text = sealed(terms.told(), kind=_FORMAT, version=_FORMAT_VERSION)
        if not self._folder.make(_FILE, text) and self.kept() is None:
            self._folder.write(_FILE, text)  # what a start left that failed


def _damaged(source: str, why: str) -> DamagedData:
    return DamagedData(
        f"{source} is missing or damaged ({why}): restore it from a backup, or start with a new checkpoint. The query was not "
        "started, because its states would not be found"
    )
