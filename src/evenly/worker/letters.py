"""Rows on which the function failed: told as an error, or set aside as dead letters beside the good results."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa

from evenly.errors import EvenlyError, FunctionFailed, InvalidResult, RowTooSlow
from evenly.worker.engine import Row
from evenly.worker.rows import as_json, shown

ERROR = "error"
LETTER = pa.struct([("type", pa.string()), ("message", pa.string()), ("row", pa.string())])
_LONGEST = 2_000
_HERE = str(Path(__file__).parent)


def letters_of(payload: Any, error: BaseException) -> list[dict[str, str]]:
    """A letter for each row of a call that failed."""
    told = {"type": type(error).__name__, "message": _said(error)}
    return [{**told, "row": row} for row in _texts(payload)]


_SKIPPED = "CallOptions(on_error='skip') sets such rows aside, retries= calls again."


def failure(payload: Any, error: BaseException, *, of: str = "the function", advice: str = _SKIPPED) -> EvenlyError:
    """The error to raise when rows that fail are not to be skipped: it says on which row, `of` what, and what can be done."""
    texts = _texts(payload)
    on = texts[0] if len(texts) == 1 else f"a batch of {len(texts)} rows that begins with {texts[0] if texts else 'none'}"
    on = on if len(on) <= _LONGEST else f"{on[:_LONGEST]}…"
    if isinstance(error, RowTooSlow):
        return RowTooSlow(f"{_said(error)}, on {on}: raise the limit, or CallOptions(on_error='skip') sets such rows aside")
    if isinstance(error, InvalidResult):
        return InvalidResult(f"{_said(error).replace('the function', of, 1)}; on {on}")
    # In one line: of what a worker raised, Spark hands on text, in which the end of a message is the end of its line.
    said = " ".join(_said(error).split())
    said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
    return FunctionFailed(f"{of} raised {type(error).__name__}: {said}; on {on}. {advice}{_where(error)}")


def failed_function(of: str, error: BaseException) -> FunctionFailed:
    """The same of a function that gets no row: of frames, sources and sinks."""
    shown = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)  # without the call of it
    return FunctionFailed(f"{of} raised {type(error).__name__}: {' '.join(_said(error).split())[:_LONGEST]}{_where(shown)}")


def _said(error: BaseException) -> str:
    """What an error says, whatever that is: it must not fail in turn, nor have what UTF-8 has not (a file's undecoded name)."""
    try:
        text = str(error)
    except Exception as further:  # noqa: BLE001 - the error is a user's
        text = f"(its text cannot be had: {type(further).__name__})"
    return text.encode("utf-8", "backslashreplace").decode()


def _where(error: BaseException) -> str:
    """Where in the user's code it was raised: of a chain of errors Spark shows the last one only."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_HERE)]
    return "\n" + "".join(traceback.format_list(frames)) if frames else ""


def _texts(payload: Any) -> list[str]:
    if isinstance(payload, Row):
        return [as_json(payload)]
    return [as_json(row) for row in shown(payload)]
