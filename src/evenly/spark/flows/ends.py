"""Where the rows of a dataflow come from and where they go."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2s
from pathlib import Path
from urllib.parse import quote

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StringType, TimestampType

from evenly.checks import has_only_begun
from evenly.dataflow.ends import CONSOLE, FILES, KAFKA, REPLAY, SENT, TABLE, option
from evenly.dataflow.graph import Dataflow, Operator
from evenly.dataflow.unread import why_unread
from evenly.emission.destinations import HttpPost, TcpLines
from evenly.emission.destinations.delivery import Pacing
from evenly.emission.link.outgoing import UNSCHEDULED
from evenly.errors import EvenlyError, InvalidDataflow
from evenly.spark.flows.frames import called_frame
from evenly.spark.flows.functions import loaded
from evenly.spark.flows.owning import WRITING
from evenly.spark.flows.replay import replay
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.java_errors import Py4JError
from evenly.spark.sending.encoding import bodies
from evenly.spark.sending.kept import KeptBatches
from evenly.spark.sending.send import send
from evenly.spark.sending.tasks import send_bodies
from evenly.spark.streaming.newest_run import NewestRun
from evenly.spark.worker_errors import own_error
from evenly.worker.letters import failed_function

NUMBER = "batch"
"""The column that folders of batches have when they are read."""
_SHOWN = "20"


@dataclass(frozen=True)
class StreamBatch:
    """A batch of a stream, which may be run again: its number, its query's name (`owning.name_of_query`) and checkpoint, and
    which run of the query it is of."""

    number: int
    query: str
    checkpoint: str
    run: NewestRun


def read(spark: SparkSession, flow: Dataflow, one: Operator, *, streaming: bool, pace: Path | None = None) -> DataFrame:
    """What a source gives. A replay looks into the file `pace` for how it is to go on."""
    try:
        if one.function:
            found = called_frame(flow, one, spark)
        elif one.format == REPLAY:
            found = _replayed(flow, one, spark, streaming=streaming, pace=pace)
        else:
            found = _loaded(spark, one, streaming=streaming)
    except InvalidDataflow:
        raise
    except (PySparkException, Py4JError, EvenlyError) as error:
        raise flow.error(f"the source {one.name!r} cannot be read: {why_unread(one, str(error))}", one) from error
    if found.isStreaming != streaming:
        has, wanted = ("a stream", "a batch") if found.isStreaming else ("a batch", "a stream")
        raise flow.error(f"the source {one.name!r} is {has}, and the dataflow is to be run as {wanted}", one)
    if one.arrival:
        kinds = {field.name: field.dataType for field in found.schema.fields}
        if not isinstance(kinds.get(one.arrival), TimestampType):
            has = kinds[one.arrival].simpleString() if one.arrival in kinds else "not there"
            raise flow.error(f"the `arrival` of {one.name!r} must be a column of timestamps, and {one.arrival!r} is {has}", one)
    return found


def _replayed(flow: Dataflow, one: Operator, spark: SparkSession, *, streaming: bool, pace: Path | None) -> DataFrame:
    try:
        return replay(spark, one, streaming=streaming, pace=pace)
    except InvalidDataflow as error:  # which does not know the line
        raise flow.error(f"the source {one.name!r}: {error}", one) from error


def _loaded(spark: SparkSession, one: Operator, *, streaming: bool) -> DataFrame:
    options = dict(one.options)
    reader = spark.readStream if streaming else spark.read
    if one.format == TABLE:
        return reader.options(**options).table(one.path)
    reader = reader.format(one.format).options(**options)
    if one.schema:
        reader = reader.schema(one.schema)
    elif streaming and one.format in FILES:  # a stream of files does not look into them; what is there now tells
        reader = reader.schema(spark.read.format(one.format).options(**options).load(one.path).schema)
    return reader.load(one.path) if one.path else reader.load()


def check_sending(flow: Dataflow) -> None:
    """Refuse a sink that sends to nowhere, or by a policy that there is not, before anything runs."""
    for one in flow.operators:
        if one.kind == "sink" and one.format in SENT:
            try:
                _destination(one), _pacing(one)
            except EvenlyError as error:
                raise flow.error(f"the sink {one.name!r}: {error}", one) from error


def check_free(spark: SparkSession, flow: Dataflow) -> None:
    """Refuse a folder that a batch would have to replace or add to without being told to, before another sink is written."""
    for one in flow.operators:
        if one.kind != "sink" or one.format not in FILES or not _mode(one).startswith("error"):
            continue
        folder = Folder(spark, one.path)
        if folder.names():
            raise flow.error(
                f"the sink {one.name!r} cannot be written: {one.path} has files already. Give another path, or the option "
                "`mode` (append, overwrite, ignore)",
                one,
            )


def check_columns(flow: Dataflow, one: Operator, rows: DataFrame, *, streaming: bool) -> None:
    """Refuse rows that a sink could not take, or that would read back as others, before the first batch is written."""
    kinds = {field.name.lower(): field.dataType for field in rows.schema.fields}
    texts = (StringType, BinaryType)
    if one.format in FILES and streaming and NUMBER in kinds:
        raise flow.error(
            f"the sink {one.name!r} gets a column {NUMBER!r}, which is how the folders of its batches are called: who reads "
            "them would find the number of the batch in it. Rename the column before",
            one,
        )
    if one.format == KAFKA:
        if not isinstance(kinds.get("value"), texts):
            raise flow.error(
                f"the sink {one.name!r} is kafka and gets {', '.join(rows.columns) or 'no columns'}: it takes a column "
                "`value`, text or binary (and key, topic, partition, headers), such as to_json(struct(*)) makes",
                one,
            )
        if "topic" not in map(str.lower, one.options) and not isinstance(kinds.get("topic"), StringType):
            raise flow.error(f"the sink {one.name!r} is kafka: give it the option 'topic', or rows a column `topic`", one)
    if one.format == "text" and [type(kind) for kind in kinds.values()] != [StringType]:
        raise flow.error(f"the sink {one.name!r} is text: it takes one column, a string, and gets {rows.dtypes}", one)
    if one.format in SENT:
        try:
            bodies(rows, one.options.get("column"))
        except EvenlyError as error:
            raise flow.error(f"the sink {one.name!r}: {error}", one) from error


def write(flow: Dataflow, one: Operator, rows: DataFrame, batch: StreamBatch | None) -> None:
    """Write what a sink gets; of a stream in a batch that may be written again, and to files, tables and functions alone."""
    try:
        _write(flow, one, rows, batch)
    except AnalysisException as error:
        raise flow.error(f"the sink {one.name!r} cannot be written: {first_line(error)}", one) from error


def _write(flow: Dataflow, one: Operator, rows: DataFrame, batch: StreamBatch | None) -> None:
    options = {name: value for name, value in one.options.items() if name.lower() != "mode"}
    if one.function:
        _called(flow, one, rows, 0 if batch is None else batch.number)
    elif one.format == CONSOLE:
        rows.show(int(options.get("rows", _SHOWN)), truncate=False)
    elif one.format in SENT:
        pacing = _pacing(one)
        send(rows, to=_destination(one), column=one.options.get("column"), link=pacing.link, policy=pacing.policy)
    elif batch is not None and one.format in FILES:
        written = f"{WRITING}/{batch.run.name}-{batch.number}"
        rows.write.format(one.format).options(**options).mode("overwrite").save(f"{one.path.rstrip('/')}/{written}")
        # Two runs that wrote to one folder would take each other's files for their own. Here each is whole.
        batch.run.check()
        Folder(rows.sparkSession, one.path).replace(written, f"{NUMBER}={batch.number}")
    else:
        writer = rows.write.options(**options).mode(_mode(one))
        if one.format == TABLE:
            writer.saveAsTable(one.path)
        elif one.path:
            writer.format(one.format).save(one.path)
        else:
            writer.format(one.format).save()


def _called(flow: Dataflow, one: Operator, rows: DataFrame, number: int) -> None:
    try:
        gave = loaded(one)(rows, number)
    except (EvenlyError, AnalysisException):
        raise
    except Exception as error:
        what = f"the function of the sink {one.name!r}, with batch {number},"
        raise (own_error(error) or failed_function(what, error)) from error
    if has_only_begun(gave):
        raise flow.error(f"the function of {one.name!r} has done nothing yet, it gave {gave!r}: make it a plain function", one)


def _mode(one: Operator) -> str:
    return option(one, "mode", "errorifexists" if one.format in FILES else "append").lower()


def sender_of(one: Operator, query: str) -> str:
    """The name under which the rows of a sink are sent, by this query alone."""
    return f"{quote(one.name, safe='')[:60]}.{blake2s(one.name.encode(), digest_size=4).hexdigest()}.{query}"


def kept_of(spark: SparkSession, one: Operator, checkpoint: str) -> KeptBatches:
    """The rows that a sink of a stream is sending, beside the checkpoint."""
    folder = Folder(spark, checkpoint).child("evenly").child("sinks").child(quote(one.name, safe=""))
    return KeptBatches(spark, folder.path, in_turn=True)


def send_kept(one: Operator, rows: DataFrame, sender: str, batch: int) -> None:
    """Send what a sink of a stream has kept of a batch."""
    send_bodies(rows, _destination(one), _pacing(one), sender=sender, batch=batch)


def _destination(one: Operator) -> TcpLines | HttpPost:
    options = one.options
    return TcpLines(options["host"], int(options["port"])) if one.format == "tcp" else HttpPost(options["url"])


def _pacing(one: Operator) -> Pacing:
    return Pacing(one.options.get("link", "default"), one.options.get("policy", UNSCHEDULED))


def first_line(error: Exception) -> str:
    """What an error of Spark says, without its plan."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
