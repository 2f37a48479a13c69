"""Where the rows of a dataflow come from and where they go."""

from __future__ import annotations

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from evenly.dataflow.formats import FILES, SENT
from evenly.dataflow.graph import Dataflow, Operator
from evenly.errors import EvenlyError
from evenly.spark.flows.frames import checked_frame, first_line
from evenly.spark.flows.functions import loaded
from evenly.spark.flows.sent import Outbox, check_sent, send_rows

_SHOWN = 20


def read(spark: SparkSession, flow: Dataflow, one: Operator, *, streaming: bool) -> DataFrame:
    """What a source gives."""
    try:
        found = checked_frame(loaded(one)(spark), one) if one.function else _loaded(spark, one, streaming=streaming)
    except (PySparkException, EvenlyError) as error:
        raise flow.error(f"the source {one.name!r} cannot be read: {first_line(error)}", one) from error
    if found.isStreaming != streaming:
        has, wanted = ("a stream", "a batch") if found.isStreaming else ("a batch", "a stream")
        raise flow.error(f"the source {one.name!r} is {has}, and the dataflow is to be run as {wanted}", one)
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


def check_sink(flow: Dataflow, one: Operator) -> None:
    """Refuse a sink that says too little, before anything runs."""
    if one.format in SENT:
        check_sent(flow, one)
    if one.format in (*FILES, "table") and not one.path:
        raise flow.error(f"the sink {one.name!r} writes {one.format}: give it a `path`", one)


def write(flow: Dataflow, one: Operator, rows: DataFrame, batch: int | None, outbox: Outbox | None = None) -> None:
    """Write what a sink gets; `batch` is the number of a stream's batch, which may be written again."""
    try:
        _write(one, rows, batch, outbox)
    except AnalysisException as error:
        raise flow.error(f"the sink {one.name!r} cannot be written: {first_line(error)}", one) from error


def _write(one: Operator, rows: DataFrame, batch: int | None, outbox: Outbox | None) -> None:
    options = dict(one.options)
    if one.function:
        loaded(one)(rows, 0 if batch is None else batch)
    elif one.format == "console":
        rows.show(int(options.get("rows", _SHOWN)), truncate=False)
    elif one.format in SENT:
        send_rows(one, rows, batch, outbox)
    elif batch is not None and one.format in FILES:
        rows.write.format(one.format).options(**options).mode("overwrite").save(f"{one.path.rstrip('/')}/batch={batch}")
    else:
        mode = options.pop("mode", "errorifexists" if one.format in FILES else "append")
        writer = rows.write.format(one.format).options(**options).mode(mode)
        if one.format == "table":
            rows.write.options(**options).mode(mode).saveAsTable(one.path)
        elif one.path:
            writer.save(one.path)
        else:
            writer.save()
