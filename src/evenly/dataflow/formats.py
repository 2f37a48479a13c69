"""What the formats of sinks are good for: which of them hold every row once, whatever is run again."""

from __future__ import annotations

from evenly.dataflow.graph import Dataflow, Operator

FILES = ("parquet", "orc", "json", "csv", "avro", "text", "xml")
"""Formats that are folders: of a stream each batch has a folder of its own in them, which is written anew if the batch is."""
SENT = ("tcp", "http")


def is_once(one: Operator) -> bool:
    """Whether a sink has every row once, also if Spark runs a batch again."""
    return one.format in FILES and not one.function and one.options.get("mode", "").lower() != "append"


def check_once(flow: Dataflow) -> None:
    """Refuse sinks that may get rows twice, where exactly once was asked for."""
    for one in flow.operators:
        if one.kind == "sink" and not is_once(one):
            what = "has a function, of which nobody knows" if one.function else f"is {one.format}, which may get rows twice"
            raise flow.error(
                f"exactly once was asked for, and the sink {one.name!r} {what}: write files ({', '.join(FILES[:4])}), or leave "
                "exactly_once out",
                one,
            )


def told_sink(one: Operator) -> str:
    """What a sink does with its rows."""
    if one.function:
        return "your function of a DataFrame and the number of its batch, which is called again if Spark runs a batch again"
    if is_once(one):
        return f"{one.format}, every row once: a folder for each batch of a stream, written anew if Spark runs the batch again"
    if one.format in SENT:
        return f"sent by {one.format}, paced by {one.options.get('policy', 'nobody')}; at least once, by one identity"
    return f"{one.format}, at least once"
