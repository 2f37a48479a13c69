"""Checkpoints as Spark's readers of state find them, whatever their path is.

The source `statestore` writes a path as a URI and then takes that text for a path again, so a space in it becomes the three
characters `%20`, and the folder is not found. Such a folder gets a second name without them: Hadoop's file system `viewfs` has
a table of folders with names of their own, which is a setting, here of a session that only reads this state. What is read
there is the folder itself, on whichever file system it is; nothing is copied, and no other session knows the name.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from evenly.spark.jvm.hadoop_files import located

_NAME = "/checkpoint"
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_STREAMING = "org.apache.spark.sql.execution.streaming"
_MANAGERS = tuple(f"{_STREAMING}{package}.FileSystemBasedCheckpointFileManager" for package in (".checkpointing", ""))
"""Where releases of Spark have it. The other manager asks Hadoop in another way, by which `viewfs` loses such paths too."""


def own_session(spark: SparkSession) -> SparkSession:
    """A session with the settings of another one, which may be changed without a change to that one."""
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def readable(spark: SparkSession, path: str) -> tuple[SparkSession, str]:
    """The session and the path by which a checkpoint is read: those given, wherever these do."""
    if not _is_lost(spark, _qualified(spark, path)):
        return spark, path
    session = own_session(spark)
    return session, readable_in(session, path)


def readable_in(session: SparkSession, path: str) -> str:
    """The path by which a checkpoint is read in a session that was made for that; its settings may be changed."""
    whole = _qualified(session, path)
    if not _is_lost(session, whole):
        return path
    uri = str(whole.toUri().toString())
    # Hadoop keeps a file system by its name, with the table that it had at first: so every folder has one of its own.
    table = f"evenly-{hashlib.sha256(uri.encode()).hexdigest()[:32]}"
    session.conf.set(f"fs.viewfs.mounttable.{table}.link.{_NAME}", uri)
    session.conf.set(_MANAGER, next(filter(partial(_is_there, session), _MANAGERS)))
    return f"viewfs://{table}{_NAME}"


def _qualified(spark: SparkSession, path: str) -> Any:
    at, files = located(spark, path)
    return files.makeQualified(at)


def _is_there(spark: SparkSession, name: str) -> bool:
    found: Any = spark._jvm
    for part in name.split("."):
        found = getattr(found, part)
    return isinstance(found, JavaClass)


def _is_lost(spark: SparkSession, whole: Any) -> bool:
    """Whether a path is another one once it was written as a URI."""
    java: Any = spark._jvm
    uri = whole.toUri()
    return bool(java.org.apache.hadoop.fs.Path(uri.toString()).toUri().getPath() != uri.getPath())
