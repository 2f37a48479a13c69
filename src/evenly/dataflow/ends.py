"""Sources and sinks of a dataflow: what each format needs, which sinks hold every row once, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping

from evenly.dataflow.graph import Dataflow, Operator
from evenly.dataflow.replay import replay_options
from evenly.errors import InvalidDataflow

FILES = ("parquet", "orc", "json", "csv", "avro", "text", "xml")
"""Formats that are folders: of a stream each batch has a folder of its own in them, which is written anew if the batch is."""
SENT = ("tcp", "http")
TABLE, KAFKA, CONSOLE, REPLAY = "table", "kafka", "console", "replay"
_ADDED, _NOWHERE = "append", "noop"
_MODES = ("append", "overwrite", "error", "errorifexists", "ignore")
_PACED = ("column", "link", "policy")
_TAKES: Mapping[str, tuple[str, ...]] = {
    "tcp": ("host", "port", *_PACED),
    "http": ("url", *_PACED),
    CONSOLE: ("rows",),
}
"""Options of the formats that are ours: Spark's own take what they know, and say nothing of the rest."""
_NEEDS: Mapping[str, tuple[str, ...]] = {"tcp": ("host", "port"), "http": ("url",), KAFKA: ("kafka.bootstrap.servers",)}
_NUMBERS = {"port": 65_535, "rows": 2**31 - 1}
_SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")


def check_ends(flow: Dataflow, *, exactly_once: bool = False) -> None:
    """Refuse a source or a sink that says too little, or a sink that cannot hold every row once where that is asked.

    It is asked by `exactly_once` of the sink, or for all sinks by the argument.
    """
    for one in flow.operators:
        if one.kind in ("source", "sink"):
            _check(flow, one)
        if one.kind == "sink" and (one.exactly_once or exactly_once):
            _check_once(flow, one)
    _check_tables(flow)
    if exactly_once or any(one.exactly_once for one in flow.operators):
        for one in flow.operators:
            _check_read_again(flow, one)


def _check_tables(flow: Dataflow) -> None:
    """Refuse sinks of one table, one of which would replace what the other has written, or be left out for it."""
    known: dict[str, Operator] = {}
    for one in flow.operators:
        if one.kind != "sink" or one.format != TABLE:
            continue
        other = known.setdefault(one.path.lower(), one)
        modes = {option(it, "mode", _ADDED).lower() for it in (one, other)}
        if other is not one and modes != {_ADDED}:
            raise flow.error(
                f"{other.name!r} and {one.name!r} are the same table, {one.path}, and one has a mode that does not keep the "
                "rows of the other: leave `mode` out of both, or give each its own table",
                one,
            )


def _check_read_again(flow: Dataflow, one: Operator) -> None:
    """Refuse a source that may leave out rows when it is read again."""
    if one.kind != "source":
        return
    told = {name.lower(): value.lower() for name, value in one.options.items()}
    why = ""
    if one.format.lower() == "socket":
        why = "(socket) cannot give rows a second time: read from files or Kafka"
    elif one.format == KAFKA and told.get("failondataloss") == "false":
        why = "goes on without messages that are gone: leave failOnDataLoss out"
    if why:
        raise flow.error(
            f"every row is to be there exactly once, and the source {one.name!r} {why}, or leave exactly_once out", one
        )


def _check_once(flow: Dataflow, one: Operator) -> None:
    if one.format in FILES:
        return
    what = f"a function ({one.function})" if one.function else one.format
    raise flow.error(
        f"the sink {one.name!r} is to hold every row exactly once, and {what} cannot: a batch that Spark runs again is there "
        f"twice. Write files ({', '.join(FILES[:4])}, …), or leave exactly_once out and drop doubles where rows are read",
        one,
    )


def option(one: Operator, name: str, usual: str = "") -> str:
    """An option of Spark's, which has no case."""
    return next((value for key, value in one.options.items() if key.lower() == name), usual)


def check_added(flow: Dataflow) -> None:
    """Refuse sinks of a stream that would keep one batch only. Files have a folder for each batch, whatever their mode."""
    for one in flow.operators:
        mode = option(one, "mode", _ADDED).lower()
        if one.kind == "sink" and one.format not in (*FILES, _NOWHERE) and mode != _ADDED:
            raise flow.error(
                f"the sink {one.name!r} has the mode {mode!r}: of a stream it would not keep the rows of all batches. Leave "
                "`mode` out, or run the dataflow once, as a batch",
                one,
            )


def _check(flow: Dataflow, one: Operator) -> None:
    what = f"the {one.kind} {one.name!r}"
    if bool(one.format) == bool(one.function):
        raise flow.error(f"{what} needs a `format`, such as parquet, or else a `function`", one)
    if one.function:
        for name in ("path", "schema", "options"):
            if getattr(one, name):
                raise flow.error(f"{what} is a function, which gets no `{name}`: leave it out, or give a `format`", one)
        return
    if one.format.lower() != one.format and one.format.lower() in (*FILES, *SENT, TABLE, KAFKA, CONSOLE):
        raise flow.error(f"{what} has the format {one.format!r}: write {one.format.lower()!r}", one)
    if one.format in (*FILES, TABLE) and not one.path:
        raise flow.error(f"{what} is of {one.format}: give it a `path`", one)
    if one.kind == "source":
        _check_source(flow, one, what)
    elif one.format in FILES and any(mark in one.path for mark in "*?"):
        raise flow.error(f"{what} has the path {one.path}, a pattern: give the path of one folder", one)
    _check_options(flow, one, what)


def _check_options(flow: Dataflow, one: Operator, what: str) -> None:
    given = {name.lower() for name in one.options} if one.format == KAFKA else one.options.keys()  # Spark's have no case
    for name in _NEEDS.get(one.format, ()):
        if name not in given:
            raise flow.error(f"{what} is {one.format}: give it the option {name!r}", one)
    takes = _TAKES.get(one.format, ())
    for name in one.options if takes else ():
        if name not in takes:
            raise flow.error(f"{what} has no option {name!r}: {one.format} takes {', '.join(takes)}", one)
    for name in _NUMBERS.keys() & one.options.keys() & set(takes):
        value, most = one.options[name], _NUMBERS[name]
        if not (value.isdecimal() and 1 <= int(value) <= most):
            raise flow.error(f"the option {name!r} of {what} must be a number from 1 to {most}, got {value!r}", one)
    mode = option(one, "mode", _MODES[0])
    if one.kind == "sink" and mode.lower() not in _MODES:
        raise flow.error(f"the mode of {what} must be one of {', '.join(_MODES)}, got {mode!r}", one)


def check_paced(flow: Dataflow) -> None:
    """Refuse a replay without a rate: it can be planned, not run."""
    for one in flow.operators:
        if one.kind == "source" and one.format == REPLAY:
            _check_replay(flow, one, paced=True)


def _check_replay(flow: Dataflow, one: Operator, *, paced: bool) -> None:
    try:
        replay_options(one, paced=paced)
    except InvalidDataflow as error:
        raise flow.error(f"the source {one.name!r}: {error}", one) from error


def _check_source(flow: Dataflow, one: Operator, what: str) -> None:
    if one.format == REPLAY:
        _check_replay(flow, one, paced=False)
    if one.format in (*SENT, CONSOLE):
        raise flow.error(f"{what} cannot be {one.format}, which is a sink: give another format or a `function`", one)
    if one.format == TABLE and one.schema:
        raise flow.error(f"{what} is a table, which has a schema: leave `schema` out", one)
    if one.format == KAFKA:
        given = {name.lower() for name in one.options}
        if sum(name.lower() in given for name in _SUBSCRIPTIONS) != 1:
            raise flow.error(f"{what} is kafka: give it one of the options {', '.join(_SUBSCRIPTIONS)}", one)
        if one.schema:
            raise flow.error(f"{what} is kafka, which has columns of its own (key, value, topic, …): leave `schema` out", one)
