"""Sketches to bytes and back: numpy's own .npz format, without pickle, with its checksums."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenly.errors import DamagedData, NewerFormat

FORMAT = 1


def pack(kind: str, **parts: NDArray[Any] | float) -> bytes:
    """The named parts of one summary as bytes: equal parts give equal bytes."""
    buffer = io.BytesIO()
    arrays = {name: np.asarray(part) for name, part in parts.items()}
    np.savez(buffer, allow_pickle=False, kind=np.array(kind), format=np.array(FORMAT), **arrays)
    return buffer.getvalue()


def unpack(kind: str, data: bytes, *names: str) -> dict[str, NDArray[Any]]:
    """The named parts that `pack` was given. Refuses damaged bytes, another kind and a newer format."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            parts = {name: archive[name] for name in ("kind", "format", *names)}
        found, version = str(parts.pop("kind")), int(parts.pop("format"))
    except (ValueError, LookupError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DamagedData(f"these {len(data)} bytes are not a saved {kind}, or are damaged: {error}") from error
    if found != kind:
        raise DamagedData(f"these bytes hold a {found}, not a {kind}")
    if version > FORMAT:
        raise NewerFormat(f"this {kind} was saved in format {version}, and this release reads up to {FORMAT}: upgrade evenly")
    return parts
