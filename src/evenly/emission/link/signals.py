"""Waiting for a 32-bit word in shared memory to change, across processes.

On Linux this is a futex: a process that waits costs nothing until it is woken or its time is up, and it runs at once when
it is. Elsewhere the word is looked at every millisecond.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
import time
from array import array

_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
"""The number of the futex system call by kind of processor."""
_WAIT, _WAKE = 0, 1
_POLL_S = 0.001


def _futex_number() -> int | None:
    wide = ctypes.sizeof(ctypes.c_void_p) == 8
    return _NUMBERS.get(platform.machine()) if sys.platform == "linux" and wide else None


_NUMBER = _futex_number()
_futex = None
if _NUMBER is not None:
    _futex = ctypes.CDLL(None).syscall
    _futex.argtypes = (
        *(ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32),
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32),
    )
    _futex.restype = ctypes.c_long


class Word:
    """One word of a mapped file that processes can wait on, one thread at a time. `offset` must be a multiple of 4."""

    def __init__(self, memory: mmap.mmap, offset: int) -> None:
        # All of it made once and in the cheapest way: this runs a hundred times per second, out of cold caches.
        self._cell = memoryview(memory)[offset : offset + 4].cast("I")
        self._kept = ctypes.c_uint32.from_buffer(memory, offset)
        self._address = ctypes.c_void_p(ctypes.addressof(self._kept))
        self._limit = array("q", (0, 0))
        self._limit_address = ctypes.c_void_p(self._limit.buffer_info()[0])

    @property
    def value(self) -> int:
        return self._cell[0]

    def set(self, value: int) -> None:
        """Write the word, and wake all who wait on it."""
        self._cell[0] = value & 0xFFFFFFFF
        if _futex is not None:
            _futex(_NUMBER, self._address, _WAKE, 2**31 - 1, None, None, 0)

    def clear(self) -> None:
        """Write 0; nobody waits for that."""
        self._cell[0] = 0

    def change(self) -> None:
        """Give the word another value, whichever, and wake all who wait on it."""
        self.set(self._cell[0] + 1)

    def wait(self, while_value: int, timeout_s: float) -> None:
        """Return when the word is not `while_value` any more, or after `timeout_s`, or earlier for no reason."""
        if timeout_s <= 0.0 or self._cell[0] != while_value:
            return
        if _futex is None:
            self._poll(while_value, timeout_s)
            return
        self._limit[0], self._limit[1] = divmod(int(timeout_s * 1e9), 1_000_000_000)
        _futex(_NUMBER, self._address, _WAIT, while_value, self._limit_address, None, 0)

    def _poll(self, while_value: int, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        while self._cell[0] == while_value and (left := until - time.monotonic()) > 0.0:
            time.sleep(min(_POLL_S, left))
