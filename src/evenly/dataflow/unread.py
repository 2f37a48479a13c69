"""Why a source could not be read: what Spark says, in the words of a description, with the remedy."""

from __future__ import annotations

import re

from evenly.dataflow.graph import Operator

_PATTERN = re.compile(r"[*?\[{]")
_ERROR = re.compile(r"(?:^|[\s:])\[([A-Z_]+(?:\.[A-Z_]+)*)\]")
_CLASS = re.compile(r"^:?\s*(?:[a-z]\w*\.)+[A-Z]\w*:\s*")
_LOOKED = re.compile(r"Path does not exist: (?:file:(?=/))?(\S+?)\.?(?:\s|$)")
_LONGEST = 400
_JARS = "(--conf spark.jars.packages=…)"
_WHY = {
    "PATH_NOT_FOUND": "there is nothing at {path}: correct its `path`, or make the folder and give the source a `schema`",
    "UNABLE_TO_INFER_SCHEMA": "there is no file at {path} yet that says which columns there are: give the source a `schema`, "
    "or write the first file before",
    "TABLE_OR_VIEW_NOT_FOUND": "this session has no table or view {path}: correct its `path`, or add the catalog that has it "
    "(--conf)",
    "KAFKA_DATA_SOURCE_NOT_ENABLED": "this Spark has no kafka: add its jars (--conf spark.jars.packages="
    "org.apache.spark:spark-sql-kafka-0-10_2.13:… with the version of your Spark)",
    "DATA_SOURCE_NOT_FOUND": f"Spark knows no format {{format!r}}: correct it, or add the jars that have it {_JARS}",
    "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER": "a file at {path} is not of the format {format}, or is damaged: remove it, or "
    "give the format that it has",
}
_NO_MATCH = "nothing matches the pattern {path}: correct its `path`, or write the first files before"
_NO_REPLAY = "there are no Parquet files at {path}: a replay needs some before it starts"
_STREAM_ONLY = "{format} can be read as a stream only: give a checkpoint, or another source for a batch"


def why_unread(one: Operator, said: str) -> str:
    """One sentence of what Spark `said` of a source. What is not known here is its first line."""
    named = _ERROR.search(said)
    condition = named[1] if named else ""
    why = _WHY.get(condition, _STREAM_ONLY if "is not a valid Spark SQL Data Source" in said else "")
    if condition == "PATH_NOT_FOUND" and _PATTERN.search(one.path):
        why = _NO_MATCH
    elif condition in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA") and one.format == "replay":
        why = _NO_REPLAY
    looked = _LOOKED.search(said)  # of a relative path Spark says in which folder it looked
    kind = "parquet" if one.format == "replay" else one.format
    return why.format(path=looked[1] if looked else one.path, format=kind) or _first(said)


def _first(said: str) -> str:
    """The first line that says something, without names of classes."""
    lines = [line.strip() for line in said.splitlines()]
    told = next((line for line in lines if line and not line.startswith("An error occurred while calling ")), "without a word")
    return _CLASS.sub("", told)[:_LONGEST]
