"""Texts of a user's data as they can stand in a record: short, and without halves of characters."""

from __future__ import annotations

_MARK = "…"


def short(text: object, most_bytes: int) -> str:
    """The beginning of a text that takes at most so many bytes inside JSON, which ends in … where something was left out.

    >>> short("a key", 200), short("a very long key", 10)
    ('a key', 'a very…')
    """
    clean = str(text).encode("utf-8", "replace").decode()
    if len(clean) <= most_bytes and sum(map(_bytes, clean)) <= most_bytes:
        return clean
    room, kept = most_bytes - len(_MARK.encode()), 0
    for letter in clean:
        room -= _bytes(letter)
        if room < 0:
            break
        kept += 1
    return clean[:kept].rstrip() + _MARK


def _bytes(letter: str) -> int:
    """What a character takes inside JSON: a control character is escaped."""
    if letter < " " or letter == "\x7f":
        return 6
    return 2 if letter in '"\\' else len(letter.encode())
