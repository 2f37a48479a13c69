"""What may be shown of a url and of what a server says: nothing that could be a secret of the request's, and one short line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

_SHORTEST_SECRET = 4
_SHOWN = 200


def shown_url(url: Any) -> str:
    """A url without its credentials, its query and its fragment."""
    if not isinstance(url, str):
        return repr(type(url))
    try:
        parts = urlsplit(url)
        odd = bool(parts.username or parts.password or not parts.hostname or parts.port == 0)
    except ValueError:
        odd = True
    if odd:  # a password may have any character in it: whatever is before the last @ could be one
        url = re.sub(r"\A([A-Za-z]+://)?.*@", r"\1…@", url, flags=re.DOTALL)
    place, *more = re.split(r"[?#]", url, maxsplit=1)
    return place + ("?…" if more else "")


def secrets_of(url: str, headers: Mapping[str, str]) -> tuple[str, ...]:
    """What a request carries that must not be told: values of its query, written both ways, and of its headers; longest first.

    >>> secrets_of("http://h/?token=a%2Fbcd&n=1", {"Authorization": "Bearer 12345"})
    ('token=a%2Fbcd&n=1', 'Bearer 12345', 'a%2Fbcd', 'Bearer', 'a/bcd', '12345')
    """
    query = urlsplit(url).query
    written = [part.partition("=")[2] or part for part in query.split("&")]
    values = [query, *written, *(unquote_plus(value) for value in written), *(value for _, value in parse_qsl(query))]
    for value in headers.values():
        values += [value, *value.split()]
    return tuple(sorted((text for text in dict.fromkeys(values) if len(text) >= _SHORTEST_SECRET), key=len, reverse=True))


def in_one_line(text: str, secrets: Iterable[str]) -> str:
    """The beginning of what a server said, without secrets and without line breaks.

    >>> in_one_line("no such token:\\n  abcd", ["abcd"])
    'no such token: …'
    """
    for secret in secrets:
        text = text.replace(secret, "…")
    told = " ".join(text.split())
    return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}…"
