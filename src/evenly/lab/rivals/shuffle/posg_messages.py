"""What POSG's scheduler and instances tell each other: plain values that the caller delivers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenly.kernels.types import F64


@dataclass(frozen=True, eq=False)
class Matrices:
    """An instance's F and W, rows x columns x 2, when they are stable; `version` counts those it has sent."""

    to_all: ClassVar[bool] = True

    instance: int
    version: int
    cells: F64


@dataclass(frozen=True)
class SyncRequest:
    """Travels with a tuple: what the scheduler thinks that its instance has been given, that tuple included."""

    epoch: int
    sent_ms: float


@dataclass(frozen=True)
class SyncReply:
    """By how much the instance's own account exceeds the request's when that tuple has ended."""

    instance: int
    epoch: int
    delta_ms: float
