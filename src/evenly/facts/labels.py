"""How keys are called in records: by their names only where the user allows it."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

_BYTES = 5


def _salt() -> bytes:
    return secrets.token_bytes(16)


@dataclass(frozen=True)
class KeyLabels:
    """`names=False`: # and a digest under a secret salt, so that a key can be followed but not guessed from its name.

    The salt is the process's own: after a restart of the driver a key has another digest.

    >>> KeyLabels(names=True).of("Ada"), KeyLabels(salt=b"one").of("Ada") == KeyLabels(salt=b"two").of("Ada")
    ('Ada', False)
    """

    names: bool = False
    salt: bytes = field(default_factory=_salt, repr=False)

    def of(self, name: object) -> str:
        """What a record calls this key."""
        if self.names:
            return str(name)
        told = str(name).encode("utf-8", "surrogatepass")
        return "#" + hashlib.blake2b(told, digest_size=_BYTES, key=self.salt).hexdigest()
