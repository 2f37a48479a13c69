"""`stream_apply_by_cost`: costs learnt batch by batch, kept beside the checkpoint, read back, and never counted twice."""

import importlib
import json
import sys
from pathlib import Path

import known_costs
import numpy as np
import pyarrow as pa
import pytest
from arriving import arrive, held
from known_costs import Placed, kinds_model, loads_ms
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row

import evenly
from evenly.costs import CostScheduler, SchedulerState
from evenly.errors import DamagedData, FunctionFailed, InvalidCheckpoint, InvalidParameter
from evenly.measures import imbalance_pct
from evenly.spark.costs import cost_batches
from evenly.spark.costs.store import CostStore, saved_costs
from evenly.spark.costs.stream_apply_by_cost import _write

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
cloudpickle.register_pickle_by_value(known_costs)

streamed = importlib.import_module("evenly.spark.costs.stream_apply_by_cost")

INSTANCES = 3


class Stream:
    """A folder of rows to stream from, one file a batch, and one of what the sink has written."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.input, self.output, self.checkpoint = (str(folder / name) for name in ("in", "out", "checkpoint"))
        self.rows = 0
        Path(self.input).mkdir()

    def add(self, rows=300, files=1):
        for _ in range(files):
            ids = np.arange(self.rows, self.rows + rows)
            kind = np.select([ids % 50 < 1, ids % 50 < 10], [0, 2], 4).astype(np.int32)
            arrive(self.input, pa.table({"id": ids, "kind": kind}))
            self.rows += rows

    def stream(self):
        return self.spark.readStream.schema("id long, kind int").option("maxFilesPerTrigger", 1).parquet(self.input)

    def sink(self, results, batch_id):
        results.write.mode("overwrite").parquet(f"{self.output}/batch={batch_id}")

    def run(self, function=None, schema=Placed.schema, **options):
        """All rows that are there."""
        given = {"cost_key": "kind", "instances": INSTANCES, "sink": self.sink, "checkpoint": self.checkpoint, **options}
        function = Placed() if function is None else function
        query = evenly.stream_apply_by_cost(self.stream(), function, schema, trigger={"availableNow": True}, **given)
        query.awaitTermination()
        return query

    def written(self):
        return [Row(**row) for row in held(self.output).to_pylist()]

    def saved(self):
        return sorted(int(path.stem) for path in Path(self.checkpoint, "evenly", "costs").glob("[0-9]*.json"))


@pytest.fixture
def stream(spark, tmp_path):
    return Stream(spark, tmp_path)


def refuse_some(row):
    if row.id % 100 == 7:
        raise ValueError(f"no {row.id}")
    return row.id


class FailingSecond:
    """Fails on one row in a hundred, in its second run alone; what is persisted is lost when its letters are first read."""

    def __init__(self, folder):
        self.folder, self.letters = folder, []

    def __call__(self, row):
        mark = self.folder / str(row.id)
        if mark.exists():
            refuse_some(row)
        mark.touch()
        return row.id

    def set_aside(self, failed, _):
        self.letters.append(sorted(json.loads(row.row)["id"] for row in failed.collect()))
        if len(self.letters) == 1:
            for held_back in failed.sparkSession.sparkContext._jsc.getPersistentRDDs().values():
                level = held_back.getStorageLevel()
                held_back.unpersist(True)  # noqa: FBT003 - Java; as it is lost with an executor
                held_back.persist(level)


@pytest.fixture
def failing_second(stream, tmp_path):
    stream.add()
    (tmp_path / "marks").mkdir()
    return FailingSecond(tmp_path / "marks")


def test_every_row_once_and_costs_saved_with_each_batch(spark, stream):
    stream.add(files=3)
    watch = evenly.CostWatch()
    stream.run(watch=watch)
    assert sorted(row.id for row in stream.written()) == list(range(stream.rows))
    assert stream.saved() == [0, 1, 2]
    assert [batch.batch_id for batch in watch.batches] == [0, 1, 2]
    assert watch.batches[0].decision.state is SchedulerState.ROUND_ROBIN
    assert watch.batches[0].decision.even
    assert watch.batches[1].decision.state is SchedulerState.RUN
    assert [sum(report.rows for report in batch.reports) for batch in watch.batches] == [300, 300, 300]
    model = saved_costs(spark, stream.checkpoint)
    assert model == watch.costs
    assert model.expressions == ("kind",)
    assert model.keys == 3


def test_a_model_that_is_given_schedules_the_first_batch(spark, stream):
    stream.add(rows=1_000)
    stream.run(costs=kinds_model(spark))
    rows = stream.written()
    assert sorted(row.id for row in rows) == list(range(1_000))
    assert imbalance_pct(loads_ms(rows, INSTANCES)) < 2.0


def test_a_restart_goes_on_with_what_was_learnt(spark, stream):
    stream.add(files=2)
    stream.run()
    before = CostStore(spark, stream.checkpoint).newest()
    stream.add()
    watch = evenly.CostWatch()
    stream.run(watch=watch)
    assert stream.saved() == [0, 1, 2]
    assert [batch.batch_id for batch in watch.batches] == [2]
    assert watch.batches[0].decision.state is SchedulerState.RUN
    assert watch.batches[0].decision.model == before.model
    assert sorted(row.id for row in stream.written()) == list(range(stream.rows))
    # Another number of instances keeps what is known of costs; another cost key begins anew.
    stream.add()
    stream.run(watch=watch, instances=2)
    assert watch.batches[-1].decision.model.keys == 3
    assert len(watch.batches[-1].reports) == 2
    stream.add()
    stream.run(watch=watch, cost_key="id % 2")
    assert watch.batches[-1].decision.state is SchedulerState.ROUND_ROBIN
    # So does the same key in another type, of which no id is known.
    store = CostStore(spark, stream.checkpoint)
    of_ints = store.newest()
    assert of_ints.model.types == ("bigint",)
    of_ints.model.types = ("int",)
    store.save(stream.saved()[-1], of_ints)
    stream.add()
    stream.run(watch=watch, cost_key="id % 2")
    assert watch.batches[-1].decision.state is SchedulerState.ROUND_ROBIN
    assert store.newest().model.types == ("bigint",)
    assert sorted(row.id for row in stream.written()) == list(range(stream.rows))


def test_a_batch_that_is_run_again_is_not_counted_twice(stream, spark):
    stream.add(files=2)
    stream.run()
    counted = CostStore(spark, stream.checkpoint).newest()
    # As if the driver had died when the costs of batch 1 were saved and the batch was not committed.
    for path in (*Path(stream.checkpoint, "commits").glob("1"), *Path(stream.checkpoint, "commits").glob(".1.crc")):
        path.unlink()
    watch = evenly.CostWatch()
    stream.run(watch=watch)
    assert [batch.batch_id for batch in watch.batches] == [1]
    again = CostStore(spark, stream.checkpoint).newest()
    assert again.last_batch == counted.last_batch == 1
    assert again.model.moments[0].ids.tolist() == counted.model.moments[0].ids.tolist()
    assert again.model.moments[0].counts.tolist() == pytest.approx(counted.model.moments[0].counts.tolist())
    assert sorted(row.id for row in stream.written()) == list(range(stream.rows))


def test_a_sink_that_fails_leaves_nothing_counted(spark, stream):
    stream.add(files=2)
    persisted = len(spark.sparkContext._jsc.getPersistentRDDs())

    def failing(results, batch_id):
        if batch_id == 1:
            raise RuntimeError("no room")
        stream.sink(results, batch_id)

    with pytest.raises(StreamingQueryException, match="no room"):
        stream.run(sink=failing)
    assert stream.saved() == [0]
    stream.run()
    assert stream.saved() == [0, 1]
    assert CostStore(spark, stream.checkpoint).newest().last_batch == 1
    assert sorted(row.id for row in stream.written()) == list(range(stream.rows))
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == persisted


async def later(results, batch_id):
    """Never begins."""


def in_turn(results, batch_id):
    yield results.write.save(str(batch_id))


@pytest.mark.parametrize("only_begins", [later, in_turn])
def test_a_sink_that_only_begins_is_refused_and_ends_the_query_where_that_is_seen_late(stream, only_begins):
    with pytest.raises(InvalidParameter, match="sink is an async function or a generator, which nobody would run"):
        stream.run(sink=only_begins)
    assert not Path(stream.checkpoint).exists()
    with pytest.raises(FunctionFailed, match="sink has written nothing yet of batch 3, it gave <"):
        _write("sink", only_begins, None, 3)


def test_costs_that_cannot_be_saved_end_no_query_and_are_saved_with_the_next_batch(spark, stream, monkeypatch, caplog):
    stream.add(files=4)
    save = CostStore.save

    def full(store, batch_id, scheduler):
        if batch_id in {1, 2}:
            raise OSError("no space left on device")
        save(store, batch_id, scheduler)

    monkeypatch.setattr(CostStore, "save", full)
    watch = evenly.CostWatch()
    stream.run(watch=watch)
    assert stream.saved() == [0, 3]
    assert ["no space left" in it.getMessage() for it in caplog.records if it.levelname == "WARNING"] == [True]
    timed = sum(report.timed for batch in watch.batches for report in batch.reports)
    assert sum(saved_costs(spark, stream.checkpoint).moments[0].counts) == pytest.approx(timed, rel=0.01)
    assert sorted(row.id for row in stream.written()) == list(range(stream.rows))


def test_dead_letters_are_set_aside(spark, stream):
    stream.add(files=2)
    letters = {}

    def set_aside(failed, batch_id):
        letters[batch_id] = [row.asDict() for row in failed.collect()]

    stream.run(refuse_some, "id long", call=evenly.CallOptions(on_error="skip"), dead_letters=set_aside)
    refused = {batch: sorted(json.loads(letter["row"])["id"] for letter in told) for batch, told in letters.items()}
    assert refused == {0: [7, 107, 207], 1: [307, 407, 507]}
    assert sorted(row.id for row in stream.written()) == [at for at in range(600) if at % 100 != 7]
    assert spark.read.parquet(stream.output).columns == ["id", "batch"]


def test_a_row_is_a_dead_letter_or_a_result_also_where_what_is_persisted_is_lost_in_between(stream, failing_second, caplog):
    """Rows are run again for the sink then, and one row in a hundred fails in its second run alone."""
    stream.run(failing_second, "id long", call=evenly.CallOptions(on_error="skip"), dead_letters=failing_second.set_aside)
    assert failing_second.letters == [[], [7, 107, 207]]
    assert sorted(row.id for row in stream.written()) == [at for at in range(300) if at % 100 != 7]
    assert handed_over(caplog) == ["batch 0 was partly run again while it was written, and is handed to its sinks once more"]


def test_a_row_is_a_dead_letter_or_a_result_also_where_a_copy_of_its_task_is_held_too(
    stream, failing_second, monkeypatch, caplog
):
    """An action reads either of the two that a task and its speculative copy have left. Reports were those of the first before
    and after the sink had read the other, so the rows that failed in one of them were in neither, and nothing was said."""
    real, first = cost_batches.reports_of, []
    monkeypatch.setattr(cost_batches, "reports_of", lambda ran: first.append(real(ran)) or first[0])
    monkeypatch.setattr(streamed, "reports_of", lambda ran: first.append(ran) or first[0] if len(first) == 1 else real(ran))
    stream.run(failing_second, "id long", call=evenly.CallOptions(on_error="skip"), dead_letters=failing_second.set_aside)
    assert failing_second.letters == [[], [7, 107, 207]]
    assert sorted(row.id for row in stream.written()) == [at for at in range(300) if at % 100 != 7]
    told = "batch 0 had results of two runs of a task: it is run again, and handed to its sinks once more"
    assert handed_over(caplog) == [told]


def test_sinks_that_look_before_they_read_are_not_called_again(stream, caplog):
    """What an action has read in part contradicts nothing."""
    stream.add()
    calls = []

    def set_aside(failed, _):
        calls.append(failed.isEmpty())

    stream.run(refuse_some, "id long", call=evenly.CallOptions(on_error="skip"), dead_letters=set_aside)
    assert calls == [False]
    assert handed_over(caplog) == []


def handed_over(caplog):
    return [it.getMessage() for it in caplog.records if it.name == streamed.__name__]


def test_old_costs_are_removed_and_broken_ones_refused(spark, tmp_path):
    store = CostStore(spark, str(tmp_path / "c"))
    scheduler = CostScheduler(2, expressions=("kind",))
    for number in range(12):
        store.save(number, scheduler)
    kept = sorted(int(path.stem) for path in (tmp_path / "c" / "evenly" / "costs").glob("[0-9]*.json"))
    assert kept == list(range(3, 12))
    assert store.before(3) is None
    assert store.before(7) == scheduler
    broken = tmp_path / "c" / "evenly" / "costs" / "11.json"
    broken.write_text(broken.read_text()[:-20])
    for checksum in (tmp_path / "c" / "evenly" / "costs").glob(".11.json.crc"):
        checksum.unlink()
    with pytest.raises(DamagedData, match=r"11\.json"):
        store.newest()
    with pytest.raises(InvalidCheckpoint, match="nothing-here"):
        saved_costs(spark, str(tmp_path / "nothing-here"))
