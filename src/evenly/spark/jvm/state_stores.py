"""The state stores of a checkpoint as Spark's own offline tools see them: raw rows of every column family, and their schemas.

Spark has no public way to write state. Its offline repartitioning is built of parts that are open in the JVM: a reader of all
column families and a `StateRewriter`. They are used here and nowhere else in Evenly. They are internals, which a release may
change without a word, so only those releases are let pass that they were tested with (`evenly.spark.features` lists them).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from evenly.errors import ImmovableState
from evenly.spark.features import Feature, Found, missing, untested
from evenly.spark.jvm.hadoop_files import located
from evenly.spark.jvm.readable_state import own_session, readable_in


@dataclass(frozen=True)
class Family:
    """The schemas of one column family: of its keys and of its values."""

    key: StructType
    value: StructType


@dataclass(frozen=True)
class Store:
    """One state store of an operator, with its column families."""

    operator: int
    operator_name: str
    name: str
    partitions: int
    families: dict[str, Family]


PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

ALLOW_UNTESTED = "spark.evenly.state.allowUntestedSpark"
"""A setting of a session: "true" lets its state be moved by releases of Spark that this was not tested with."""

Rewrite = Callable[[Store, DataFrame], DataFrame]
"""The rows of a store as they are, to the rows as they shall be, in the partitions where they shall be."""


def check_rewritable(spark: SparkSession) -> None:
    """Raise `ImmovableState` on a Spark that cannot rewrite state, or was never seen to do it right."""
    found = Found.of(spark)
    why = missing(Feature.STATE_REWRITER, found)
    if why is not None:
        raise ImmovableState(f"moving state needs {why}")
    why = untested(Feature.STATE_REWRITER, found)
    if why is not None and str(spark.conf.get(ALLOW_UNTESTED, "false")).lower() != "true":
        raise ImmovableState(
            f"moving state needs {why}. To move it all the same, after a try on a copy of the checkpoint: "
            f"spark.conf.set('{ALLOW_UNTESTED}', 'true')"
        )
    jvm: Any = spark._jvm
    if not isinstance(jvm.org.apache.spark.sql.execution.streaming.state.StateRewriter, JavaClass):
        raise ImmovableState(f"moving state needs {Feature.STATE_REWRITER.value.what}, and {found} has none any more")


class StateStores:
    """The stores of the state that one batch left in a checkpoint. Raw rows have the columns `partition_key` (the grouping key,
    a struct), `key_bytes`, `value_bytes` and `column_family_name`."""

    def __init__(self, spark: SparkSession, checkpoint: str, batch: int) -> None:
        self._jvm: Any = spark._jvm
        self._session = _without_adaptive_execution(spark)
        self._java: Any = self._session._jsparkSession
        self._settings = self._java.sessionState().newHadoopConf()
        self.checkpoint = self._resolved(checkpoint)
        self.batch = batch
        self._session.conf.set(PROVIDER, self.provider())  # Spark's reader of raw rows asks the session, not the checkpoint
        self.stores = tuple(store for metadata in self._metadata() for store in self._stores_of(metadata))

    @property
    def _streaming(self) -> Any:
        return self._jvm.org.apache.spark.sql.execution.streaming

    def read(self, store: Store, *, checkpoint: str | None = None) -> DataFrame:
        """The raw rows of a store, of this checkpoint or of another one with the same operators."""
        options = self._jvm.org.apache.spark.sql.execution.datasources.v2.state.StateSourceOptions
        reader = self._session.read.format("statestore").option("batchId", self.batch).option("operatorId", store.operator)
        reader = reader.option("storeName", store.name).option(options.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES(), "true")
        return reader.load(readable_in(self._session, checkpoint or self.checkpoint))

    def provider(self) -> str:
        """The class that keeps the state, as the query's last batch was run with."""
        metadata = self._streaming.runtime.StreamingQueryCheckpointMetadata(self._java, self.checkpoint, True)  # noqa: FBT003 - Java
        stored = metadata.offsetLog().get(self.batch).get().metadataOpt().get().conf().get(PROVIDER)
        return str(stored.get() if stored.isDefined() else self._session.conf.get(PROVIDER))

    def write(self, to: str, rewrite: Rewrite) -> None:
        """Write the state of this batch, rewritten, as the state of the same batch of the checkpoint folder `to`.

        `to` has the offsets of the batch and the operators' metadata already. Each store is written whole, as one snapshot.
        """
        ensure_callback_server_started(self._session.sparkContext._gateway)  # type: ignore[no-untyped-call]
        function = _Function(self._session, {(it.operator, it.name): it for it in self.stores}, rewrite)
        option = self._jvm.scala.Option
        rewriter = self._streaming.state.StateRewriter(
            self._java,
            self.batch,
            self.batch,
            self._resolved(to),
            self._settings,
            option.apply(readable_in(self._session, self.checkpoint)),
            option.apply(function),
            option.apply(None),
        )
        try:
            rewriter.run()
        except Exception as error:
            if function.error is not None:
                raise function.error from error
            raise

    def _metadata(self) -> list[Any]:
        serializable = self._jvm.org.apache.spark.util.SerializableConfiguration(self._settings)
        source = self._jvm.org.apache.spark.sql.execution.datasources.v2.state.metadata
        return list(source.StateMetadataPartitionReader(self.checkpoint, serializable, self.batch).allOperatorStateMetadata())

    def _stores_of(self, metadata: Any) -> list[Store]:
        operator = metadata.operatorInfo()
        found = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(metadata.stateStoresMetadata())
        return [
            Store(
                operator.operatorId(),
                operator.operatorName(),
                store.storeName(),
                store.numPartitions(),
                self._families(operator.operatorId(), store),
            )
            for store in found
        ]

    def _families(self, operator: int, store: Any) -> dict[str, Family]:
        """The column families that a store was last written with."""
        converters = self._jvm.scala.jdk.javaapi.CollectionConverters
        state, path = self._streaming.state, self._jvm.org.apache.hadoop.fs.Path
        paths = self._jvm.java.util.ArrayList()
        if store.getClass().getSimpleName() == "StateStoreMetadataV2":
            for file in converters.asJava(store.stateSchemaFilePaths()):
                paths.add(path(file))
        identity = state.StateStoreId(f"{self.checkpoint}/state", operator, 0, store.storeName())
        run = self._jvm.java.util.UUID.fromString(str(uuid.uuid4()))
        checker = state.StateSchemaCompatibilityChecker(
            state.StateStoreProviderId(identity, run),
            self._settings,
            self._jvm.org.apache.spark.api.python.PythonUtils.toList(paths),
            self._jvm.scala.Option.apply(None),
            False,  # noqa: FBT003 - Java
        )
        return {
            family.colFamilyName(): Family(_schema(family.keySchema()), _schema(family.valueSchema()))
            for family in converters.asJava(checker.readSchemaFile())
        }

    def _resolved(self, path: str) -> str:
        at, files = located(self._session, path, self._settings)
        return str(files.makeQualified(at).toString())


class _Function:
    """A Python function as the Scala function that StateRewriter calls for each store."""

    def __init__(self, session: SparkSession, stores: dict[tuple[int, str], Store], rewrite: Rewrite) -> None:
        self._session = session
        self._stores = stores
        self._rewrite = rewrite
        self.error: BaseException | None = None

    def apply(self, rows: Any) -> Any:
        try:
            options = rows.queryExecution().analyzed().options()
            store = self._stores[int(options.get("operatorId")), options.get("storeName")]
            return self._rewrite(store, DataFrame(rows, self._session))._jdf
        except BaseException as error:
            self.error = error
            raise

    class Java:
        implements = ("scala.Function1",)


def _without_adaptive_execution(spark: SparkSession) -> SparkSession:
    """A session of its own, in which a store without rows keeps its partitions: each must be written, even if empty."""
    own = own_session(spark)
    own.conf.set("spark.sql.adaptive.enabled", "false")
    return own


def _schema(java: Any) -> StructType:
    return StructType.fromJson(json.loads(java.json()))
