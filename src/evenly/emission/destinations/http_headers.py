"""Headers of a request: the user's, checked when they are given, and ours, which say what a request has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evenly.errors import InvalidParameter

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t -~\xa0-\xff]*")
_OURS = frozenset({"content-length", "transfer-encoding", "idempotency-key"})
_OUR_PREFIX = "evenly-"


def check_headers(headers: Any) -> None:
    """InvalidParameter unless they are names and values that HTTP can carry, and none of those that tell rows apart.

    A message never has a value: it may be a secret.
    """
    if not isinstance(headers, Mapping):
        raise InvalidParameter(f"headers must be a dict of names and values, got a {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidParameter(f"header {name!r} must have a name of letters, digits and dashes")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InvalidParameter(f"header {name!r} must be one line of text, of Latin-1 characters that can be printed")
        if name.lower() in _OURS or name.lower().startswith(_OUR_PREFIX):
            raise InvalidParameter(
                f"header {name!r} is set for each request, by the rows that it has: leave it out of headers="
            )


def with_headers(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Ours and the user's; where both have one, in any case, the user's.

    >>> with_headers({"Content-Type": "application/json"}, {"content-type": "text/csv"})
    {'content-type': 'text/csv'}
    """
    given = {name.lower() for name in theirs}
    return {**{name: value for name, value in ours.items() if name.lower() not in given}, **theirs}
