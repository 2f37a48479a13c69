"""Links between files of the repository, as links between pages of the site."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

_FENCED = re.compile(r"(^(?P<fence>```+).*?^(?P=fence)[ \t]*$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<open>\]\()(?P<target>[^()\s]+)(?P<close>\))")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|/")


class BrokenLink(ValueError):
    """A link that leads to no page."""


def moved_links(text: str, *, source: str, page: str, pages: Mapping[str, str]) -> str:
    """The text of the file `source` as the page `page`; `pages` says which page a file has become, both from their roots."""

    def moved(found: re.Match[str]) -> str:
        target, hash_sign, anchor = found["target"].partition("#")
        if _ELSEWHERE.match(found["target"]):
            return found[0]
        wanted = os.path.normpath(PurePosixPath(source).parent / target)
        if wanted not in pages:
            raise BrokenLink(f"{source}: the link to {found['target']} leads to no page of the site")
        there = os.path.relpath(pages[wanted], PurePosixPath(page).parent)
        return f"{found['open']}{there}{hash_sign}{anchor}{found['close']}"

    parts = _FENCED.split(text)
    # split gives text, then the two groups of each fenced block: the block, and its fence alone
    kept = [_LINK.sub(moved, part) if at % 3 == 0 else part for at, part in enumerate(parts) if at % 3 != 2]
    return "".join(kept)
