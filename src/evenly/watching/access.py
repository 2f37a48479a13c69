"""Who may read a live page: decided from a request's headers alone."""

from __future__ import annotations

import hmac
import ipaddress
import re
from dataclasses import dataclass

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?", re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """What a browser says of a request; empty: nothing."""

    host: str
    origin: str = ""
    site: str = ""
    mode: str = ""
    token: str = ""


@dataclass(frozen=True)
class Access:
    """Requests that came by one of these `names`, from a page of this server, with the `token` if there is one.

    A name that is not ours is one that somebody else has pointed at this machine: so a page of his could read what his name
    serves. An address in digits cannot be pointed elsewhere, and is taken where a token is asked for.
    """

    names: frozenset[str] = LOOPBACK
    token: str | None = None

    def refusal(self, asked: Asked, *, document: bool) -> tuple[int, str] | None:
        """Status and reason, if the request is not to be answered. `document`: the page itself, to which links may lead."""
        name = _name(asked.host)
        if name is None or not (name in self.names or (self.token is not None and _is_address(name))):
            return 421, "this name is not served here: open the address that evenly watch has printed"
        if asked.origin and asked.origin.lower() not in (f"http://{asked.host}".lower(), f"https://{asked.host}".lower()):
            return 403, "pages of other origins may not read this one"
        opened = document and asked.mode == "navigate"
        if asked.site not in ("", "none", "same-origin") and not opened:
            return 403, "pages of other sites may not read this one"
        if self.token is not None and not hmac.compare_digest(asked.token.encode(), self.token.encode()):
            return 401, "open the address with its token, as evenly watch has printed it"
        return None


def _name(host: str) -> str | None:
    found = _HOST.fullmatch(host)
    return None if found is None else (found[1] or found[2]).lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address."""
    return address.lower() == "localhost" or (_is_address(address) and ipaddress.ip_address(address).is_loopback)
