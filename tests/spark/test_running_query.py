"""The three streaming forms alike: checkpoint, trigger and name in, the same kind of handle out, errors as their class."""

import pytest

import evenly
from evenly.errors import DestinationFailed, FunctionFailed, InvalidParameter

ROWS = 40
NOW = {"availableNow": True}


def by_key(rows, checkpoint, *, fails=False, **given):
    def build(placed):
        to = (lambda row: row.missing) if fails else (lambda _: None)
        return placed.dropDuplicates(["user", "slot"]).writeStream.foreachBatch(lambda batch, _: evenly.send(batch, to=to))

    given = {"key": "user", "instances": 2, "checkpoint": checkpoint, "controller": False, "look": False, **given}
    return evenly.stream_by_key(rows, build, **given)


def by_cost(rows, checkpoint, *, fails=False, **given):
    function = (lambda row: row.missing) if fails else (lambda row: row.id)
    return evenly.stream_apply_by_cost(
        rows,
        function,
        "id long",
        cost_key="user",
        instances=2,
        sink=lambda results, _: results.count(),
        checkpoint=checkpoint,
        **given,
    )


def sent(rows, checkpoint, *, fails=False, **given):
    return evenly.stream_send(rows, to=(lambda row: row.missing) if fails else (lambda _: None), checkpoint=checkpoint, **given)


def seen(folder):
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


FORMS = pytest.mark.parametrize("form", [by_key, by_cost, sent])


@pytest.fixture(scope="module")
def rows(spark, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("rows") / "in")
    spark.range(0, ROWS, 1, 1).selectExpr("id", "concat('u', id % 7) as user").write.parquet(folder)
    return spark.readStream.schema("id long, user string").parquet(folder)


@FORMS
def test_all_take_a_checkpoint_a_trigger_and_a_name_and_return_the_same_handle(rows, tmp_path, form):
    runs = []
    for _ in range(2):
        query = form(rows, tmp_path / "checkpoint", trigger=NOW, query_name="forty rows")
        assert isinstance(query, evenly.RunningQuery)
        assert query.awaitTermination() is True
        assert (query.name, query.isActive, query.exception()) == ("forty rows", False, None)
        assert (query.id, query.runId) == (str(query.query.id), str(query.query.runId))
        assert not query.status["isTriggerActive"]
        runs.append(query)
    first, again = runs
    assert sum(progress.numInputRows for progress in first.recentProgress) == first.lastProgress.numInputRows == ROWS
    assert sum(progress.numInputRows for progress in again.recentProgress) == 0, "the checkpoint has them"
    assert (first.id, first.runId != again.runId) == (again.id, True)


@pytest.mark.parametrize(
    ("form", "kept"), [(by_key, {"mapping-000001.json", "versions.json"}), (by_cost, {"costs", "run"}), (sent, {"sending"})]
)
def test_what_is_kept_beside_a_checkpoint_is_in_its_folder_evenly(rows, tmp_path, form, kept):
    form(rows, tmp_path, trigger=NOW).awaitTermination()
    of_spark = {"commits", "metadata", "offsets", "sources", "state"}
    assert seen(tmp_path) <= {*of_spark, "evenly"}
    assert seen(tmp_path / "evenly") == kept


@FORMS
def test_a_query_without_an_end_is_waited_for_processed_and_stopped(rows, tmp_path, form):
    query = form(rows, tmp_path / "checkpoint")
    assert query.name is None
    query.processAllAvailable()
    assert query.isActive
    assert query.awaitTermination(0.01) is False
    query.stop()
    assert query.awaitTermination(60) is True
    assert not query.isActive


@pytest.mark.parametrize(("form", "kind"), [(by_key, DestinationFailed), (by_cost, FunctionFailed), (sent, DestinationFailed)])
def test_errors_of_ours_are_raised_as_their_class(spark, rows, tmp_path, form, kind):
    query = form(rows, tmp_path / "checkpoint", trigger=NOW, fails=True)
    with pytest.raises(kind) as caught:
        query.awaitTermination()
    assert type(caught.value.__cause__).__name__ == "StreamingQueryException"
    assert type(query.exception()) is kind
    with pytest.raises(kind):
        query.processAllAvailable()
    with pytest.raises(kind):
        evenly.await_any_termination(spark)


@FORMS
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"trigger": "availableNow"}, r"trigger must be what writeStream\.trigger takes.*got 'availableNow'"),
        ({"trigger": {"avialableNow": True}}, "got {'avialableNow': True}.*avialableNow"),
        ({"trigger": {"processingTime": "soon"}}, "got {'processingTime': 'soon'}"),
        ({"trigger": {"availableNow": True, "once": True}}, "got {'availableNow': True, 'once': True}"),
        ({"trigger": {}}, "got {}"),
        ({"query_name": " "}, "query_name must be a name, or None, got ' '"),
        ({"query_name": 5}, "query_name .*got 5"),
    ],
)
def test_a_bad_trigger_or_name_is_said_before_anything_is_written(rows, tmp_path, form, given, told):
    with pytest.raises(InvalidParameter, match=told):
        form(rows, tmp_path / "checkpoint", **given)
    assert not (tmp_path / "checkpoint").exists()


@FORMS
@pytest.mark.parametrize("checkpoint", [None, "", 7])
def test_a_checkpoint_is_a_path(rows, tmp_path, monkeypatch, form, checkpoint):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidParameter, match=f"checkpoint must be the path of a folder .*got {checkpoint!r}"):
        form(rows, checkpoint)
    assert list(tmp_path.iterdir()) == []


def test_what_build_has_set_stays_where_nothing_else_is_given(rows, tmp_path):
    def named(placed):
        return placed.writeStream.format("noop").queryName("of build").trigger(availableNow=True)

    def endless(placed):
        return placed.writeStream.format("noop").queryName("of build").trigger(processingTime="1 hour")

    options = {"key": "user", "instances": 2, "controller": False, "look": False}
    query = evenly.stream_by_key(rows, named, checkpoint=tmp_path / "one", **options)
    assert query.awaitTermination(60)
    assert query.name == "of build"
    query = evenly.stream_by_key(rows, endless, checkpoint=tmp_path / "two", trigger=NOW, **options)
    assert query.awaitTermination(60), "the trigger that was given is the one"
    assert query.name == "of build"
    query = evenly.stream_by_key(rows, named, checkpoint=tmp_path / "three", query_name="given", **options)
    assert query.awaitTermination(60)
    assert query.name == "given"
