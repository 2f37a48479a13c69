"""`evenly simulate shuffle` on a user's own file, and the comparison behind it."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from command import told
from evenly.errors import EmptyStream, InvalidCost, InvalidParameter
from evenly.lab.simulation.catalogue import SHUFFLE
from evenly.lab.simulation.shuffle import best_of, compare_shuffle
from evenly.streams import spread_costs, zipf
from page_texts import runs_nothing

ROWS = 8_000


@pytest.fixture(scope="module")
def table():
    ranks = zipf(1.0, 500).draw_ranks(ROWS, np.random.default_rng(1))
    costs = spread_costs(500, seed=1)[ranks]
    return pa.table({"user": [f"user {rank}" for rank in ranks], "ms": costs, "us": costs * 1e3, "zero": np.zeros(ROWS)})


@pytest.fixture(scope="module", params=["parquet", "csv"])
def file(request, table, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / f"rows.{request.param}"
    pq.write_table(table, path) if request.param == "parquet" else pa_csv.write_csv(table, path)
    return path


@pytest.fixture
def run(monkeypatch, capsys):
    return partial(told, monkeypatch, capsys, "simulate", "shuffle")


def test_json_has_every_grouping_number_of_instances_and_load(run, file):
    options = ("--key", "user", "--cost", "ms", "--json", "--instances", "1,5", "--load", "90,100")
    code, out, _ = run(file, *options, "--grouping", "evenly,round-robin", "--grouping", "least-work")
    assert code == 0
    printed = json.loads(out)
    assert printed["command"] == "simulate shuffle"
    assert printed["parameters"]["loads_pct"] == [90.0, 100.0]
    results = printed["results"]
    assert len(results) == 3 * 2 * 2
    fields = {"grouping", "instances", "load_pct", "completion_ms_mean", "completion_ms_p99", "speedup_mean", "messages"}
    assert all(fields | {"memory_bytes"} == row.keys() for row in results)
    by = {(row["grouping"], row["instances"], row["load_pct"]): row for row in results}
    assert all(by["round-robin", k, load]["speedup_mean"] == 1.0 for k in (1, 5) for load in (90.0, 100.0))
    assert by["evenly", 1, 100.0]["speedup_mean"] == 1.0
    assert 1.2 < by["evenly", 5, 100.0]["speedup_mean"] < by["least-work", 5, 100.0]["speedup_mean"]
    assert by["evenly", 5, 90.0]["completion_ms_mean"] < by["evenly", 5, 100.0]["completion_ms_mean"]


def test_the_unit_of_costs_changes_nothing_but_the_unit(run, file):
    options = ("--key", "user", "--json", "--instances", "4", "--load", "100", "--grouping", "evenly")
    in_ms, in_us = (
        json.loads(run(file, *options, "--cost", unit, "--unit", unit)[1])["results"][0]["completion_ms_mean"]
        for unit in ("ms", "us")
    )
    assert in_ms == pytest.approx(in_us)


def test_people_get_a_table_the_best_and_a_page(run, file, tmp_path):
    page = tmp_path / "page.html"
    code, out, _ = run(file, "--key", "user", "--cost", "ms", "--instances", "5", "--load", "100", "--page", page)
    assert code == 0
    shown = " ".join(out.split())
    assert "least-work *" in shown
    assert "a bound, not a choice" in shown
    assert "Best on 5 instances: shortest-queue at 100 %" in shown or "Best on 5 instances: evenly at 100 %" in shown
    text = page.read_text()
    assert "<svg" in text
    assert "completion time of a row" in text
    assert runs_nothing(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--key", "nobody", "--cost", "ms"], "has no column 'nobody': it has user, ms, us, zero"),
        (["--key", "user", "--cost", "nothing"], "has no column 'nothing'"),
        (["--key", "user", "--cost", "user"], "--cost must name a column of numbers, and 'user' has type string"),
        (["--key", "user", "--cost", "zero"], "all costs are 0"),
        (["--key", "user", "--cost", "ms", "--grouping", "best"], "there is no shuffle grouping 'best': choose from evenly"),
        (["--key", "user", "--cost", "ms", "--load", "0"], "a load must be above 0 and at most 1000 %, got 0.0"),
        (["--key", "user", "--cost", "ms", "--load", "nan"], "a load must be above 0 and at most 1000 %, got nan"),
        (["--key", "user", "--cost", "ms", "--load", "many"], "--load must be numbers with commas between"),
        (["--key", "user", "--cost", "ms", "--unit", "h"], "--unit must be one of s, ms, us, ns, got 'h'"),
        (["--key", "user", "--cost", "ms", "--instances", "0"], "instances must be a whole number from 1 to 10000, got 0"),
        (["--key", "user", "--cost", "ms", "--schedulers", "0"], "schedulers must be a whole number from 1 to 1000, got 0"),
        (["--key", "user", "--cost", "ms", "--page", "no/such/p.html"], "--page must name a file in a folder that exists"),
    ],
)
def test_a_bad_option_gives_one_sentence(run, file, options, said):
    code, out, err = run(file, *options)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_a_file_without_rows_and_one_that_is_not_there(run, table, tmp_path):
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    assert "has no rows" in run(tmp_path / "none.parquet", "--key", "user", "--cost", "ms")[2]
    assert "is not a file" in run(tmp_path / "nowhere.parquet", "--key", "user", "--cost", "ms")[2]


def test_every_grouping_can_be_compared_with_several_schedulers_and_random_arrivals():
    keys, costs = np.arange(600) % 50, 1.0 + np.arange(600) % 7
    options = {"groupings": list(SHUFFLE), "instances": [3], "loads_pct": [95.0], "schedulers": 2, "poisson": True}
    done = []
    outcomes = compare_shuffle(keys, costs, **options, progress=done.append)
    assert [one.grouping for one in outcomes] == list(SHUFFLE)
    assert done == [1] * len(SHUFFLE)
    assert outcomes == compare_shuffle(keys, costs, **options)
    assert outcomes != compare_shuffle(keys, costs, **options, seed=1)
    assert best_of(outcomes).grouping not in {"full-knowledge", "least-work"}


def test_costs_that_cannot_be_are_refused():
    options = {"groupings": ["evenly"], "instances": [2], "loads_pct": [95.0]}
    for costs in ([1.0, -1.0], [1.0, np.nan], [1.0, np.inf], [1.0]):
        with pytest.raises(InvalidCost):
            compare_shuffle([1, 2], costs, **options)
    with pytest.raises(EmptyStream):
        compare_shuffle([], [], **options)
    with pytest.raises(InvalidParameter):
        compare_shuffle([1], [1.0], groupings=["dkg"], instances=[2], loads_pct=[95.0])
