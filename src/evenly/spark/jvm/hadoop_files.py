"""Files in a folder on any path that Spark can write to: local, HDFS, an object store."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
import uuid
from contextlib import suppress
from functools import cached_property
from typing import Any, cast

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evenly.errors import DamagedData, InvalidParameter, UnreadableFile, UnwritableFile

_LOG = logging.getLogger(__name__)
_GLOB = re.compile(r"([\\{}\[\]*?])")
_HOST = re.compile(r"(?:file:)?//([^/]+)", re.IGNORECASE)
"""A local path that begins with two slashes: what follows them is a host's name."""
_LOCAL = frozenset({"org.apache.hadoop.fs.LocalFileSystem", "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem"})
_PUTTING = threading.Lock()
_PAUSES_S = (0.01, 0.05)


def as_it_is(path: str) -> str:
    """A path for `spark.read`, which takes brackets, braces, stars and question marks in it for a pattern of names.

    >>> as_it_is("/data/run[1]")
    '/data/run\\\\[1\\\\]'
    """
    return _GLOB.sub(r"\\\1", path)


def located(spark: SparkSession, path: str, settings: Any = None) -> tuple[Any, Any]:
    """A path as Hadoop's object of it, and the file system that it is on; `settings` are those of the session by default."""
    if host := _HOST.match(path):
        rest = path[host.start(1) :]
        raise InvalidParameter(
            f"{path!r} is on a host called {host.group(1)!r}, because two slashes begin a host's name: write '/{rest}' or "
            f"'file:///{rest}'"
        )
    java: Any = spark
    settings = java._jsparkSession.sessionState().newHadoopConf() if settings is None else settings
    try:
        at = _java_path(spark)(path)
    except (Py4JJavaError, PySparkException) as error:
        raise InvalidParameter(
            f"{path!r} is not a path that Spark can read ({_reason(error)}): a colon in the first part of a path begins a file "
            "system's name, so write it as a whole path, such as /data/visits"
        ) from error
    try:
        return at, at.getFileSystem(settings)
    except (Py4JJavaError, PySparkException) as error:
        raise UnreadableFile(
            f"{path!r} is on a file system that this Spark cannot reach ({_reason(error)}): add its jars and settings to the "
            "session, or give a path on another one"
        ) from error


def _java_path(spark: SparkSession) -> JavaClass:
    """Hadoop's class of paths, without the five calls of the JVM that it takes to follow its name from package to package."""
    return JavaClass("org.apache.hadoop.fs.Path", spark._jsparkSession._gateway_client)


def _reason(error: Exception) -> str:
    """What Java says, in one line."""
    java = getattr(error, "java_exception", None)
    return str(error if java is None else java.toString()).strip().splitlines()[0]


class Folder:
    """A folder reached through the JVM's Hadoop file systems; what is in it goes by its name, or its path below the folder.

    A file in it is written whole or not at all.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path
        self._spark = spark
        self._jvm = cast("Any", spark._jvm)
        self._settings: Any = spark._jsparkSession.sessionState().newHadoopConf()
        self._at, self._files = located(spark, path, self._settings)
        self._java_path = _java_path(spark)

    def child(self, name: str) -> Folder:
        """A folder in this one."""
        return Folder(self._spark, f"{self.path.rstrip('/')}/{name}")

    @property
    def scheme(self) -> str:
        """The kind of file system: `file`, `hdfs`, …"""
        return str(self._files.getUri().getScheme())

    @property
    def whole_path(self) -> str:
        """The folder with its scheme, the same for all spellings of it that Hadoop takes for one; on a local disk also for
        symbolic links to it."""
        whole = self._files.makeQualified(self._at)
        return f"file:{os.path.realpath(str(whole.toUri().getPath()))}" if self.scheme == "file" else str(whole.toString())

    @cached_property
    def is_plain(self) -> bool:
        """Whether it is on a local disk of POSIX and reached in Hadoop's usual way: Python finds it at `whole_path` then."""
        return os.name == "posix" and str(self._files.getClass().getName()) in _LOCAL

    def resolved(self, path: str) -> str:
        """The whole path, with its scheme."""
        return str(self._files.makeQualified(self._path(path)).toString())

    def names(self) -> list[str]:
        """The names of the files in it, without hidden ones; none if there is no such folder."""
        return list(self.sizes_bytes())

    def sizes_bytes(self) -> dict[str, int]:
        """The length of every file in it by its name, without hidden ones; none if there is no such folder."""
        found = {status.getPath().getName(): int(status.getLen()) for status in self._listed(self._at)}
        return {name: found[name] for name in sorted(found) if not name.startswith(".")}

    def size_bytes(self, name: str) -> int | None:
        """The length of a file; None if there is none."""
        try:
            return int(self._files.getFileStatus(self._path(name)).getLen())
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() == "FileNotFoundException":
                return None
            raise

    def folders(self, path: str) -> list[str]:
        """The names of the folders in a folder; none if there is no such folder."""
        return sorted(status.getPath().getName() for status in self._listed(self._path(path)) if status.isDirectory())

    def lengths(self, path: str) -> dict[str, int]:
        """The paths of all files below a folder, and their bytes; none if there is no such folder."""
        if not self.has(path):
            return {}
        below = len(str(self._files.makeQualified(self._at).toUri().getPath()).rstrip("/")) + 1
        found, left = {}, self._files.listFiles(self._path(path), True)  # noqa: FBT003 - Java
        while left.hasNext():
            status = left.next()
            found[str(status.getPath().toUri().getPath())[below:]] = int(status.getLen())
        return found

    def has(self, name: str) -> bool:
        return bool(self._files.exists(self._path(name)))

    def read(self, name: str, *, checked_by_caller: bool = False) -> bytes:
        """What is in a file; an error of Hadoop's (a Java IOException, as Py4JJavaError) if it cannot be read.

        On a local disk Hadoop keeps a checksum of each file in `.name.crc`, which a file that was restored or edited with
        other tools no longer fits. That is told as such, or passed over where the caller compares the content with a checksum
        of its own (`checked_by_caller`).
        """
        for again in (*_PAUSES_S, None):
            try:
                return self._read(self._files, name)
            except Py4JJavaError as error:
                if error.java_exception.getClass().getSimpleName() != "ChecksumException":
                    raise
                if again is not None:  # it may have been replaced while it was read
                    time.sleep(again)
                elif not checked_by_caller:
                    raise DamagedData(
                        f"{self.path}/{name} does not fit the checksum in .{name}.crc beside it: delete .{name}.crc if you "
                        f"have restored or edited {name} yourself, else restore {name} from a backup"
                    ) from error
        _LOG.warning("%s/%s does not fit the checksum in .%s.crc beside it, and is read without it", self.path, name, name)
        return self._read(self._plain_files or self._files.getRawFileSystem(), name)

    def _read(self, files: Any, name: str) -> bytes:
        stream = files.open(self._path(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write under another name, then rename over `name`: a reader sees the old content or the new, never a part."""
        try:
            self._write(name, text, self._rename.OVERWRITE)
        except Py4JJavaError as error:
            raise self._unwritable(name, error) from error

    @cached_property
    def _plain_files(self) -> Any:
        """The files of a local disk of POSIX as they are, without Hadoop's checksums; None for other file systems.

        There plain `rename` puts a file in another's place. Hadoop's way to overwrite starts processes (`stat`, `readlink`) and
        removes the old file before. Hive has a local file system of its own, and which of both a session has is by chance.
        """
        if not self.is_plain:
            return None
        plain = self._jvm.org.apache.hadoop.fs.RawLocalFileSystem()
        plain.initialize(self._jvm.java.net.URI("file:///"), self._settings)
        return plain

    def make(self, name: str, text: str) -> bool:
        """Write a file that is not there yet, whole; whether it was so. One that is there stays as it is."""
        try:
            self._write(name, text, self._rename.NONE)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() == "FileAlreadyExistsException":
                return False
            raise self._unwritable(name, error) from error
        return True

    def _unwritable(self, name: str, error: Py4JJavaError) -> UnwritableFile:
        return UnwritableFile(
            f"{self.path}/{name} cannot be written ({_reason(error)}): see that there is room on its disk, and that you may "
            "write to the folder"
        )

    @property
    def _rename(self) -> Any:
        return self._jvm.org.apache.hadoop.fs.Options.Rename

    def _write(self, name: str, text: str, how: Any) -> None:
        partial = self._path(f".{name}.{uuid.uuid4().hex}")
        try:
            stream = self._files.create(partial, True)  # noqa: FBT003 - Java
            try:
                stream.write(text.encode())
            finally:
                stream.close()
            if how.name() == "OVERWRITE" and self._plain_files is not None and not self._files.isDirectory(self._path(name)):
                self._put(partial, name)
            else:
                self._renamed(partial, self._path(name), how)
        except BaseException:
            with suppress(Py4JJavaError):  # a disk that is full stays so with half a file on it
                self._files.delete(partial, False)  # noqa: FBT003 - Java
            raise

    def _put(self, partial: Any, name: str) -> None:
        """Rename on a local disk. No checksum is beside a file that it is not of, also not after a crash between two steps."""
        checksum, target = self._path(f".{partial.getName()}.crc"), self._path(f".{name}.crc")
        with _PUTTING:
            self._plain_files.delete(target, False)  # noqa: FBT003 - Java
            self._check(self._plain_files.rename(partial, self._path(name)), f"put {name} in its place")
            if self._plain_files.exists(checksum):
                self._check(self._plain_files.rename(checksum, target), f"put {target.getName()} in its place")

    def _renamed(self, source: Any, target: Any, how: Any) -> None:
        gateway: Any = self._spark.sparkContext._gateway
        ways = gateway.new_array(self._rename, 1)
        ways[0] = how
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._files.getUri(), self._settings)
        context.rename(self._files.makeQualified(source), self._files.makeQualified(target), ways)

    def copy(self, source: str, target: str) -> None:
        """Copy a file or a whole folder; nothing if there is none."""
        if self.has(source):
            to = self._path(target)
            self._files.mkdirs(to.getParent())
            copied = self._jvm.org.apache.hadoop.fs.FileUtil.copy(
                self._files,
                self._path(source),
                self._files,
                to,
                False,  # noqa: FBT003 - Java
                True,  # noqa: FBT003 - Java
                self._settings,
            )
            self._check(copied, f"copy {source} to {target}")

    def rename(self, source: str, target: str) -> None:
        """Give a file or a whole folder another name, which nothing has yet."""
        self._check(self._files.rename(self._path(source), self._path(target)), f"rename {source} to {target}")

    def replace(self, source: str, target: str) -> None:
        """Put a whole folder where another one may be. Of two at once one fails: none is put into the other, as by `rename`."""
        self.remove(target)
        try:
            self._renamed(self._path(source), self._path(target), self._rename.NONE)
        except Py4JJavaError as error:
            raise self._unwritable(target, error) from error

    def remove(self, path: str) -> None:
        """Remove a file or a whole folder; nothing if there is none."""
        if self.has(path):
            self._check(self._files.delete(self._path(path), True) or not self.has(path), f"delete {path}")  # noqa: FBT003 - Java

    def _listed(self, path: Any) -> Any:
        return self._files.listStatus(path) if self._files.exists(path) else ()

    def _path(self, name: str) -> Any:
        return self._java_path(self._at, name)

    def _check(self, done: Any, what: str) -> None:
        if not done:
            raise DamagedData(f"could not {what} in {self.path}: see that the folder can be written to")
