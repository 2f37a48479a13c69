"""`balance="time", remember=`: groups are counted once, and later runs place by what was measured and follow its changes."""

import json
import logging
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidParameter
from evenly.instances import Slots
from evenly.keys import keeping
from evenly.keys.keeping import Keeping
from evenly.remembered import Remembered
from evenly.spark.jvm.outcomes import settle
from evenly.spark.keyed import choosing, group_learning
from evenly.spark.remembering import times

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

SCHEMA = "user int, n long"


@pytest.fixture
def counts(monkeypatch):
    """How often groups were counted."""
    seen = []
    loads = group_learning.GroupLoads

    def noted(*args):
        seen.append(args)
        return loads(*args)

    monkeypatch.setattr(group_learning, "GroupLoads", noted)
    return seen


@pytest.fixture
def steady(monkeypatch):
    """Whatever the clock says of groups that take nothing, instances are taken to be as even as was promised."""
    monkeypatch.setattr(keeping, "TIME_DRIFT_PCT", 1e9)


@pytest.fixture(scope="module")
def rows(spark):
    """Groups of 1 to 19 rows and one of 40."""
    return spark.range(140).selectExpr("cast(if(id < 100, floor(sqrt(id)), 77) as int) as user", "id as v").cache()


def size(key, group):
    return pd.DataFrame({"user": [key[0]], "n": [len(group)]})


def squared(part):
    time.sleep(2e-6 * len(part) ** 2)
    return pd.DataFrame({"n": [len(part)]})


MERGING = evenly.Merging(
    lambda part: pd.DataFrame({"n": [len(part)]}),
    lambda parts: pd.DataFrame({"n": [sum(int(part["n"].iloc[0]) for part in parts)]}),
    "n long",
)


def kept(spark, folder):
    settle(spark)
    return [Remembered.load(it) for it in sorted(Path(folder).glob("*.json"))]


def parts_of(told):
    """The times and the mapping of a file."""
    content = json.loads(told.content)
    return evenly.GroupTimes.from_json(content["times"]), content["mapping"]


def found(df):
    return Counter(map(tuple, df.collect()))


def applied(rows, folder, function=size, instances=2, **more):
    options = {"key": "user", "instances": instances, "balance": "time", "remember": folder}
    return evenly.apply_by_key(rows, function, SCHEMA, **options, **more)


def aggregated(rows, folder, instances=2, **more):
    return evenly.aggregate_by_key(rows, MERGING, key="user", instances=instances, balance="time", remember=folder, **more)


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize("run", [applied, aggregated])
def test_groups_are_counted_in_the_first_run_alone(spark, rows, counts, tmp_path, run):
    wanted = found(rows.groupBy("user").count())
    for number in range(3):
        watch = evenly.TimeWatch() if number else None  # who does not watch remembers too
        result = run(rows, tmp_path, **({"watch": watch} if watch else {}))
        assert found(result) == wanted
        if watch is not None:
            assert watch.mapping.instances == 2  # not in pieces any more
    assert len(counts) == 1
    (told,) = kept(spark, tmp_path)
    assert [(it.did, it.rows) for it in told.runs] == [("learnt", 140.0), ("kept", 140.0), ("kept", 140.0)]
    assert told.runs[0].promised_pct is None
    assert told.runs[1].promised_pct is not None
    known, _ = parts_of(told)
    assert known.columns == ("user",)
    assert known.groups > len(wanted)  # of each run


def test_a_change_of_times_has_the_next_run_count_anew(spark, rows, counts, tmp_path, monkeypatch, caplog):
    """`keeping_by_time` says what a change is, `tests/property/test_keeping.py` whether it is right."""
    applied(rows, tmp_path).collect()
    judged = []

    def changed(promised_s, busy_s, *, groups):
        judged.append((promised_s.size, busy_s.size, groups > 0.0))
        return Keeping(anew=True, why="they have changed", promised_pct=1.0, carried_pct=50.0, rows=7.0)

    with monkeypatch.context() as changing:
        changing.setattr(times, "keeping_by_time", changed)
        applied(rows, tmp_path).collect()
        (told,) = kept(spark, tmp_path)
    assert judged == [(2, 2, True)]
    assert told.anew == "they have changed"
    assert "the next run learns anew" in caplog.text
    assert found(applied(rows, tmp_path)) == found(rows.groupBy("user").count())
    assert [len(estimates.curves) for estimates, *_ in counts] == [0, 3]  # by what is known of times
    (again,) = kept(spark, tmp_path)
    assert [it.did for it in again.runs] == ["learnt", "kept", "learnt"]
    assert parts_of(again)[0].groups > parts_of(told)[0].groups  # and that is not lost


def test_what_was_not_told_is_learnt_again(spark, rows, counts, tmp_path):
    result = applied(rows, tmp_path)
    result.take(1)  # says nothing of how even instances are
    (told,) = kept(spark, tmp_path)
    assert told.runs == ()
    assert "no run has told" in told.anew
    with pytest.raises(Exception, match="no such thing"):
        applied(rows, tmp_path, lambda group: group["no such thing"]).collect()
    assert len(counts) == 2
    last = applied(rows, tmp_path)
    last.take(1)
    last.count()
    last.count()
    (told,) = kept(spark, tmp_path)
    assert (told.anew, [it.rows for it in told.runs]) == (None, [140.0])


def test_instances_are_told_apart_where_one_task_runs_several(spark, rows, tmp_path):
    for _ in range(2):
        watch = evenly.TimeWatch()
        applied(rows, tmp_path, watch=watch).coalesce(1).collect()
        assert (watch.busy_s > 0.0).all()
        assert sum(report.all_rows for report in watch.reports) == 140
    (told,) = kept(spark, tmp_path)
    assert [it.did for it in told.runs] == ["learnt", "kept"]
    assert all(it.carried_pct < 99.0 for it in told.runs)


@pytest.mark.usefixtures("steady")
def test_another_number_of_instances_needs_no_other_count_where_keys_stay_whole(spark, rows, counts, tmp_path):
    wanted = found(rows.groupBy("user").count())
    for instances in (2, 3, "auto", 1):
        watch = evenly.TimeWatch()
        assert found(applied(rows, tmp_path, instances=instances, watch=watch)) == wanted
        assert len(counts) == 1
        assert instances in ("auto", watch.instances)
    assert len(kept(spark, tmp_path)) == 1
    for instances in (2, 3, 3):
        assert found(aggregated(rows, tmp_path, instances)) == wanted
    assert len(counts) == 3  # parts of keys need their rows
    uses = {it.subject.use: str(it.subject) for it in kept(spark, tmp_path)}
    assert uses == {
        "times": "times of groups by user int",
        "times-of-parts": "times of groups whose keys may be split by user int",
    }


@pytest.mark.parametrize("content", ["{}", '{"times": "{}", "mapping": null}', "no json", '{"times": 7, "mapping": 7}'])
def test_damage_is_learnt_anew_with_a_warning(spark, rows, counts, tmp_path, caplog, content):
    applied(rows, tmp_path).collect()
    (told,) = kept(spark, tmp_path)
    path = tmp_path / told.subject.file_name
    Remembered(told.subject, content, "x", "now", "why").save(path)
    with caplog.at_level(logging.WARNING, "evenly"):
        assert applied(rows, tmp_path).count() == rows.select("user").distinct().count()
    assert "cannot be used" in caplog.text
    assert len(counts) == 2
    assert parts_of(kept(spark, tmp_path)[0])[1] is not None


def test_another_key_an_empty_input_and_what_makes_no_sense(spark, rows, counts, tmp_path):
    assert applied(rows.limit(0), tmp_path).count() == 0
    assert found(applied(rows, tmp_path)) == found(rows.groupBy("user").count())
    assert len(counts) == 2  # of no groups nothing was learnt
    wider = rows.withColumn("user", F.col("user").cast("long"))
    evenly.apply_by_key(wider, size, SCHEMA, key="user", instances=2, balance="time", remember=tmp_path).collect()
    assert len(kept(spark, tmp_path)) == 2
    for wrong in ({"times": evenly.GroupTimes()}, {"weight": "v"}, {"watch": evenly.CostWatch()}):
        with pytest.raises(InvalidParameter):
            applied(rows, tmp_path, **wrong)
    watch = evenly.TimeWatch()
    applied(rows, tmp_path, watch=watch).collect()
    with pytest.raises(InvalidParameter, match="another call"):
        applied(rows, tmp_path, watch=watch)
    assert len(kept(spark, tmp_path)) == 2


def test_two_jobs_at_once_and_one_that_is_forgotten_meanwhile(spark, rows, tmp_path):
    first, second = applied(rows, tmp_path), applied(rows, tmp_path)
    first.collect()  # the second has begun since: its learning stays
    assert kept(spark, tmp_path)[0].runs == ()
    second.collect()
    (told,) = kept(spark, tmp_path)
    assert len(told.runs) == 1
    both = [applied(rows, tmp_path), applied(rows, tmp_path)]
    for each in both:
        each.collect()
    (told,) = kept(spark, tmp_path)
    assert len(told.runs) == 3  # what both measured is there
    late = applied(rows, tmp_path)
    (tmp_path / told.subject.file_name).unlink()
    late.collect()
    assert kept(spark, tmp_path) == []


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize("run", [applied, aggregated])
def test_instances_without_groups_and_a_union_are_no_reason_to_count_again(spark, rows, counts, tmp_path, run):
    few = rows.where("user in (1, 2)")
    for _ in range(2):
        watch = evenly.TimeWatch()
        result = run(few, tmp_path, instances=5, watch=watch)
        other = spark.range(3).selectExpr("cast(id + 90 as int) as user", "id as n")
        assert found(other.union(result)) == found(other) + found(few.groupBy("user").count())
        assert (watch.busy_s.size, len(watch.reports)) == (5, watch.mapping.instances)
    assert len(counts) == 1
    (told,) = kept(spark, tmp_path)
    assert [it.did for it in told.runs] == ["learnt", "kept"]


def test_what_is_measured_goes_to_the_folder_of_its_own_call_alone(spark, rows, tmp_path):
    applied(rows, tmp_path).collect()
    watch = evenly.TimeWatch()
    with pytest.raises(InvalidParameter, match="schema"):
        evenly.apply_by_key(rows, size, "no schema", key="user", instances=2, balance="time", remember=tmp_path, watch=watch)
    evenly.apply_by_key(rows, size, SCHEMA, key="user", instances=2, watch=watch).collect()
    (told,) = kept(spark, tmp_path)
    assert len(told.runs) == 1


@pytest.mark.parametrize("wrong", ["times", "mapping", "pieces"])
def test_what_is_of_another_key_or_over_pieces_is_not_placed_by(spark, rows, counts, tmp_path, caplog, wrong):
    applied(rows, tmp_path).collect()
    (told,) = kept(spark, tmp_path)
    content = json.loads(told.content)
    known, mapping = evenly.GroupTimes.from_json(content["times"]), evenly.Mapping.from_json(content["mapping"])
    known.columns = ("other",) if wrong == "times" else known.columns
    mapping = replace(mapping, columns=("other",)) if wrong == "mapping" else mapping
    mapping = replace(mapping, capacities=np.array([0.7, 0.3])) if wrong == "pieces" else mapping
    content = json.dumps({"times": known.to_json(), "mapping": mapping.to_json()})
    replace(told, content=content).save(tmp_path / told.subject.file_name)
    watch = evenly.TimeWatch()
    assert found(applied(rows, tmp_path, watch=watch)) == found(rows.groupBy("user").count())
    assert "cannot be used" in caplog.text
    assert len(counts) == 2
    assert watch.times.columns == ("user",)


def test_of_frames_that_are_never_computed_one_keeps_what_was_counted(spark, rows, tmp_path):
    frames = [applied(rows, tmp_path) for _ in range(3)]
    assert len(frames) == 3
    assert sum(run.known_after is not None for run in times._counting.values()) == 1
    frames[0].collect()  # what it was placed by is not there any more
    (told,) = kept(spark, tmp_path)
    assert told.runs == ()
    frames[2].collect()
    assert len(kept(spark, tmp_path)[0].runs) == 1


@pytest.mark.usefixtures("steady")
def test_short_work_on_many_slots_whose_keys_are_split_is_not_counted_in_each_run(spark, counts, tmp_path, monkeypatch):
    monkeypatch.setattr(choosing, "session_slots", lambda _spark: Slots(64, "64 tasks can run at once"))
    hot = spark.range(600).selectExpr("if(id < 400, 1, id % 50) as user", "id as v").cache()
    slow = evenly.Merging(squared, MERGING.merge, "n long")
    numbers = []
    for _ in range(3):
        watch = evenly.TimeWatch()
        options = {"key": "user", "balance": "time", "remember": tmp_path, "watch": watch}
        assert found(evenly.aggregate_by_key(hot, slow, **options)) == found(hot.groupBy("user").count())
        numbers.append(watch.instances)
    assert numbers[0] == 64
    assert numbers[1] == numbers[2] < 64
    assert len(counts) == 1
