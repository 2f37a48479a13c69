"""Texts of a user's data as they can stand in a record: short, and without halves of characters."""

from __future__ import annotations

import hashlib

_MARK = "…"
_DIGITS = 4


def is_short(text: str, most_bytes: int) -> bool:
    """Whether a text is seen at once to take no more: no letter that can be printed takes more than two bytes in ASCII."""
    return 2 * len(text) <= most_bytes and text.isascii() and text.isprintable()


def short(text: object, most_bytes: int) -> str:
    """The beginning of a text that takes at most so many bytes inside JSON, which ends in … where something was left out.

    >>> short("a key", 200), short("a very long key", 10)
    ('a key', 'a very…')
    """
    told = str(text)
    if is_short(told, most_bytes):
        return told
    clean = told.encode("utf-8", "replace").decode()
    if len(clean) <= most_bytes and sum(map(_bytes, clean)) <= most_bytes:
        return clean
    room, kept = most_bytes - len(_MARK.encode()), 0
    for letter in clean:
        room -= _bytes(letter)
        if room < 0:
            break
        kept += 1
    return clean[:kept].rstrip() + _MARK


def short_name(text: object, most_bytes: int) -> str:
    """The same of what something is called: one that is cut ends in a digest of the whole, as others may begin alike.

    >>> short_name("a name", 20), short_name("a very long name 1", 16), short_name("a very long name 2", 16)
    ('a name', 'a very l… 1de0', 'a very l… e745')
    """
    told = short(text, most_bytes)
    whole = str(text).encode("utf-8", "replace")
    if told.encode() == whole:
        return told
    digest = hashlib.blake2b(whole, digest_size=_DIGITS // 2).hexdigest()
    return f"{short(text, most_bytes - _DIGITS - 1)} {digest}"


def _bytes(letter: str) -> int:
    """What a character takes inside JSON: a control character is escaped."""
    if letter < " " or letter == "\x7f":
        return 6
    return 2 if letter in '"\\' else len(letter.encode())
