"""The compressed streams that Spark writes, read without a JVM.

Which one it is, the first bytes say: names of files are not to be relied on (`.inprogress`, archives, copies). For zstd,
gzip and bzip2 Arrow has streams. Spark's lz4, snappy and lzf each have a framing of their own (of lz4-java, snappy-java and
compress-lzf), read here block by block: a block is some tens of kilobytes, so memory is bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pyarrow as pa

from evenly.errors import DamagedData

_CHUNK = 1 << 20
_AHEAD = 1 << 17
_BIT = 16
_LZ4 = b"LZ4Block"
_SNAPPY = b"\x82SNAPPY\x00"
_LZF = b"ZV"
_ZSTD = b"\x28\xb5\x2f\xfd"
_GZIP = b"\x1f\x8b"
_BZIP2 = b"BZh"
_ARCHIVES = {
    b"PK\x03\x04": "a zip archive, as the history server hands out: unzip it",
    b"\xfd7zXZ": "packed with xz: unpack it (xz -d)",
    b"7z\xbc\xaf": "a 7z archive: unpack it",
}
_LZ4_HEADER = struct.Struct("<BIII")
_LZ4_STORED = 0x10
_LZ4_PACKED = 0x20


class Truncated(Exception):
    """The stream ends within a block: what came before it is good. Callers take it for the end."""


def compression_of(first: bytes) -> str:
    """The compression of a stream by its first bytes: zstd, gzip, bz2, lz4, snappy, lzf, or none."""
    marks = {"zstd": _ZSTD, "gzip": _GZIP, "bz2": _BZIP2, "lz4": _LZ4, "snappy": _SNAPPY, "lzf": _LZF}
    return next((name for name, mark in marks.items() if first.startswith(mark)), "none")


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """The content of `file`, piece by piece; raises `Truncated` where it breaks off, after all that is whole."""
    first = file.read(16)
    file.seek(0)
    for mark, told in _ARCHIVES.items():
        if first.startswith(mark):
            raise DamagedData(f"it is {told}, and give what was in it")
    return _READERS[compression_of(first)](file)


def _plain(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_CHUNK):
        yield piece


def _by_arrow(compression: str) -> Callable[[BinaryIO], Iterator[bytes]]:
    def read(file: BinaryIO) -> Iterator[bytes]:
        stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), compression)
        done = at = 0
        while True:
            try:
                piece = stream.read(_CHUNK)
            except OSError as error:
                yield _up_to_the_damage(file, compression, done, at)
                raise Truncated(str(error)) from error
            if not piece:
                return
            done, at = done + len(piece), file.tell()
            yield piece

    return read


class _InBits:
    """A file that gives few bytes at a time from a place on, so that what unpacks them gets to the damage and not past it."""

    def __init__(self, file: BinaryIO, place: int) -> None:
        self._file, self._place = file, place
        self.closed = False
        file.seek(0)

    def read(self, size: int = -1) -> bytes:
        left = self._place - self._file.tell()
        return self._file.read(min(size, left) if left > 0 else min(size, _BIT))

    def close(self) -> None:
        """The file is another's to close."""
        self.closed = True


def _up_to_the_damage(file: BinaryIO, compression: str, done: int, at: int) -> bytes:
    """What comes after the first `done` bytes, which are known, and before the damage.

    A read that fails gives nothing of what it had unpacked by then, so the rest is read once more, byte by byte. `at` is up to
    where the file had been read for what is known; Arrow had read ahead no more than `_AHEAD` of it.
    """
    stream = pa.CompressedInputStream(pa.PythonFile(_InBits(file, at - _AHEAD), mode="r"), compression)
    while done > 0:
        done -= len(stream.read(min(done, _CHUNK)))
    rest = bytearray()
    try:
        while byte := stream.read(1):
            rest += byte
    except OSError:
        pass
    return bytes(rest)


def _exactly(file: BinaryIO, size: int) -> bytes:
    piece = file.read(size)
    if len(piece) < size:
        raise Truncated(f"{size - len(piece)} bytes are missing at the end")
    return piece


def _lz4_blocks(file: BinaryIO) -> Iterator[bytes]:
    codec = pa.Codec("lz4_raw")
    while mark := file.read(len(_LZ4)):
        if len(mark) < len(_LZ4):
            raise Truncated("a block's first bytes are missing")
        if mark != _LZ4:
            raise DamagedData("an lz4 block does not begin as it should")
        token, packed, size, _ = _LZ4_HEADER.unpack(_exactly(file, _LZ4_HEADER.size))
        content = _exactly(file, packed)
        if token & 0xF0 == _LZ4_STORED:
            yield content
        elif token & 0xF0 != _LZ4_PACKED:
            raise DamagedData(f"an lz4 block has the unknown method {token & 0xF0:#x}")
        elif size:
            yield codec.decompress(content, decompressed_size=size, asbytes=True)


def _snappy_blocks(file: BinaryIO) -> Iterator[bytes]:
    codec = pa.Codec("snappy")
    while head := file.read(4):
        if len(head) < 4:
            raise Truncated("a block's length is missing")
        if head == _SNAPPY[:4]:  # a stream begins, the first or one that was appended: mark, version, compatible version
            _exactly(file, 12)
            continue
        content = _exactly(file, int.from_bytes(head, "big"))
        yield codec.decompress(content, decompressed_size=_length_within(content), asbytes=True)


def _length_within(content: bytes) -> int:
    """A snappy block begins with its unpacked length, seven bits a byte, the lowest first."""
    length = 0
    for place, byte in enumerate(content[:5]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return length
    raise DamagedData("a snappy block has no length")


def _lzf_blocks(file: BinaryIO) -> Iterator[bytes]:
    while head := file.read(3):
        if len(head) < 3:
            raise Truncated("a block's first bytes are missing")
        if head[:2] != _LZF:
            raise DamagedData("an lzf block does not begin as it should")
        packed = int.from_bytes(_exactly(file, 2), "big")
        if head[2] == 0:
            yield _exactly(file, packed)
        else:
            size = int.from_bytes(_exactly(file, 2), "big")
            try:
                yield _lzf_unpacked(_exactly(file, packed), size)
            except IndexError as error:
                raise DamagedData("an lzf block ends within a copy") from error


def _lzf_unpacked(packed: bytes, size: int) -> bytes:
    """LZF: a control byte below 32 announces that many literals and one more, any other a copy of what came before."""
    out = bytearray()
    place = 0
    while place < len(packed):
        control = packed[place]
        place += 1
        if control < 32:
            out += packed[place : place + control + 1]
            place += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += packed[place]
            place += 1
        start = len(out) - ((control & 0x1F) << 8) - packed[place] - 1
        place += 1
        length += 2
        if start < 0:
            raise DamagedData("an lzf block refers to what is not there")
        seen = out[start : start + length]
        out += (seen * (length // len(seen) + 1))[:length]  # a copy may run into what it writes
    if len(out) != size:
        raise DamagedData(f"an lzf block has {len(out)} bytes and promised {size}")
    return bytes(out)


_READERS: dict[str, Callable[[BinaryIO], Iterator[bytes]]] = {
    "none": _plain,
    "zstd": _by_arrow("zstd"),
    "gzip": _by_arrow("gzip"),
    "bz2": _by_arrow("bz2"),
    "lz4": _lz4_blocks,
    "snappy": _snappy_blocks,
    "lzf": _lzf_blocks,
}
