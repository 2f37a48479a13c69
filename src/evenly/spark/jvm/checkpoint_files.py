"""Folders of a checkpoint listed, copied and deleted, on any path that Spark can write to."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession

from evenly.errors import DamagedData


class Files:
    """Files and folders by their path below a folder, through the JVM's Hadoop file systems."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._jvm = cast("Any", spark._jvm)
        self._settings: Any = spark._jsparkSession.sessionState().newHadoopConf()
        self._root = self._jvm.org.apache.hadoop.fs.Path(root)
        self._files = self._root.getFileSystem(self._settings)

    @property
    def scheme(self) -> str:
        """The kind of file system: `file`, `hdfs`, …"""
        return str(self._files.getUri().getScheme())

    def resolved(self, path: str) -> str:
        """The whole path, with its scheme."""
        return str(self._files.makeQualified(self._path(path)).toString())

    def has(self, path: str) -> bool:
        return bool(self._files.exists(self._path(path)))

    def folders(self, path: str) -> list[str]:
        """The names of the folders in a folder; none if there is no such folder."""
        if not self.has(path):
            return []
        found = self._files.listStatus(self._path(path))
        return sorted(status.getPath().getName() for status in found if status.isDirectory())

    def lengths(self, path: str) -> dict[str, int]:
        """The paths of all files below a folder, and their bytes; none if there is no such folder."""
        if not self.has(path):
            return {}
        below = len(str(self._files.makeQualified(self._root).toUri().getPath()).rstrip("/")) + 1
        found, left = {}, self._files.listFiles(self._path(path), True)  # noqa: FBT003 - Java
        while left.hasNext():
            status = left.next()
            found[str(status.getPath().toUri().getPath())[below:]] = int(status.getLen())
        return found

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

    def delete(self, path: str) -> None:
        """Delete a file or a whole folder; nothing if there is none."""
        if self.has(path):
            self._check(self._files.delete(self._path(path), True), f"delete {path}")  # noqa: FBT003 - Java

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, path)

    def _check(self, done: Any, what: str) -> None:
        if not done:
            raise DamagedData(f"could not {what} in {self._root.toString()}: see that the folder can be written to")
