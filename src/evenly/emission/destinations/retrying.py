"""When a request that was answered "not now" is made again."""

from __future__ import annotations

import random
from email.utils import parsedate_to_datetime

NOT_NOW = frozenset({429, 502, 503, 504})
"""Too many requests; and what servers and the gateways before them answer while they are overloaded or start again."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0
_JITTER = random.Random()  # noqa: S311 - so that tasks that were refused together do not come back together


def pause_s(refusals: int, retry_after: str | None, now_s: float, *, jitter: float | None = None) -> float:
    """How long to wait after that many refusals, 1 and more: what the header Retry-After says, or twice as long each time.

    A server that asks for nothing ("0", or a date that has passed on our clock) is not asked as fast as it answers.

    `now_s` is the time since 1970; `jitter`, from 0 to 1, is drawn by default: it adds up to a tenth to what a server asked
    for, and takes up to half from what we chose.

    >>> pause_s(1, None, 0.0, jitter=0.0), pause_s(3, None, 0.0, jitter=1.0), pause_s(99, None, 0.0, jitter=0.0)
    (0.1, 0.2, 10.0)
    >>> pause_s(1, "7", 0.0, jitter=0.0), pause_s(1, "Thu, 01 Jan 1970 00:01:00 GMT", 20.0, jitter=0.0)
    (7.0, 40.0)
    """
    drawn = _JITTER.random() if jitter is None else jitter
    asked_s = _asked_s(retry_after, now_s)
    own_s = min(_FIRST_PAUSE_S * 2.0 ** min(refusals - 1, 20), _LONGEST_PAUSE_S) * (1.0 - 0.5 * drawn)
    return own_s if asked_s is None or asked_s < _FIRST_PAUSE_S else asked_s * (1.0 + 0.1 * drawn)


def _asked_s(retry_after: str | None, now_s: float) -> float | None:
    """Seconds that a server asked for, as a number or as a date; None if it did not, or not in a way to be understood."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_s) if text else None
    except (ValueError, OverflowError):
        return None
