"""Where the rows of a dataflow come from and where they go."""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import TimestampType

from evenly.dataflow.graph import Dataflow, Operator
from evenly.dataflow.replay import replay_options
from evenly.dataflow.stages import FILES
from evenly.emission.destinations import HttpPost, TcpLines
from evenly.errors import EvenlyError, InvalidDataflow
from evenly.spark.flows.frames import checked_frame
from evenly.spark.flows.functions import loaded
from evenly.spark.flows.replay import replay
from evenly.spark.sending.send import send

SENT = ("tcp", "http")
_SHOWN = 20


def read(spark: SparkSession, flow: Dataflow, one: Operator, *, streaming: bool, pace: Path | None = None) -> DataFrame:
    """What a source gives. A replay looks into the file `pace` for how it is to go on."""
    try:
        if one.function:
            found = checked_frame(loaded(one)(spark), one)
        elif one.format == "replay":
            found = replay(spark, one, streaming=streaming, pace=pace)
        else:
            found = _loaded(spark, one, streaming=streaming)
    except (PySparkException, EvenlyError) as error:
        raise flow.error(f"the source {one.name!r} cannot be read: {_first_line(error)}", one) from error
    if found.isStreaming != streaming:
        has, wanted = ("a stream", "a batch") if found.isStreaming else ("a batch", "a stream")
        raise flow.error(f"the source {one.name!r} is {has}, and the dataflow is to be run as {wanted}", one)
    if one.arrival:
        kinds = {field.name: field.dataType for field in found.schema.fields}
        if not isinstance(kinds.get(one.arrival), TimestampType):
            has = kinds[one.arrival].simpleString() if one.arrival in kinds else "not there"
            raise flow.error(f"the `arrival` of {one.name!r} must be a column of timestamps, and {one.arrival!r} is {has}", one)
    return found


def _loaded(spark: SparkSession, one: Operator, *, streaming: bool) -> DataFrame:
    options = dict(one.options)
    reader = spark.readStream if streaming else spark.read
    if one.format == "table":
        return reader.options(**options).table(one.path)
    reader = reader.format(one.format).options(**options)
    if one.schema:
        reader = reader.schema(one.schema)
    elif streaming and one.format in FILES:  # a stream of files does not look into them; what is there now tells
        reader = reader.schema(spark.read.format(one.format).options(**options).load(one.path).schema)
    return reader.load(one.path) if one.path else reader.load()


def check_source(flow: Dataflow, one: Operator) -> None:
    """Refuse a replay whose options cannot be meant, before anything runs."""
    if one.format == "replay":
        try:
            replay_options(one)
        except InvalidDataflow as error:
            raise flow.error(f"the source {one.name!r}: {error}", one) from error


def check_sink(flow: Dataflow, one: Operator) -> None:
    """Refuse a sink that says too little, before anything runs."""
    needs = {"tcp": ("host", "port"), "http": ("url",)}.get(one.format, ())
    for name in needs:
        if name not in one.options:
            raise flow.error(f"the sink {one.name!r} sends by {one.format}: give it the option {name!r}", one)
    if one.format in FILES and not one.path:
        raise flow.error(f"the sink {one.name!r} writes {one.format}: give it a `path`", one)


def write(flow: Dataflow, one: Operator, rows: DataFrame, batch: int | None) -> None:
    """Write what a sink gets; `batch` is the number of a stream's batch, which may be written again."""
    try:
        _write(flow, one, rows, batch)
    except AnalysisException as error:
        raise flow.error(f"the sink {one.name!r} cannot be written: {_first_line(error)}", one) from error


def _write(flow: Dataflow, one: Operator, rows: DataFrame, batch: int | None) -> None:
    options = dict(one.options)
    if one.function:
        loaded(one)(rows, 0 if batch is None else batch)
    elif one.format == "console":
        rows.show(int(options.get("rows", _SHOWN)), truncate=False)
    elif one.format in SENT:
        to = TcpLines(options["host"], int(options["port"])) if one.format == "tcp" else HttpPost(options["url"])
        send(
            rows,
            to=to,
            column=options.get("column"),
            link=options.get("link", "default"),
            policy=options.get("policy", "unscheduled"),
            sender=f"{flow.name}/{one.name}",
            batch=batch,
        )
    elif batch is not None and one.format in FILES:
        rows.write.format(one.format).options(**options).mode("overwrite").save(f"{one.path.rstrip('/')}/batch={batch}")
    else:
        mode = options.pop("mode", "errorifexists" if one.format in FILES else "append")
        writer = rows.write.format(one.format).options(**options).mode(mode)
        if one.path:
            writer.save(one.path)
        else:
            writer.save()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
