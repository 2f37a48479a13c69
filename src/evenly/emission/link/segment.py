"""The piece of shared memory in which the queues of one link are registered, and the locks that say who is alive.

It is a small file (in /dev/shm where there is one) that every process maps. A process holds a lock on a byte for each of
its queues and for the term in which it leads: the kernel takes locks back when a process ends, however it ends, so nobody
has to guess from process numbers or heartbeats who is dead. All of it is record locks: they are not inherited by
a fork, and one process has them all, so a process opens the file of a link once (`opened`) and never closes it while
another descriptor of the same file is in use: closing any would drop them all.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import stat
import sys
import tempfile
import time
from pathlib import Path
from struct import Struct
from threading import Lock

from evenly.emission.link.signals import Word
from evenly.errors import DamagedData, InvalidParameter, LinkUnavailable

MOST_QUEUES = 2_048
"""Of one link, over all processes; those that come later send without waiting for their turn."""

_MAGIC, _VERSION = 0x65_76_65_6E_6C_79_51, 2
_SQUATTED_NAMES = 16
_HEADER_BYTES, _ROW_BYTES = 1024, 128
_SIZE = _HEADER_BYTES + MOST_QUEUES * _ROW_BYTES
_FREE = memoryview(bytes(_ROW_BYTES)).cast("q")
_KICK_AT, _VACANT_AT, _NAME_AT, _SIGNAL_AT = 256, 320, 512, 64
_NAME_BYTES = 64

MAGIC, VERSION, INTERVAL_NS, TERM, DUE_NS, LEADER, TICKS, HEIR, OTHERS, MEMBERS, IDLE, PLACES = range(12)
"""Places of the header. The leader gives its next sign by `DUE_NS`; `OTHERS` is how many queues waited beside the chosen one at
the last decision; `MEMBERS` changes when a queue comes or goes; `IDLE` is 1 while the leader sleeps because nothing waits;
`PLACES` is how many places have ever been taken, from the first."""
FULL = -1
PID, TUPLES, BYTES, HEAD_NS, SPEED, SENT = range(6)
"""Places of a queue's row; a row without a process is free."""

_GATE, _QUEUES, _TERMS = 1 << 19, 1 << 20, 1 << 40
"""Bytes that are locked, all beyond the end of the file: joining and leaving, one per queue, one per term."""
_GATE_LIMIT_S = 5.0
_FLOCK = Struct("hhqqi0q")
"""The kernel's struct flock, as 64-bit Linux has it."""
_UNLOCKED = fcntl.F_UNLCK.to_bytes(2, sys.byteorder)
_ASKABLE = sys.platform == "linux" and sys.maxsize > 2**32
_LINK = re.compile(r"[A-Za-z0-9._-]{1,64}")


def segment_path(link: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Where the memory of a link is: /dev/shm, or the folder of temporary files; one for each user."""
    if not isinstance(link, str) or not _LINK.fullmatch(link):
        raise InvalidParameter(f"link must be 1 to 64 letters, digits, dots, dashes or underlines, got {link!r}")
    place = Path("/dev/shm") if folder is None else Path(folder)  # noqa: S108 - shared memory is what it is for
    if folder is None and not os.access(place, os.W_OK):
        place = Path(tempfile.gettempdir())
    return place / f"{prefix()}{link}.link"


def prefix() -> str:
    """How the files of this user begin; another release with another layout has files of its own."""
    return f"evenly-{os.getuid()}-v{_VERSION}-"


def own_path(path: Path) -> Path:
    """`path`, or beside it the first name that nobody else has put a file under: a link, a folder, a file of another user."""
    for number in range(_SQUATTED_NAMES):
        candidate = path.with_name(f"{path.stem}.{number}{path.suffix}") if number else path
        try:
            found = candidate.lstat()
        except FileNotFoundError:
            return candidate
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid():
            return candidate
    raise LinkUnavailable(f"{path} and {_SQUATTED_NAMES - 1} names beside it belong to others: name another link or folder")


class Segment:
    """One link's memory, mapped by this process. Made by `Segment.open`; used under the mutex of `links`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.pid = os.getpid()
        self._descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)
        # Views of 64-bit numbers: to read one costs less than with numpy, and that is what happens here all the time.
        cells = memoryview(self._memory).cast("q")
        width = _ROW_BYTES // 8
        self.header = cells[: _HEADER_BYTES // 8]
        self.rows = [cells[start : start + width] for start in range(_HEADER_BYTES // 8, len(cells), width)]
        self.kick = Word(self._memory, _KICK_AT)
        self.vacant = Word(self._memory, _VACANT_AT)
        self.own: set[int] = set()
        self._places = Lock()  # a lock of this process cannot be told from being free: `own` and locks change together

    @classmethod
    def open(cls, path: Path, *, create: bool = True) -> Segment | None:
        """Map the file; nothing is joined yet. If there is none it is made, or None returned; None too if it is not ours."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0), 0o600)
        except FileNotFoundError as error:
            if not create:
                return None
            raise LinkUnavailable(f"there is no folder {path.parent} for shared memory: make it, or name another") from error
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.ELOOP, errno.EISDIR) and os.access(path.parent, os.W_OK):
                return None  # somebody else's since we looked
            raise LinkUnavailable(
                f"the shared memory {path} cannot be opened: {error.strerror}; name another folder"
            ) from error
        try:
            _enter_gate(descriptor, path)
            _make_room(descriptor, path)
            segment = cls(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        _release(descriptor, _GATE)
        return segment

    def is_current(self) -> bool:
        """Whether the path still leads here: whoever leaves last removes the file."""
        try:
            there = self.path.stat()
        except OSError:
            return False
        here = os.fstat(self._descriptor)
        return (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev)

    def join(self, interval_ns: int, policy: str) -> int | None:
        """Register a queue and return its place; None if the file was removed meanwhile, `FULL` if there is no place.

        The first to come decides on the interval and the policy. What a crashed run left is cleared.
        """
        self._enter_gate()
        try:
            if not self.is_current():
                return None
            if not self.own and self._take(_QUEUES, MOST_QUEUES):
                self._release(_QUEUES, MOST_QUEUES)
                self._clear(interval_ns, policy)
            for place in range(MOST_QUEUES):
                with self._places:
                    if place in self.own or not self._take(_QUEUES + place):
                        continue
                    self.own.add(place)
                self.rows[place][:] = _FREE
                self.rows[place][PID] = os.getpid()
                self.header[PLACES] = max(self.header[PLACES], place + 1)
                self.header[MEMBERS] += 1
                self.kick.change()  # the leader may sleep
                return place
        finally:
            self._release(_GATE)
        return FULL

    def leave(self, place: int) -> bool:
        """Give a place back; the last one of all processes removes the file. Whether it was the last of this process."""
        self.rows[place][PID] = 0
        self.header[MEMBERS] += 1
        with self._places:
            self.own.discard(place)
            self._release(_QUEUES + place)
        if self.own:
            return False
        try:
            self._enter_gate()
        except LinkUnavailable:
            return True  # Somebody hangs in the gate: the file stays, and the next to come clears it.
        try:
            if self._take(_QUEUES, MOST_QUEUES):
                if self.is_current():
                    self.path.unlink(missing_ok=True)
                self._release(_QUEUES, MOST_QUEUES)
        finally:
            self._release(_GATE)
        return True

    def live(self) -> list[int]:
        """The places at which a queue is registered."""
        return [place for place, row in enumerate(self.rows[: self.header[PLACES]]) if row[PID]]

    def abandoned(self) -> bool:
        """Remove the file if no process has a queue here, and say so."""
        self._enter_gate()
        try:
            if not self._take(_QUEUES, MOST_QUEUES):
                return False
            if self.is_current():
                self.path.unlink(missing_ok=True)
            self._release(_QUEUES, MOST_QUEUES)
            return True
        finally:
            self._release(_GATE)

    def signal(self, place: int) -> Word:
        """The word that says whether a queue may send: 1, or 0."""
        return Word(self._memory, _HEADER_BYTES + place * _ROW_BYTES + _SIGNAL_AT)

    @property
    def interval_ns(self) -> int:
        return self.header[INTERVAL_NS]

    @property
    def policy(self) -> str:
        name = bytes(self._memory[_NAME_AT : _NAME_AT + _NAME_BYTES])
        return name.rstrip(b"\0").decode("ascii", "replace")

    def drop_if_dead(self, place: int) -> bool:
        """Forget a registered queue if its process has ended, and say so."""
        with self._places:
            if place in self.own or _taken(self._descriptor, _QUEUES + place) or not self._take(_QUEUES + place):
                return False
            self.rows[place][:] = _FREE
            self._release(_QUEUES + place)
            return True

    def take_term(self, term: int) -> bool:
        """Try to become the one who leads in a term."""
        return not _taken(self._descriptor, _TERMS + term) and self._take(_TERMS + term)

    def release_term(self, term: int) -> None:
        self._release(_TERMS + term)

    def dispose(self) -> None:
        """Close the file. Only for one that the path does not lead to any more: see above."""
        os.close(self._descriptor)

    def _clear(self, interval_ns: int, policy: str) -> None:
        self._memory[:] = bytes(_SIZE)
        name = policy.encode("ascii", "replace")[:_NAME_BYTES]
        self._memory[_NAME_AT : _NAME_AT + len(name)] = name
        self.header[VERSION] = _VERSION
        self.header[INTERVAL_NS] = interval_ns
        self.header[HEIR] = -1
        self.header[MAGIC] = _MAGIC

    def _enter_gate(self) -> None:
        _enter_gate(self._descriptor, self.path)

    def _take(self, start: int, length: int = 1) -> bool:
        return _take(self._descriptor, start, length)

    def _release(self, start: int, length: int = 1) -> None:
        _release(self._descriptor, start, length)


def _enter_gate(descriptor: int, path: Path) -> None:
    """Wait until nobody else joins or leaves; whoever dies in the gate is out of it."""
    until = time.monotonic() + _GATE_LIMIT_S
    while not _take(descriptor, _GATE):
        if time.monotonic() > until:
            raise LinkUnavailable(f"a process has been joining {path} for {_GATE_LIMIT_S:g} s: end it, or use another link")
        time.sleep(0.0005)


def _make_room(descriptor: int, path: Path) -> None:
    """Give a new file its size; refuse one that is not ours."""
    found = os.fstat(descriptor)
    ours = os.pread(descriptor, 8, 0) in (_MAGIC.to_bytes(8, sys.byteorder), bytes(8), b"")
    if found.st_uid != os.getuid() or not ours:
        raise DamagedData(f"{path} is not Evenly's: remove it, or name another link or folder")
    if found.st_size >= _SIZE:
        return
    try:
        # Written, not only stretched: a full file system shows here, and not as a crash at the first use.
        room = os.pwrite(descriptor, bytes(_SIZE - found.st_size), found.st_size)
        if room < _SIZE - found.st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 - as a write of nothing would say
    except OSError as error:
        path.unlink(missing_ok=True)
        raise LinkUnavailable(
            f"there is no room for {_SIZE} bytes of shared memory at {path}: {error.strerror}; "
            "free some, or name another folder"
        ) from error


def _take(descriptor: int, start: int, length: int = 1) -> bool:
    """Lock bytes if no other process has any of them."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def _taken(descriptor: int, start: int) -> bool:
    """Whether another process is known to have locked a byte. To ask costs less than to try in vain."""
    if not _ASKABLE:
        return False
    told = fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, 1, 0))
    return not told.startswith(_UNLOCKED)


def _release(descriptor: int, start: int, length: int = 1) -> None:
    fcntl.lockf(descriptor, fcntl.LOCK_UN, length, start)
