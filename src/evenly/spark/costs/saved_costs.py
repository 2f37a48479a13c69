"""Cost models, and times of groups, on any path that Spark can read: local, HDFS, an object store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException

from evenly.costs.model import CostModel
from evenly.errors import DamagedData, EvenlyError, MissingFile, UnreadableFile, UnwritableFile
from evenly.files import read_whole
from evenly.spark.features import Feature, require
from evenly.spark.jvm.hadoop_files import Folder, as_it_is
from evenly.spark.jvm.java_errors import Py4JJavaError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""How a path with a scheme begins. Without the slash it is a name with a colon in it (`costs:2024.json`), which Hadoop knows no
path for: such a file is on this machine."""
_COLON_IN_NAME = re.compile(r"[^/]*:")
_WHAT = "a saved CostModel, for costs="
_LONGEST = 300
_MOST_BYTES = 1 << 24


def load_costs(spark: Any, path: str | os.PathLike[str]) -> CostModel:
    """The model that was saved there. A path without a scheme is a local one, or else one of Spark's own file system."""
    return CostModel.from_json(read_saved(spark, path, what=_WHAT), source=os.fspath(path))


def read_saved(spark: Any, path: str | os.PathLike[str], *, what: str) -> bytes:
    """The content of a file that is to be `what`."""
    named = os.fspath(path)
    local = not _SCHEME.match(named)
    if local and (not isinstance(path, str) or _COLON_IN_NAME.match(named) or Path(named).exists()):
        return read_whole(named, what=what)
    return _read_by_spark(spark, named, what)


def save_costs(spark: Any, costs: CostModel, path: str | os.PathLike[str]) -> None:
    """Write a model to any path that Spark can write to, whole or not at all. A path without a scheme is a local one."""
    named = os.fspath(path)
    if not _SCHEME.match(named):
        costs.save(named)
        return
    require(spark, Feature.FOLDERS, by=f"writing {named}", remedy="Save the costs to a local file")
    folder, _, name = named.rpartition("/")
    try:
        Folder(spark, folder).write(name, costs.to_json())
    except (Py4JJavaError, EvenlyError) as error:
        raise UnwritableFile(f"the costs cannot be written to {named}: {_reason(error)}") from error


def _read_by_spark(spark: Any, named: str, what: str) -> bytes:
    """The content of one file, by the data source that every kind of session has."""
    try:
        files = spark.read.format("binaryFile").load(as_it_is(named))
        found = files.select("path", "length").limit(2).collect()
        one = len(found) == 1 and Path(found[0].path).name == Path(named).name
        content = files.select("content").first() if one and found[0].length <= _MOST_BYTES else None
    except (PySparkException, Py4JJavaError) as error:
        if "PATH_NOT_FOUND" in str(error) or "FileNotFoundException" in str(error):
            raise MissingFile(f"there is no file {named}: give the path of {what}") from error
        raise UnreadableFile(f"{named} cannot be read by Spark: {_reason(error)}") from error
    if not one:
        raise UnreadableFile(f"{named} is a folder: give the path of {what}")
    if content is None:
        raise DamagedData(f"{named} has {found[0].length:,} bytes: give the path of {what}")
    return bytes(content[0])


def _reason(error: Exception) -> str:
    """What Java says in one line."""
    java = getattr(error, "java_exception", None)
    text = str(error if java is None else java.toString()).strip().splitlines()[0]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
