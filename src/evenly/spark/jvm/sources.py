"""What a streaming query reads, from its analysed plan."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


def streaming_sources(df: DataFrame) -> list[tuple[str, dict[str, str]]]:
    """The format and the options of every streaming source in a plan; an unknown kind of leaf has no name."""
    jvm: Any = df.sparkSession._jvm
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    found = []
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        kind = leaf.getClass().getSimpleName()
        if not leaf.isStreaming():
            continue
        if kind == "StreamingRelation":
            options = dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(leaf.dataSource().options()))
            name = leaf.dataSource().className()
        elif kind == "StreamingRelationV2":
            options, name = dict(leaf.extraOptions().asCaseSensitiveMap()), leaf.sourceName()
        else:
            options, name = {}, ""
        found.append((str(name), {key.lower(): str(value) for key, value in options.items()}))
    return found
