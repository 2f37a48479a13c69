"""What the last batches of a query carried, instance by instance: kept beside its checkpoint, for whoever looks at it later.

A mapping balances rows, and a checkpoint has only state: a key with a million rows may have one row of state. So whether
a mapping still fits cannot be told from the state, but from these rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from evenly.errors import DamagedData
from evenly.keys.batches import Batch
from evenly.measures.load import imbalance_pct
from evenly.sealed import opened, sealed

CARRIED = "carried.json"
"""The file's name, in the folder `evenly` of the checkpoint."""
MOST_BATCHES = 100
_FORMAT = "evenly.carried"
_FORMAT_VERSION = 1


@dataclass(frozen=True)
class Carried:
    """The rows of each instance in the last `batches` batches with rows under a version of the mapping.

    `read` says that they are what the partitions read from the shuffle, as Spark's task metrics tell; else they are the rows
    of the input by the instance that the mapping gives them.
    """

    version: int
    batches: int
    last_batch: int
    rows: tuple[int, ...]
    read: bool

    @property
    def imbalance_pct(self) -> float:
        """λ of these rows."""
        return imbalance_pct(self.rows)

    def to_json(self) -> str:
        """As it is kept."""
        return sealed({**asdict(self), "rows": list(self.rows)}, kind=_FORMAT, version=_FORMAT_VERSION)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str) -> Carried:
        """What was kept. Refused: what is damaged, or of a later format."""
        content = opened(text, kind=_FORMAT, version=_FORMAT_VERSION, what="count of carried rows", source=source)
        try:
            version, batches, last = (int(content[name]) for name in ("version", "batches", "last_batch"))
            rows = tuple(int(count) for count in content["rows"])
            read = bool(content["read"])
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise DamagedData(
                f"{source} does not say what batches carried: {error!r}. The running query writes it again"
            ) from error
        if not rows or min(rows) < 0:
            raise DamagedData(f"{source} has the rows {list(rows)}, and needs 0 or more of each instance")
        return cls(version, batches, last, rows, read)


def carried_rows(batches: Iterable[Batch], version: int) -> Carried | None:
    """The rows of the last batches under this version of the mapping; None if there was none with rows."""
    under = [batch for batch in batches if batch.version == version and batch.mapped.any()][-MOST_BATCHES:]
    if not under:
        return None
    read = all(batch.read is not None for batch in under)
    counts = [batch.read if read and batch.read is not None else batch.mapped for batch in under]
    if len({count.size for count in counts}) != 1:
        read, counts = False, [batch.mapped for batch in under]
    rows = np.sum([count.astype(np.int64) for count in counts], axis=0)
    return Carried(version, len(under), under[-1].number, tuple(int(count) for count in rows), read)
